"""Small federations for every method, runs that are cut off, and what two runs must share."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from fedsift.data import Federation, split_horizontal, split_vertical
from fedsift.engine.local import RoleNetwork
from fedsift.errors import PartyFailed
from fedsift.methods.dcfs.selector import DCFSSelector
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.methods.filter.selector import FilterSelector
from fedsift.methods.fpso.selector import FPSOSelector
from fedsift.methods.interaction.selector import InteractionSelector
from fedsift.methods.stepwise.selector import StepwiseSelector
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.protocol.role import Role
from helpers.fedsdg import PAPER
from helpers.vfps import PAIRING
from helpers.vfps import PAPER as BY_SUMS


class Cut(Exception):
    """What ends a run in these tests."""


@dataclass(frozen=True)
class Case:
    """A method with small settings, and which of its messages ask for expensive work."""

    selector: type
    setting: str
    expensive: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    changed: dict[str, Any] = field(default_factory=dict)
    """A setting that a resumed run must not have another value of."""
    exact: bool = True
    """Without fresh noise: scores are the same to the last bit."""
    n_features: int = 6

    def make(self, checkpoint=None, **settings):
        chosen = {"random_state": 0, "security": "plain", **self.settings, **settings}
        return self.selector(checkpoint=checkpoint, **chosen)

    def federation(self) -> Federation:
        return _federation(self.setting, 48, self.n_features)


CASES = {
    "filter": Case(
        FilterSelector,
        "vertical",
        ("EncryptedLabels",),
        {"n_features_to_select": 2},
        {"min_bin_size": 6},
    ),
    "filter-horizontal": Case(
        FilterSelector,
        "horizontal",
        ("CountsBelow", "Tables"),
        {"n_features_to_select": 2, "bins": 4},
        {"bins": 5},
    ),
    "interaction": Case(
        InteractionSelector,
        "vertical",
        ("RelevanceTerms", "PairTerms", "WeightTerms"),
        {"n_features_to_select": 4, "pair_start": 3},
        {"n_features_to_select": 3},
        exact=False,
    ),
    "stepwise": Case(
        StepwiseSelector,
        "vertical",
        ("EncryptedLabels", "ColumnWanted"),
        {"n_features_to_select": 3},
        {"ridge": 2.0},
    ),
    "vfps": Case(
        VFPSSelector,
        "vertical",
        ("GroupsWanted", "RoundedWanted"),
        {**BY_SUMS, "n_queries": 40, "n_groups": 3},  # more than the leader may see
        {"k": 2},
    ),
    "vfps-greedy": Case(
        VFPSSelector,
        "vertical",
        ("GroupsWanted",),
        {**BY_SUMS, "n_queries": 12, "strategy": "greedy", "n_participants": 2, "policy": PAIRING},
        {"k": 2},
    ),
    "vfps-scores": Case(
        VFPSSelector,
        "vertical",
        ("ListsWanted", "GainsWanted"),
        {"n_queries": 12, "n_participants": 2},
        {"k": 2},
    ),
    "dcfs": Case(
        DCFSSelector,
        "horizontal",
        ("ImagesWanted", "AlignOne"),
        {"n_features_to_select": 2, "n_iterations": 3},
        {"alpha": 2.0},
    ),
    "fpso": Case(
        FPSOSelector,
        "horizontal",
        ("SearchWanted", "Candidates"),
        {"n_particles": 5, "n_iterations": 3, "n_rounds": 3},
        {"n_particles": 6},
        n_features=20,  # enough for a swarm to get better round by round
    ),
    "fedsdg-blind": Case(
        FedSDGSelector,
        "vertical",
        ("StepWanted", "EncryptedLabels"),
        {"protocol": "blind", "outputs": 4, "batch_size": 32, "max_epochs": 3, "lam": 0.0},
        {"sigma": 0.4},
        exact=False,
    ),
    "fedsdg": Case(
        FedSDGSelector,
        "vertical",
        ("Gradients", "EncryptedLabels"),
        {
            "embedding": 3,
            "outputs": 3,
            "batch_size": 32,
            "max_epochs": 3,
            "min_epochs": 1,
            **PAPER,
        },
        {"sigma": 0.4},
    ),
}


@cache
def _federation(setting, n_rows, n_features) -> Federation:
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    X = rng.normal(size=(n_rows, n_features)) + np.linspace(1.5, 0, n_features) * y[:, None]
    if setting == "horizontal":
        return split_horizontal(X, y, 3, random_state=0)
    # VF-PS tests groups of at least two parties besides the label holder.
    return split_vertical(X, y, 3, label_holder=None, random_state=0)


@dataclass
class Watched:
    """A finished run and the names of the messages it sent."""

    selector: Any
    messages: list[str]

    def count(self, names) -> int:
        counts = Counter(self.messages)
        return sum(counts[name] for name in names)


def watched(selector, federation) -> Watched:
    messages = []
    selector.run(federation, observer=lambda step: messages.append(step.message))
    return Watched(selector, messages)


@cache
def undisturbed(name, **settings) -> Watched:
    """The run that all others are compared with; it keeps no checkpoints."""
    case = CASES[name]
    return watched(case.make(**settings), case.federation())


@cache
def n_messages(name, **settings) -> int:
    """Messages of a whole run with checkpoints; encrypted or not, they are the same."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as directory:
        return len(watched(case.make(directory, **settings), case.federation()).messages)


def cut_run(selector, federation, at) -> list[str]:
    """Run until message number ``at`` and fail there; what was sent before."""
    messages = []

    def watch(step):
        messages.append(step.message)
        if len(messages) == at:
            raise Cut

    try:
        selector.run(federation, observer=watch)
    except (Cut, PartyFailed):  # at the driver, or at a party that was sending
        return messages
    raise AssertionError("the run was over before it was cut")


def failing_party(monkeypatch, party, message, times=1):
    """Let a party raise when it is sent a message for the given time."""
    seen = []

    def fail(received, net):
        if net.party == party and type(received).__name__ == message:
            seen.append(received)
            if len(seen) == times:
                raise RuntimeError("the disk of this party is broken")

    before_handling(monkeypatch, fail)


def before_handling(monkeypatch, function):
    """Call a function with every message that a role gets in a run; predictions are left alone."""
    handle = Role.handle

    async def handled(self, received, net):
        if isinstance(net, RoleNetwork):
            function(received, net)
        return await handle(self, received, net)

    monkeypatch.setattr(Role, "handle", handled)


def assert_same(resumed, whole, *, exact=True):
    """Selection, ranking and scores; and the ledger tells of the same disclosures."""
    ours, theirs = resumed.result_, whole.result_
    assert ours.selected == theirs.selected
    assert ours.ranking == theirs.ranking
    assert ours.scores.keys() == theirs.scores.keys()
    for party, scores in ours.scores.items():
        expected = theirs.scores[party]
        if exact:
            assert scores == expected
        else:
            assert scores.keys() == expected.keys()
            np.testing.assert_allclose(
                [scores[name] for name in expected], list(expected.values()), rtol=1e-3
            )
    assert ours.participants == theirs.participants
    if ours.method in ("fpso", "fedsdg", "vfps"):  # others list their messages by round
        if exact:
            assert course(ours) == course(theirs)
        else:
            losses = [[entry["validation_loss"] for entry in r.history] for r in (ours, theirs)]
            np.testing.assert_allclose(*losses, rtol=0.05)
    assert np.array_equal(resumed.support_, whole.support_)
    told, expected = kinds_of(ours), kinds_of(theirs)
    if ours.parameters.get("protocol") == "blind":  # the helper is drawn by lot
        told, expected = ({(a, k, f) for a, _, k, f in kinds} for kinds in (told, expected))
    assert told == expected


def course(result):
    """The steps of a search or training, without what they cost."""
    return [{k: v for k, v in entry.items() if k != "n_bytes"} for entry in result.history]


def kinds_of(result):
    return {(row.learner, row.about, row.kind, row.form) for row in result.disclosures}
