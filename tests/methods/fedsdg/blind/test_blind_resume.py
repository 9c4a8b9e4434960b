"""A blind training that loses its helper: who is named, and that nothing is used twice after it."""

import asyncio

import numpy as np
import pytest

from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import PartyFailed
from fedsift.methods.fedsdg.blind import label_holder as blind
from fedsift.methods.fedsdg.blind import messages as wire
from fedsift.methods.fedsdg.blind.feature_holder import BlindFeatureHolder
from fedsift.methods.fedsdg.blind.numbers import ring
from fedsift.methods.fedsdg.blind.tables import HeldTable, PartnerTable
from fedsift.protocol import MaskedArray
from helpers.blind import params, train
from helpers.fedsdg import moons, parties

TIMES = 9
"""How often the helper answers before it is gone: in the middle of the second opening."""


LIMIT = 5.0
"""Seconds to wait for an answer."""


class Noted:
    """Everything of one run that must not come back in another."""

    def __init__(self):
        self.numbers, self.blobs = set(), set()

    def note(self, value):
        if isinstance(value, Ciphertexts | PublicKeys):
            self.blobs.update(value.blobs)
        elif isinstance(value, MaskedArray):
            self.numbers.update(value.array().ravel().tolist())
        elif isinstance(value, tuple | list):
            for one in value:
                self.note(one)
        elif isinstance(value, dict):
            self.note(list(value.values()))
        elif isinstance(value, np.ndarray):
            self.numbers.update(value.ravel().tolist())


@pytest.fixture
def noted(monkeypatch):
    """Masks and everything that travels, run by run."""
    runs = [Noted()]

    def noting(kind, name):
        original = getattr(kind, name)

        def wrapped(self, *arguments):
            found = original(self, *arguments)
            runs[-1].note(found)
            return found

        monkeypatch.setattr(kind, name, wrapped)

    noting(PartnerTable, "mask")
    noting(HeldTable, "_mask")
    noting(PartnerTable, "seal")
    handle = BlindFeatureHolder.handle

    async def handled(self, message, net):
        reply = await handle(self, message, net)
        for sent in (message, reply):
            for name in getattr(sent, "__struct_fields__", ()):
                # Without encryption, shares of the checkpoint are sent as they are.
                if name not in ("gates", "before"):
                    runs[-1].note(getattr(sent, name))
        return reply

    monkeypatch.setattr(BlindFeatureHolder, "handle", handled)
    return runs


def silent_helper(monkeypatch, times):
    """The helper stops answering after so many batches."""
    square, seen = BlindFeatureHolder.square, []

    async def squared(self, ask, net):
        seen.append(net.party)
        if len(seen) > times:
            await asyncio.sleep(60)
        return await square(self, ask, net)

    handlers = dict(BlindFeatureHolder.handlers)
    handlers[wire.SquaresWanted] = squared
    monkeypatch.setattr(BlindFeatureHolder, "handlers", handlers)
    return seen


def end_process(nodes):
    """What the system does when a process ends: its files are no longer in use."""
    for (role,) in nodes.values():
        role._checkpoints.release()


def made_nodes(federation, settings, place):
    return blind.build_nodes(
        federation.tables,
        federation.label_holder,
        federation.target,
        settings,
        checkpoints=place,
    )


@pytest.mark.parametrize("n_parties", [1, 3])
def test_a_helper_that_is_gone_is_named_and_nothing_is_used_twice(
    n_parties, tmp_path, monkeypatch, noted
):
    federation = parties(*moons(), n_parties)
    settings = params(n_openings=4, seed=None)
    with monkeypatch.context() as broken:
        seen = silent_helper(broken, TIMES)
        nodes = made_nodes(federation, settings, tmp_path)
        with pytest.raises(PartyFailed, match="no answer within") as failed:
            train(federation, settings, nodes, timeout_seconds=LIMIT)
    end_process(nodes)
    helper = nodes[federation.label_holder][0]._layer.helper
    assert failed.value.party == helper == seen[-1]
    assert failed.value.message == "SquaresWanted"
    first = noted[0]
    noted.append(Noted())
    nodes = made_nodes(federation, settings, tmp_path)
    outcome, nodes = train(federation, settings, nodes)
    holder = nodes[federation.label_holder][0]
    assert holder._layer.helper == helper  # who has the other share of the network
    assert len(outcome.value.history) == settings.n_openings
    second = noted[1]
    assert len(first.numbers) > 1000 < len(second.numbers)
    # Small numbers, such as those of rows and shapes, are in both runs.
    shared = first.numbers & second.numbers
    assert sum(number > 1000 for number in shared) < 4
    assert not first.blobs & second.blobs


def test_shares_after_a_resume_are_those_of_the_checkpoint(tmp_path, monkeypatch):
    federation = parties(*moons(), 2)
    settings = params(n_openings=4)
    with monkeypatch.context() as broken:
        silent_helper(broken, TIMES)
        nodes = made_nodes(federation, settings, tmp_path)
        with pytest.raises(PartyFailed):
            train(federation, settings, nodes, timeout_seconds=LIMIT)
    end_process(nodes)
    restored = []
    original = BlindFeatureHolder.restore

    def noting(self, saved):
        restored.append(saved)
        return original(self, saved)

    monkeypatch.setattr(BlindFeatureHolder, "restore", noting)
    train(federation, settings, made_nodes(federation, settings, tmp_path))
    assert len(restored) == 2
    for saved in restored:
        assert saved["weights"].shape[:2] == (2, settings.hidden)
        assert "secret" not in "".join(saved)
        assert ring().signed(saved["weights"]).std() > 2.0**70  # a share alone is uniform
