# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""As ``test_declared``, for what comes before, after and between methods in joint runs.

Setup, alignment, collection and the messages of a chain: those that are declared to reveal nothing
look the same whatever the private data, or follow from a kind that the ledger lists.
"""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import fedsift as fs
from fedsift.data.part import read_part
from fedsift.jobs import align, chain_messages, collect, setup
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.setup_terms import OwnOutline
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.lab.attacks.outside import seen_outside
from fedsift.lab.attacks.recording import RecordingEngine
from fedsift.methods.registry import joint_declarations, list_methods
from protocol.test_declared import BLIND, FEW, PLAIN, QUERIES, by_columns, by_rows, undeclared

AROUND = (setup.PROTOCOL, align.PROTOCOL, collect.PROTOCOL, chain_messages.PROTOCOL)
SILENT = {
    message.__name__
    for protocol in AROUND
    for message in protocol.messages
    if not message.declaration.reveals_something
}
POLICY = fs.Policy(
    min_security_bits=0,
    min_bin_size=1,
    may_reveal=tuple(
        {d.kind for method in list_methods() for _, d in method.declarations() if not d.optional}
        | {d.kind for d in joint_declarations()}
        | {"bin-counts"}
    ),
)
"""What any method needs, and counts."""
FOUR = ("bank", "shop", "store", "mill")
FILTER = ("filter", PLAIN | {"n_features_to_select": 4})
TRAINED = PLAIN | {"outputs": 2, "max_epochs": 2, "min_batches": 2}

VERTICAL = {
    "values": {"seed": 1},
    "more columns": {"widths": (2, 5, 2, 2)},
    "more columns of the label holder": {"widths": (5, 2, 2, 2)},
    "more classes": {"classes": 3},
    "class sizes": {"share": 0.3},
    "missing values": {"missing": True},
    "words": {"words": True},
    "other rows in common": {"lacking": (0, 9, 4, 2)},
    "fewer rows of the label holder": {"lacking": (3, 1, 1, 1)},
}
NUMBERS = {name: VERTICAL[name] for name in VERTICAL if name != "words"}
HORIZONTAL = {
    "values": {"seed": 1},
    "more rows": {"rows": (40, 55, 40)},
    "more classes": {"classes": 3},
    "class sizes": {"share": 0.3},
    "missing values": {"missing": True},
    "words": {"words": True},
}


def vertical(*steps):
    """A job of four parties that match their rows by ids."""
    single = len(steps) == 1
    name, parameters = steps[0]
    return JointJob(
        method=name if single else "chain",
        setting="vertical",
        parties=FOUR,
        label_party="bank",
        labelled=True,
        aligned=True,
        seed=7,
        parameters=dict(parameters) if single else {},
        steps=() if single else tuple(JointStep(method=n, parameters=p, seed=3) for n, p in steps),
    )


def horizontal(name, **parameters):
    """A job of three members with the same columns."""
    return JointJob(
        method=name,
        setting="horizontal",
        parties=("north", "south", "west"),
        labelled=True,
        seed=7,
        parameters=parameters,
    )


def columns_at_home(lacking=(0, 1, 1, 1), **changes):
    """Everybody's own columns of mostly the same people; some lack a few of them."""
    federation = by_columns(**changes)
    target, homes = federation.target, {}
    names = [f"person {number:03d}" for number in range(len(target.codes))]
    for number, (party, table) in enumerate(federation.tables.items()):
        frame = table.to_pandas().assign(id=names)
        if party == "bank":
            frame["label"] = [target.classes[code] for code in target.codes]
        start = 10 * number
        frame = frame.drop(index=range(start, start + lacking[number]))
        part = read_part(party, frame, ids=["id"], label="label" if party == "bank" else None)
        homes[party] = LocalParty.of(part, POLICY)
    return homes


def rows_at_home(words=False, **changes):
    """Everybody's own rows, with a column of words."""
    federation = by_rows(**changes)
    homes = {}
    for number, (member, table) in enumerate(federation.tables.items()):
        target = federation.targets[member]
        places = np.array(["hill", "lake", "town", "coast"][: 4 if words else 2])
        frame = table.to_pandas().assign(
            region=places[(np.arange(table.n_rows) + number) % len(places)],
            label=[target.classes[code] for code in target.codes],
        )
        homes[member] = LocalParty.of(read_part(member, frame, label="label"), POLICY)
    return homes


CASES = {
    "filter": (vertical(("filter", PLAIN | FEW)), columns_at_home, VERTICAL),
    "interaction": (vertical(("interaction", PLAIN | FEW)), columns_at_home, NUMBERS),
    "vfps": (vertical(("vfps", PLAIN | QUERIES)), columns_at_home, VERTICAL),
    "fedsdg": (vertical(("fedsdg", PLAIN | BLIND)), columns_at_home, NUMBERS),
    "chain": (vertical(FILTER, ("interaction", PLAIN | FEW)), columns_at_home, NUMBERS),
    "chain with a prediction": (
        vertical(FILTER, ("train", TRAINED), ("predict", {"rows": "held-out", "share": 0.25})),
        columns_at_home,
        NUMBERS,
    ),
    "filter of rows": (horizontal("filter", score="mi", bins=4, **FEW), rows_at_home, HORIZONTAL),
}
RUNS = [(case, change) for case in CASES for change in CASES[case][2]]


@cache
def play(case, change, _security="plain"):
    """The outside of all messages around methods, and the kinds that every party is told."""
    job, make, changes = CASES[case]
    job.check()
    engine = RecordingEngine({})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
        warnings.simplefilter("ignore")
        # What is drawn at random differs from run to run, whatever the data.
        with (
            mock.patch("secrets.choice", min),
            mock.patch("secrets.token_hex", lambda n_bytes: "0" * 2 * n_bytes),
        ):
            homes = make(**changes.get(change, {}))
            if job.steps:
                run_joint(job, homes, engine, place=Path(place))
            else:
                run_joint(job, homes, engine)
    around = {protocol.name for protocol in AROUND}
    stages = [stage for stage in engine.stages if stage.protocol.name in around]
    told = {(row.learner, row.kind) for stage in engine.stages for row in stage.ledger}
    return "joint", seen_outside(stages), told


@pytest.mark.parametrize(("case", "change"), RUNS)
def test_messages_around_methods_look_the_same(case, change):
    assert undeclared(case, change, "plain", play) == set()


def test_all_messages_that_reveal_nothing_are_compared():
    seen = {where[2] for case in CASES for where in play(case, "nothing", "plain")[1]}
    assert seen == SILENT
    assert len(SILENT) == 16


def test_an_undeclared_number_is_found(monkeypatch):
    """The outline of a party, if it were said to be nothing."""
    declaration = dataclasses.replace(OwnOutline.declaration, kind="nothing")
    monkeypatch.setattr(OwnOutline, "declaration", declaration)
    found = undeclared("filter", "more columns", "plain", play.__wrapped__)
    assert found == {("shop", "bank", "OwnOutline", "features")}
