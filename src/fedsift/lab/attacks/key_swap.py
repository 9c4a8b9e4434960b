# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A coordinator that swaps the keys it passes on.

Method    filter, dcfs and fpso on rows of the same columns; the setup of any joint run; fedsdg.
Leak      Members agree on masks and deal secrets under keys that travel through the coordinator,
          which between organisations is the hub. One that puts keys of its own in their place
          shares every mask and opens every secret; it adds the masks up again, and the run ends as
          if nothing had happened (:class:`KeySwapper`).
Fix       A key carries a proof for each receiver under the keys that organisations have pinned of
          each other (:mod:`fedsift.crypto.identity`). A swapped one is refused before anything is
          sent under it, and the run ends with an error that says so.
Remains   Nothing. In one process nothing is pinned: whoever runs all parties has their data anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedsift.crypto import shuffle
from fedsift.crypto.checked_sums import PRIME, pack, unpack
from fedsift.crypto.envelope import OrganisationKey
from fedsift.crypto.identity import Identity
from fedsift.crypto.masking import (
    SCHEME,
    MaskingKey,
    PairwiseMasks,
    to_limbs,
    unmask_modulo,
    unmask_sum,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import Federation
from fedsift.errors import PartyFailed
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import RecordingEngine, Twins
from fedsift.maths import moments
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.dcfs import messages as dcfs_messages
from fedsift.methods.dcfs.selector import DCFSSelector
from fedsift.methods.dcfs.settings import anchors_for
from fedsift.methods.filter import coordinator as filters
from fedsift.methods.filter import horizontal_messages as filter_messages
from fedsift.methods.filter.course import context_of
from fedsift.methods.filter.selector import FilterSelector
from fedsift.methods.fpso import messages as fpso_messages
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.local_search import ACCURACY_STEPS, digest_of
from fedsift.methods.fpso.selector import FPSOSelector
from fedsift.protocol import MaskedArray, Message, Network, Protocol
from fedsift.protocol.message import Done

Contexts = Mapping[type[Message], Callable[[Any], str]]


class _Unchecked:
    """A seat of somebody who checks nobody's keys."""

    party = ""
    identity: Identity | None = None


_UNCHECKED = _Unchecked()


class KeySwapper:
    """A driver's network that puts keys of its own in the place of those it passes on.

    Parameters
    ----------
    net : Network
        Of the driver.
    contexts : mapping of message type to callable, optional
        Context of the masks in the answer to a message; it is part of the protocol.
    between : bool
        Whether it stands between the driver and the others, whose keys it swaps both ways.

    Attributes
    ----------
    received : list of (str, Message)
        What it got, by sender.
    secrets : list of bytes
        Dealt secrets that it opened.
    numbers : list of (str, str, list of int)
        Numbers it took the masks off: whose, in which context, and what.
    """

    def __init__(
        self, net: Network, contexts: Contexts | None = None, *, between: bool = False
    ) -> None:
        self._net, self._contexts, self._between = net, contexts or {}, between
        self._own: dict[str, MaskingKey] = {}
        self._real: dict[str, PublicKeys] = {}
        self._dealer = net.party
        self.received: list[tuple[str, Message]] = []
        self.secrets: list[bytes] = []
        self.numbers: list[tuple[str, str, list[int]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    async def ask(self, role: str, message: Any, reply: type[Any], **options: Any) -> list[Any]:
        """Swap on the way out, look at what comes back."""
        if isinstance(message, Message):
            message = dict.fromkeys(self._net.members(role), message)
        asked = [party for party in self._net.members(role) if party in message]
        swapped = {party: self._change(message[party], party) for party in asked}
        found = await self._net.ask(role, swapped, reply, **options)
        return [
            self._look(party, self._unmask(party, message[party], one))
            for party, one in zip(asked, found, strict=True)
        ]

    async def tell(self, role: str, message: Any, **options: Any) -> None:
        """Swap on the way out."""
        await self.ask(role, message, Done, **options)

    def _unmask(self, victim: str, asked: Message, reply: Message) -> Message:
        """Take the masks off what one party sent: they are all shared with this liar."""
        changes: dict[str, Any] = {}
        for name in reply.__struct_fields__:
            value = getattr(reply, name)
            if type(asked) not in self._contexts or not isinstance(value, MaskedArray):
                continue
            context, masked = self._contexts[type(asked)](asked), value.array()
            shared = [
                PairwiseMasks(other, key, {victim: self._real[victim]})
                for other, key in self._own.items()
                if other != victim
            ]
            masked = unpack(masked) if masked.ndim == 1 else masked
            zeros = np.zeros(len(masked), dtype=np.int64)
            # Without masks they add up all the same, and the run goes on.
            if masked.ndim == 1:
                theirs = [masks.mask_modulo(zeros, context, PRIME) for masks in shared]
                opened = unmask_modulo([masked, *theirs], PRIME) % PRIME
                numbers, changes[name] = (
                    opened.tolist(),
                    MaskedArray.of(pack(opened.astype(np.uint64))),
                )
            else:
                limbs = masked.shape[1]
                theirs = [masks.mask(zeros.tolist(), context, limbs) for masks in shared]
                numbers = unmask_sum([masked, *theirs], limbs)
                changes[name] = MaskedArray.of(to_limbs(numbers, limbs))
            self.numbers.append((victim, context, numbers))
        return msgspec.structs.replace(reply, **changes) if changes else reply

    def _key(self, owner: str) -> MaskingKey:
        return self._own.setdefault(owner, MaskingKey.generate())

    def _fake(self, owner: str, real: PublicKeys) -> PublicKeys:
        """Another key; the best that can be done about its proofs is to leave them."""
        return PublicKeys(SCHEME, {}, (*self._key(owner).public.blobs, *real.blobs[1:]))

    def _change(self, message: Message, receiver: str) -> Message:
        changes: dict[str, Any] = {}
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if isinstance(value, dict) and any(map(_is_key, value.values())):
                changes[name] = {
                    owner: key if owner == receiver else self._fake(owner, key)
                    for owner, key in value.items()
                }
            elif _is_key(value):
                self._real.setdefault(self._dealer, value)
                changes[name] = self._fake(self._dealer, value)
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if isinstance(value, Ciphertexts) and value.scheme == shuffle.SCHEME:
                self._open(value, receiver)
                dealt = (self._key(self._dealer), _UNCHECKED, receiver, self._real[receiver])
                changes[name] = shuffle.deal(self.secrets[-1], *dealt)
        return msgspec.structs.replace(message, **changes) if changes else message

    def _look(self, party: str, reply: Message) -> Message:
        self.received.append((party, reply))
        changes: dict[str, Any] = {}
        for name in reply.__struct_fields__:
            value = getattr(reply, name)
            if _is_key(value):
                self._real[party] = value
                if self._between:
                    changes[name] = self._fake(party, value)
            elif isinstance(value, dict) and any(
                isinstance(v, Ciphertexts) for v in value.values()
            ):
                self._dealer = party
        return msgspec.structs.replace(reply, **changes) if changes else reply

    def _open(self, sealed: Ciphertexts, receiver: str) -> None:
        """Read a secret that was sealed for the key which the dealer took for the receiver's."""
        real = self._real[self._dealer]
        opened = shuffle.receive(sealed, self._key(receiver), _UNCHECKED, self._dealer, real)
        self.secrets.append(opened)


def _is_key(value: object) -> bool:
    return isinstance(value, PublicKeys) and value.scheme == SCHEME


class _Liar:
    """What a driving role becomes when it swaps keys; stands before the role's own class."""

    liar: KeySwapper
    contexts: ClassVar[Contexts] = {}

    def watch(self) -> None:
        """Nothing to prepare."""

    async def drive(self, net: Network) -> Any:
        """Drive as ever, over a network that swaps keys."""
        self.liar = KeySwapper(net, self.contexts)
        return await super().drive(self.liar)  # type: ignore[misc]


class LyingCoordinator(_Liar, filters.Coordinator):
    """The coordinator of a filter."""

    contexts: ClassVar[Contexts] = {
        filter_messages.SizesWanted: lambda ask: context_of("Sizes", ask.step, ask.after),
        filter_messages.CountsBelow: lambda ask: context_of("Below", ask.step, ask.after),
        filter_messages.CellsWanted: lambda ask: context_of("Cells", ask.step, ask.after),
        filter_messages.TablesWanted: lambda ask: context_of("Tables", ask.step, ask.after),
        filter_messages.MomentsWanted: lambda ask: context_of("Moments", ask.step, ask.after),
    }


class LyingAnchorCoordinator(_Liar, dcfs.Coordinator):
    """The coordinator of DCFS."""

    contexts: ClassVar[Contexts] = {
        dcfs_messages.SumsWanted: lambda _: "sums",
        dcfs_messages.ScoresWanted: lambda _: "scores",
    }


class LyingThirdParty(_Liar, fpso.ThirdParty):
    """The third party of FPSO-FS, in runs of one round: later ones name the common subset."""

    contexts: ClassVar[Contexts] = {
        fpso_messages.SearchWanted: lambda ask: (
            f"subsets {ask.round_number}, guided by {digest_of(None)}"
        ),
        fpso_messages.Candidates: lambda ask: (
            f"candidates {ask.step}: {digest_of(ask.masks.array())}"
        ),
        fpso_messages.Particles: lambda ask: (
            f"particles {ask.step}: {digest_of(ask.masks.array())}"
        ),
    }


LIARS: Twins = {
    filters.Coordinator: LyingCoordinator,
    dcfs.Coordinator: LyingAnchorCoordinator,
    fpso.ThirdParty: LyingThirdParty,
}


class LyingEngine(RecordingEngine):
    """Runs every protocol with a driver that swaps keys, with keys pinned or not."""

    def __init__(self, *, pinned: bool) -> None:
        super().__init__(LIARS)
        self._pinned = pinned
        self.liar: Any = None

    def identities(self, protocol: Protocol, parties: Iterable[str]) -> Mapping[str, Identity]:
        """As organisations have them that pinned each other's keys."""
        if not self._pinned:
            return {}
        keys = {party: OrganisationKey.generate() for party in parties}
        publics = {party: key.public for party, key in keys.items()}
        return {p: Identity(p, key, publics, (protocol.name,)) for p, key in keys.items()}

    def run(self, protocol: Protocol, nodes: Any, **options: Any) -> Any:
        """See :class:`~fedsift.engine.session.Engine`; keeps the liar however the run ends."""
        drivers = [role for roles in nodes.values() for role in roles if type(role) in LIARS]
        try:
            return super().run(protocol, nodes, **options)
        finally:
            self.liar = drivers[0].liar


def _lied_to(selector: Any, parties: Mapping[str, Any], variant: str) -> LyingEngine:
    """Run a selector with a lying driver, to its end or to the refusal."""
    engine = LyingEngine(pinned=variant != UNPROTECTED)
    try:
        selector.run(Federation.horizontal(parties), engine=engine)
    except PartyFailed as error:
        if error.cause_code != "E306":
            raise
    return engine


def _columns(seed: int, n_rows: int = 40) -> dict[str, Any]:
    rng, found = np.random.default_rng(seed), {}
    for number in range(3):
        y = rng.permutation(np.arange(n_rows) % 2)
        found[f"party-{number + 1}"] = (rng.normal(size=(n_rows, 4)) + y[:, None], y)
    return found


def _sums(variant: str, seed: int) -> Trial:
    """Sums by class of one member, under masks that the coordinator shares."""
    parties = _columns(seed)
    engine = _lied_to(FilterSelector("f", n_features_to_select=1), parties, variant)
    X, y = parties["party-1"]
    true = np.stack([X[y == k].sum(axis=0) for k in range(2)], axis=1)
    known = np.full_like(true, np.nan)
    for party, context, numbers in engine.liar.numbers:
        if party == "party-1" and context.startswith("Moments"):
            sums = moments.read_sums(numbers, len(true), 2, numeric=False, complete=True)
            known = np.array([[float(value) for value in column.sums] for column in sums.columns])
    return Trial(float(np.isclose(known, true, rtol=1e-6).mean()), 0.0, job=engine.job)


def _anchors(variant: str, seed: int) -> Trial:
    """Anchors that members draw from a secret the coordinator carries."""
    parties = {name: X for name, (X, _) in _columns(seed).items()}
    selector = DCFSSelector(n_features_to_select=2, n_components=2)
    engine = _lied_to(selector, parties, variant)
    if not engine.liar.secrets or not engine.stages:
        return Trial(0.0, 0.0, job=engine.job)
    members: Any = engine.stages[-1].roles(dcfs.Member)
    victim = members["party-1"]
    scale = victim._known_scale()
    guessed = anchors_for(victim._params, engine.liar.secrets[-1], scale)
    true = anchors_for(victim._params, victim.secret, scale)
    return Trial(float(np.isclose(guessed, true).mean()), 0.0, job=engine.job)


def _accuracies(variant: str, seed: int) -> Trial:
    """Accuracies of single parties, which only a mean over all should show."""
    settings: Any = {"n_particles": 4, "n_iterations": 2, "n_rounds": 1}
    engine = _lied_to(FPSOSelector(**settings), _columns(seed), variant)
    sent = [n for _, context, n in engine.liar.numbers if context.startswith("candidates")]
    found = [0 <= number <= ACCURACY_STEPS for numbers in sent for number in numbers]
    return Trial(float(np.mean(found)) if found else 0.0, 0.0, job=engine.job)


def _attack(name: str, method: str, trial: Callable[[str, int], Trial], **facts: Any) -> Attack:
    return Attack(
        name=name,
        method=method,
        unprotected="keys travel without proofs, as in one process",
        default="organisations have pinned each other's keys",
        trial=trial,
        runs=(1, 3),
        tolerance=0.05,
        **facts,
    )


ATTACKS = (
    _attack(
        "key-swap",
        "filter",
        _sums,
        attacker="coordinator",
        uses=("Greeting", "MaskedSums"),
        aims_at="one member's sums by class, by swapping keys on the way",
        measure="sums known",
    ),
    _attack(
        "key-swap-anchors",
        "dcfs",
        _anchors,
        attacker="coordinator",
        uses=("Greeting", "SecretDealt", "Images"),
        aims_at="the secret anchors of the members, by swapping keys on the way",
        measure="anchors known",
    ),
    _attack(
        "key-swap-accuracies",
        "fpso",
        _accuracies,
        attacker="third party",
        uses=("Greeting", "MaskedAccuracies"),
        aims_at="accuracies of single parties, by swapping keys on the way",
        measure="accuracies read",
    ),
)
