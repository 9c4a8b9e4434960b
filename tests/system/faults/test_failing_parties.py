"""A failing party never means a hang: it dies, answers late, lies, sends garbage."""

import threading
import time

import numpy as np
import pytest

from fedsift.crypto.wire import Ciphertexts
from fedsift.engine import run_local
from fedsift.engine.session import Address, Session
from fedsift.errors import AlignmentError, BadFrame, FedsiftError, PartyFailed, UndeclaredFlow
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as wire
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import Codec, PublicArray, handles
from helpers.arrays import bank_and_registry, labelled
from helpers.toy_protocol import TOY, Answerer, Asker, Helper

PARAMS = Params(score="gini", n_features_to_select=1, seed=0)
SECRET = "s3cr3t-cell"


def nodes_with(replacement, rows=60):
    """A federation whose feature holder is replaced by a misbehaving one."""
    X, y = labelled(rows, 3)
    federation = bank_and_registry(X, y)
    nodes = filters.build_nodes(
        federation.tables, federation.label_holder, federation.target, federation.n_rows, PARAMS
    )
    return {**nodes, "bank": (replacement(federation.tables["bank"], PARAMS),)}


class Crashing(filters.FeatureHolder):
    @handles(wire.Introduction)
    async def offer(self, ask, net):
        raise RuntimeError(f"row 7 holds {SECRET}")


class Stuck(filters.FeatureHolder):
    released = threading.Event()

    @handles(wire.EncryptedLabels)
    async def answer(self, ask, net):
        self.released.wait(60)  # busy, not awaiting: cannot be cancelled from outside
        return await super().answer(ask, net)


class Garbling(filters.FeatureHolder):
    @handles(wire.EncryptedLabels)
    async def answer(self, ask, net):
        honest = await super().answer(ask, net)
        blobs = tuple(bytes(len(blob)) for blob in honest.scores.blobs)
        return wire.SealedScores(Ciphertexts("bgv", blobs))


class Shrinking(filters.FeatureHolder):
    @handles(wire.EncryptedLabels)
    async def answer(self, ask, net):
        honest = await super().answer(ask, net)
        return wire.SealedScores(Ciphertexts("bgv", honest.scores.blobs[:-1]))


class Confused(filters.FeatureHolder):
    @handles(wire.EncryptedLabels)
    async def answer(self, ask, net):
        return wire.OpenScores(PublicArray.of(np.zeros(3)))


class SendingNaN(filters.FeatureHolder):
    @handles(wire.ScoresWanted)
    async def open_scores(self, ask, net):
        return wire.OpenScores(PublicArray.of(np.array([np.nan, 0.0, 0.0])))


def test_an_exception_becomes_one_clear_failure_without_data():
    with pytest.raises(PartyFailed) as caught:
        run_local(filters.PROTOCOL, nodes_with(Crashing))
    error = caught.value
    assert (error.party, error.message, error.round_number) == ("bank", "Introduction", 1)
    assert error.exit_code == 3
    assert SECRET not in str(error)
    assert "RuntimeError" in str(error)


def test_a_late_answer_runs_into_the_timeout():
    start = time.perf_counter()
    with pytest.raises(PartyFailed, match=r"no answer within 0\.5 seconds"):
        run_local(filters.PROTOCOL, nodes_with(Stuck), timeout_seconds=0.5)
    # The stuck party is left behind; nobody waits for its minute.
    assert time.perf_counter() - start < 50
    Stuck.released.set()


@pytest.mark.parametrize("liar", [Garbling, Shrinking])
def test_ciphertexts_that_are_none_are_refused(liar):
    with pytest.raises(PartyFailed, match="'bank' failed") as caught:
        run_local(filters.PROTOCOL, nodes_with(liar))
    assert caught.value.exit_code == 3
    assert caught.value.cause_code == "E302"


def test_an_answer_of_another_type_is_refused():
    with pytest.raises(PartyFailed, match="not valid"):
        run_local(filters.PROTOCOL, nodes_with(Confused))


def test_nan_in_an_answer_is_refused():
    X, _ = labelled(60, 3)
    params = Params(score="variance", n_features_to_select=1, seed=0)
    federation = bank_and_registry(X, np.arange(60) % 2)
    nodes = filters.build_nodes(federation.tables, "label-holder", None, 60, params)
    nodes = {**nodes, "bank": (SendingNaN(federation.tables["bank"], params),)}
    with pytest.raises(PartyFailed, match="NaN"):
        run_local(filters.PROTOCOL, nodes)


def test_rows_that_differ_are_noticed_by_the_feature_holder():
    X, y = labelled(60, 3)
    federation = bank_and_registry(X, y)
    nodes = filters.build_nodes(
        federation.tables, "label-holder", federation.target, federation.n_rows, PARAMS
    )
    shorter = federation.tables["bank"].take(np.arange(50))
    nodes = {**nodes, "bank": (filters.FeatureHolder(shorter, PARAMS),)}
    with pytest.raises(PartyFailed, match="60 rows, this party 50") as caught:
        run_local(filters.PROTOCOL, nodes)
    assert caught.value.cause_code == AlignmentError.code


def test_no_thread_outlives_an_honest_run():
    X, y = labelled(60, 3)
    federation = bank_and_registry(X, y)
    nodes = filters.build_nodes(
        federation.tables, "label-holder", federation.target, federation.n_rows, PARAMS
    )
    before = set(threading.enumerate())
    run_local(filters.PROTOCOL, nodes)
    assert set(threading.enumerate()) <= before


def test_a_role_may_ask_others_while_it_answers_and_replies_come_in_party_order():
    nodes = {"a": (Asker(),), "z": (Answerer(),), "b": (Answerer(),), "h": (Helper(),)}
    outcome = run_local(TOY, nodes)
    assert outcome.value == [33, 33]
    assert outcome.transcript.traffic().rounds == 3
    assert {(r.learner, r.kind) for r in outcome.ledger.rows()} == {
        ("a", "answers"),
        ("z", "hints"),
        ("b", "hints"),
    }


def test_asking_nobody_or_a_stranger_is_refused():
    with pytest.raises(UndeclaredFlow, match="nobody"):
        run_local(TOY, {"a": (Asker("helper"),)})


def test_an_undeclared_flow_is_refused():
    nodes = {"a": (Asker("helper"),), "h": (Helper(),)}
    with pytest.raises(UndeclaredFlow, match="declared asker -> answerer"):
        run_local(TOY, nodes)


def test_fuzzed_frames_never_crash_a_role():
    """Whatever arrives at a role, the session answers with the protocol's own error."""
    rng = np.random.default_rng(0)
    session = Session(filters.PROTOCOL, {"a": ("label holder",), "b": ("feature holder",)})
    codec = Codec(filters.PROTOCOL.messages)
    honest = codec.encode(wire.Selected((1, 2, 3)))
    there = Address("b", "feature holder")
    refused = 0
    for _ in range(500):
        frame = bytearray(honest)
        for _ in range(rng.integers(1, 6)):
            frame[rng.integers(len(frame))] = rng.integers(256)
        try:
            session.open(bytes(frame), there, session.inbound("feature holder"))
        except BadFrame:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("seed", range(12))
def test_frames_damaged_on_the_way_end_the_run_with_our_own_error(seed, monkeypatch):
    """Every frame of a run may be hit; what comes out is a clear error or an unharmed result."""
    rng = np.random.default_rng(seed)
    seal = Session.seal

    def damaged(self, message, sender, receiver):
        frame = bytearray(seal(self, message, sender, receiver))
        if rng.random() < 0.4:
            # The first kilobyte holds structure, the rest is mostly ciphertext.
            frame[rng.integers(min(len(frame), 1000))] = rng.integers(256)
        return bytes(frame)

    monkeypatch.setattr(Session, "seal", damaged)
    X, y = labelled(60, 3)
    federation = bank_and_registry(X, y)
    nodes = filters.build_nodes(
        federation.tables, "label-holder", federation.target, federation.n_rows, PARAMS
    )
    try:
        outcome = run_local(filters.PROTOCOL, nodes, timeout_seconds=20)
    except FedsiftError as error:
        assert error.exit_code in (2, 3, 4)
    else:
        assert set(outcome.value.scores) == {"bank"}
