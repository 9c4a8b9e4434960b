"""Proofs of keys: bound to owner, receiver, job, run and protocol, and to the key itself."""

import pickle
from types import SimpleNamespace

import pytest

from fedsift.crypto import shuffle
from fedsift.crypto.envelope import OrganisationKey
from fedsift.crypto.identity import Identity, addressed
from fedsift.crypto.masking import MaskingKey, unmask_sum
from fedsift.crypto.wire import PublicKeys
from fedsift.errors import KeySwapped, ParameterError

NAMES = ("ann", "bob", "cy")
KEYS = {name: OrganisationKey.generate() for name in NAMES}
PUBLICS = {name: key.public for name, key in KEYS.items()}
SCOPE = ("run", "job", "1", "filter")


def seat(name, scope=SCOPE, pinned=PUBLICS):
    return SimpleNamespace(party=name, identity=Identity(name, KEYS[name], pinned, scope))


SEATS = {name: seat(name) for name in NAMES}


def announced():
    keys = {name: MaskingKey.generate() for name in NAMES}
    return keys, {name: key.announce(SEATS[name], NAMES) for name, key in keys.items()}


def test_masks_cancel_and_proofs_for_others_need_not_travel():
    keys, publics = announced()
    masked = []
    for place, (name, key) in enumerate(keys.items()):
        told = addressed(publics, name)
        assert all(len(public.blobs) == 2 for public in told.values())
        masks = key.make_masks(SEATS[name], told, NAMES)
        masked.append(masks.mask([10**place], "round 1"))
    assert unmask_sum(masked) == [111]


def test_a_dealt_secret_arrives():
    keys, publics = announced()
    secret = shuffle.new_secret()
    sealed = shuffle.deal(secret, keys["ann"], SEATS["ann"], "bob", publics["bob"])
    opened = shuffle.receive(sealed, keys["bob"], SEATS["bob"], "ann", publics["ann"])
    assert opened == secret


def _another_key(publics):
    return PublicKeys(
        "x25519", {}, (MaskingKey.generate().public.blobs[0], *publics["bob"].blobs[1:])
    )


def _of_scope(*scope):
    return lambda _: MaskingKey.generate().announce(seat("bob", scope), NAMES)


SWAPPED = {
    "another key with the right proofs": _another_key,
    "no proof": lambda _: MaskingKey.generate().public,
    "a third party's key": lambda publics: publics["cy"],
    "proofs for others": lambda _: MaskingKey.generate().announce(SEATS["bob"], ["cy"]),
    "another run": _of_scope("run 2", *SCOPE[1:]),
    "another job": _of_scope(SCOPE[0], "job 2", *SCOPE[2:]),
    "another protocol": _of_scope(*SCOPE[:3], "dcfs"),
    "names joined another way": _of_scope("runj", "ob", *SCOPE[2:]),
}


@pytest.mark.parametrize("swap", SWAPPED)
def test_a_swapped_key_is_refused_by_masks_and_by_secrets(swap):
    keys, publics = announced()
    publics["bob"] = SWAPPED[swap](publics)
    if swap == "a third party's key":
        publics.pop("cy")
    with pytest.raises(KeySwapped, match="as that of 'bob' was swapped"):
        keys["ann"].make_masks(SEATS["ann"], publics, list(publics))
    with pytest.raises(KeySwapped, match="'bob' was swapped"):
        shuffle.deal(shuffle.new_secret(), keys["ann"], SEATS["ann"], "bob", publics["bob"])
    sealed = shuffle.deal(
        bytes(32), MaskingKey.generate(), SimpleNamespace(identity=None), "", keys["ann"].public
    )
    with pytest.raises(KeySwapped, match="'bob' was swapped"):
        shuffle.receive(sealed, keys["ann"], SEATS["ann"], "bob", publics["bob"])


def test_a_party_whose_key_is_not_pinned_is_refused():
    keys, publics = announced()
    stranger = SimpleNamespace(party="dan", identity=None)
    publics["dan"] = MaskingKey.generate().announce(stranger, NAMES)
    with pytest.raises(KeySwapped, match="'dan'"):
        keys["ann"].make_masks(SEATS["ann"], publics, list(publics))


def test_masks_are_agreed_on_once_and_with_all():
    """A second agreement would repeat masks; one without some parties would open a smaller sum."""
    keys, publics = announced()
    fewer = {name: publics[name] for name in ("ann", "bob")}
    with pytest.raises(ParameterError, match="Keys of 2 parties arrived"):
        keys["ann"].make_masks(SEATS["ann"], fewer, NAMES)
    keys["ann"].make_masks(SEATS["ann"], publics, NAMES)
    with pytest.raises(ParameterError, match="a second time"):
        keys["ann"].make_masks(SEATS["ann"], publics, NAMES)


def test_nothing_of_an_identity_leaks_by_printing_or_pickling():
    identity = SEATS["ann"].identity
    assert repr(identity) == "<identity of 'ann' to 3 parties>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(identity)
