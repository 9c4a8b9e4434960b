"""FedSDG-FS with parties that answer or ask nonsense: who is named, and what is not told."""

import numpy as np
import pytest

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import PartyFailed
from fedsift.methods.fedsdg import messages as wire
from fedsift.methods.fedsdg.feature_holder import FeatureHolder
from fedsift.protocol import DrivingRole, MaskedArray, PublicArray
from helpers.fedsdg import moons, params, parties, run_paper, train

HOLDER = "label-holder"
SCHEMES = ("bgv", "plain")


class Liar(FeatureHolder):
    """Answers with something else than what was asked for."""

    answer = None

    async def handle(self, message, net):
        reply = await super().handle(message, net)
        return self.answer(reply) or reply


def instead(kind, make):
    return lambda reply: make(reply) if isinstance(reply, kind) else None


def masked(shape, value=0, dtype=np.int64):
    return MaskedArray.of(np.full(shape, value, dtype=dtype))


LIES = {
    "short ciphertext": instead(
        wire.EncryptedBatch,
        lambda r: wire.EncryptedBatch(Ciphertexts(r.embedding.scheme, (b"short",)), r.share),
    ),
    "random ciphertext": instead(
        wire.EncryptedBatch,
        lambda r: wire.EncryptedBatch(
            Ciphertexts(r.embedding.scheme, tuple(b"\x07" * len(b) for b in r.embedding.blobs)),
            r.share,
        ),
    ),
    "other scheme": instead(
        wire.EncryptedBatch,
        lambda r: wire.EncryptedBatch(Ciphertexts("paillier", r.embedding.blobs), r.share),
    ),
    "missing share": instead(wire.EncryptedBatch, lambda r: wire.EncryptedBatch(r.embedding, None)),
    "short share": instead(
        wire.EncryptedBatch,
        lambda r: wire.EncryptedBatch(
            r.embedding, r.share and Ciphertexts(r.embedding.scheme, (b"",))
        ),
    ),
    "weights of another shape": instead(
        wire.WeightShare, lambda r: wire.WeightShare(masked((3, 4)))
    ),
    "weights outside the ring": instead(
        wire.WeightShare, lambda r: wire.WeightShare(masked((4, 4), 2**60))
    ),
    "outputs of another shape": instead(
        wire.OutputShare, lambda r: wire.OutputShare(masked((1, 4), dtype=np.uint64))
    ),
    "keys of another layer": instead(
        wire.LayerKeys,
        lambda r: wire.LayerKeys(PublicKeys("plain", {"plain_bits": 7}, ()), r.mask_key, r.used),
    ),
    "columns of another width": instead(
        wire.LayerKeys,
        lambda r: wire.LayerKeys(r.keys, r.mask_key, PublicArray.of(np.ones(9, dtype=bool))),
    ),
}


# Without encryption, any bytes of the right length are numbers.
TOLD = [(lie, scheme) for lie in LIES for scheme in SCHEMES]
TOLD.remove(("random ciphertext", "plain"))


@pytest.mark.parametrize(("lie", "scheme"), TOLD)
def test_a_party_that_answers_nonsense_is_named_and_nothing_else(lie, scheme):
    X, y = moons(80)
    federation, chosen = parties(X, y), params(scheme=scheme, max_epochs=1)
    liar = type("OneLiar", (Liar,), {"answer": staticmethod(LIES[lie])})
    nodes = {"party-2": (liar(federation.tables["party-2"], chosen, 2),)}
    with pytest.raises(PartyFailed) as failed:
        train(federation, chosen, nodes, timeout_seconds=20)
    assert "party-2" in str(failed.value)
    assert_no_values(str(failed.value), X)


def assert_no_values(text, X):
    shown = [f"{value:.4f}" for value in X.ravel()]
    assert not any(value.lstrip("-") in text for value in shown)


class Asking(DrivingRole, name="label holder"):
    """A label holder that asks for what it should not."""

    def __init__(self, rows, n_rows):
        self.rows, self.n_rows = rows, n_rows

    async def drive(self, net):
        everything = np.arange(self.n_rows)
        start = wire.TrainingStart(
            self.n_rows, PublicArray.of(everything[:60]), PublicArray.of(everything[60:]), -1
        )
        await net.ask("feature holder", start, wire.Ready)
        await net.ask("feature holder", wire.LayerWanted(32, 4), wire.LayerKeys)
        ask = wire.BatchWanted(PublicArray.of(np.asarray(self.rows)), True)
        return await net.ask("feature holder", ask, wire.EncryptedBatch)


@pytest.mark.parametrize(
    "rows",
    [[80], [-1], [10**12], [], list(range(33)), [0.5], [[1, 2]], [True]],
    ids=["beyond", "negative", "huge", "none", "too many", "fractions", "two axes", "booleans"],
)
def test_rows_a_party_does_not_have_are_refused(rows):
    X, y = moons(80)
    federation, chosen = parties(X, y, 1), params()
    nodes = {
        HOLDER: (Asking(rows, 80),),
        "party-1": (FeatureHolder(federation.tables["party-1"], chosen, 1),),
    }
    with pytest.raises(PartyFailed, match="party-1") as failed:
        run_paper(nodes, protected=False)
    assert_no_values(str(failed.value), X)


def test_rows_of_another_table_are_refused():
    X, y = moons(80)
    federation = parties(X, y, 1)
    nodes = {
        HOLDER: (Asking([0], 90),),
        "party-1": (FeatureHolder(federation.tables["party-1"], params(), 1),),
    }
    with pytest.raises(PartyFailed, match="party-1"):
        run_paper(nodes, protected=False)
