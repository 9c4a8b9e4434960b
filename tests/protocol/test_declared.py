# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Messages that are declared to reveal nothing look the same whatever the private data.

Every method runs on tables of the same public shape that differ in values, in numbers of columns,
classes or rows, in missing values. Where the outside of such a message differs nevertheless,
``FOLLOWS`` must name the kind that declares it, and the ledger must list that kind for the receiver.
"""

from __future__ import annotations

import dataclasses
import warnings
from functools import cache, partial
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.lab.attacks.outside import outside_of, seen_outside
from fedsift.lab.attacks.recording import RecordingEngine
from fedsift.methods.vfps.messages import Joined
from fedsift.protocol.message import MaskedArray, PublicArray
from helpers.fedsdg import PAPER
from helpers.vfps import PAIRING

N_ROWS = 96
CLASSES = np.array(["no", "yes", "maybe"])

# For each kind, or kinds together: the messages that follow from it, and which of their fields. The
# field ``#`` is how many such messages there are.
_INTERACTION = {
    # The cloud is told the selection step by step, and whose features those are.
    "selection": {"MateColumn": "# column", "MateColumns": "# columns"},
    "feature-count": {
        "MaskedProducts": "masked corrections",
        "MaskedColumns": "masked corrections",
    },
    "class-count": {"EncryptedLabels": "labels"},
}
_STEPWISE = {
    # All are told whose column was selected, and when.
    "selection": {"MasksWanted": "# round"},
}
_VFPS = {
    # The aggregator has named the candidates itself.
    "stop-depths": {"PartialDistances": "distances", "PartsWanted": "runs"},
}
_BLIND = {
    # Feature holders are told which rows train, and how many columns there are in all. Shares have
    # the shape of a batch, of the receiver's own columns, or of what it asked for.
    "training-rows": {
        "ProductsWanted": "# batch rows training back first uses",
        "OwnMasksWanted": "# batch n_rows back first uses",
        "OwnProducts": "# batch n_rows back first",
        "GatesDrawn": "#",
        "StepWanted": "# slopes",
        "RowsWanted": "# batch",
        "SquaresWanted": "# hidden",
        "SlopesWanted": "# errors",
        "LossesWanted": "errors",
    },
    "training-rows total-feature-count": {
        "ProductsWanted": "masks",
        "OwnProducts": "products",
        "GatesDrawn": "gates own",
        "StepWanted": "before",
        "RowsWanted": "weights",
    },
    "total-feature-count": {"Opening": "sums own own_rest"},
    # The label holder knows which rows train, and its own columns; it is told others' columns.
    "feature-count": {
        "HelperKeys": "own",
        "OwnMasks": "# masks",
        "ProductsMade": "# products",
        "GatedWeights": "# weights",
        "Restarted": "own",
    },
    "block-losses": {
        "HiddenShare": "# hidden own",
        "SquareShare": "# squares",
        "SlopeShare": "# slopes own weights",
    },
}
_PAPER = {
    # Feature holders are told how wide the layer is and how the training goes.
    "training-rows": {"BatchWanted": "# rows training"},
    "training-course": {
        "EpochEnd": "# epoch",
        "MaskKeys": "# keys",
        "ShareWanted": "#",
        "Refit": "#",
    },
    "layer-shape": {"MaskedOutputs": "# outputs"},
    "embedding-width": {"EncryptedBatch": "# embedding share", "WeightShare": "# share"},
}
_JOINT = {
    # The leader's list is as long as its table, and that was told before.
    "outline": {"BlindedIds": "ids"},
    # Only parties that stay in a chain are asked about its next step.
    "selected-features": {"GatesWanted": "#", "RemarksWanted": "#"},
}
FOLLOWS = {
    (method, message, field): tuple(kinds.split())
    for method, table in (
        ("interaction", _INTERACTION),
        ("stepwise", _STEPWISE),
        ("vfps", _VFPS),
        ("fedsdg", _BLIND),
        ("fedsdg", _PAPER),
        ("joint", _JOINT),
    )
    for kinds, messages in table.items()
    for message, fields in messages.items()
    for field in fields.split()
}
"""What a field follows from: kinds that the receiver of its message is told in the same run."""


def by_columns(seed=0, widths=(2, 2, 2, 2), classes=2, share=0.5, words=False, missing=False):
    """Four parties with different columns of the same rows; the bank has the label."""
    rng = np.random.default_rng(seed)
    codes = np.arange(N_ROWS) % classes
    if share != 0.5:
        codes = (np.arange(N_ROWS) < share * N_ROWS).astype(int)
    codes = rng.permutation(codes)
    tables = {}
    for party, width in zip(("bank", "shop", "store", "mill"), widths, strict=True):
        columns = {f"{party} {i}": rng.normal(size=N_ROWS) + (i == 0) * codes for i in range(width)}
        if party == "shop" and words:
            columns["shop 1"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, N_ROWS)]
        tables[party] = pd.DataFrame(columns)
    if missing:
        tables["shop"].iloc[::7, 0] = np.nan
    return fs.Federation.vertical(tables, ("bank", pd.Series(CLASSES[codes], name="label")))


def by_rows(seed=0, rows=(40, 40, 40), classes=2, share=0.5, missing=False, label="label"):
    """Three members with the same columns of different rows."""
    rng = np.random.default_rng(seed)
    tables = {}
    for member, n_rows in zip(("north", "south", "west"), rows, strict=True):
        codes = np.arange(n_rows) % classes
        if share != 0.5:
            codes = (np.arange(n_rows) < share * n_rows).astype(int)
        codes = rng.permutation(codes)
        table = pd.DataFrame({f"c{i}": rng.normal(size=n_rows) + (i < 2) * codes for i in range(5)})
        if missing and member == "south":
            table.iloc[::7, 0] = np.nan
        tables[member] = table.assign(label=CLASSES[codes]) if label else table
    return fs.Federation.horizontal(tables, label)


VERTICAL = {
    "values": {"seed": 1},
    "more columns": {"widths": (2, 5, 2, 2)},
    "more columns of the label holder": {"widths": (5, 2, 2, 2)},
    "more classes": {"classes": 3},
    "class sizes": {"share": 0.3},
    "missing values": {"missing": True},
}
WORDS = VERTICAL | {"words": {"words": True}}
HORIZONTAL = {
    "values": {"seed": 1},
    "more rows": {"rows": (40, 55, 40)},
    "more classes": {"classes": 3},
    "class sizes": {"share": 0.3},
    "missing values": {"missing": True},
}
COMPLETE = {name: HORIZONTAL[name] for name in ("values", "more rows", "more classes")}
UNLABELLED = {name: HORIZONTAL[name] for name in ("values", "more rows")}

PLAIN = {"security": "plain"}
FEW = {"n_features_to_select": 2}
QUERIES = {
    "n_participants": 2,
    "n_queries": 6,
    "n_groups": 4,
    "strategy": "group-testing",
    "design": "separate",
    "keep_own": False,
}
SWARM = {"n_particles": 5, "n_iterations": 2}
BLIND = {"n_features_to_select": 3, "outputs": 2, "max_epochs": 2, "min_batches": 2}
NETWORK = {
    "n_features_to_select": 3,
    "embedding": 2,
    "outputs": 2,
    "max_epochs": 2,
    "min_epochs": 1,
    "batch_size": 16,
}
unlabelled = partial(by_rows, label=None)

CASES = {
    **{
        f"filter {score} vertical": (fs.FilterSelector, by_columns, WORDS, {"score": score, **FEW})
        for score in ("gini", "mi", "iv")
    },
    **{
        f"filter {score} vertical": (fs.FilterSelector, by_columns, VERTICAL, {"score": score, **FEW})
        for score in ("f", "chi2", "variance")
    },
    **{
        f"filter {score} horizontal": (
            fs.FilterSelector, by_rows, HORIZONTAL, {"score": score, "bins": 4, **FEW},
        )
        for score in ("gini", "f", "mi", "chi2", "iv", "variance")
    },
    "interaction": (fs.InteractionSelector, by_columns, WORDS, FEW),
    "interaction in rounds": (
        fs.InteractionSelector, by_columns, WORDS, FEW | {"pair_start": "none"},
    ),
    "interaction auto": (
        fs.InteractionSelector, by_columns, VERTICAL, {"n_features_to_select": "auto"},
    ),
    "stepwise": (fs.StepwiseSelector, by_columns, WORDS, FEW),
    "stepwise mrmr": (
        fs.StepwiseSelector, by_columns, WORDS,
        # Bins of the label holder are one for ten rows at most.
        FEW | {"criterion": "mrmr", "min_bin_size": 40},
    ),
    "vfps": (fs.VFPSSelector, by_columns, WORDS, QUERIES),
    "vfps scores": (fs.VFPSSelector, by_columns, WORDS, {"n_participants": 2, "n_queries": 6}),
    "vfps many queries": (fs.VFPSSelector, by_columns, VERTICAL, QUERIES | {"n_queries": 90}),
    "vfps shared": (
        fs.VFPSSelector, by_columns, WORDS, QUERIES | {"design": "shared", "policy": PAIRING},
    ),
    "fedsdg": (fs.FedSDGSelector, by_columns, VERTICAL, BLIND),
    "fedsdg paper": (fs.FedSDGSelector, by_columns, VERTICAL, NETWORK | PAPER),
    "dcfs": (fs.DCFSSelector, unlabelled, UNLABELLED, FEW | {"n_iterations": 2}),
    "dcfs open": (
        fs.DCFSSelector, unlabelled, UNLABELLED, FEW | {"n_iterations": 2, "alignment": "open"},
    ),
    "fpso": (fs.FPSOSelector, by_rows, COMPLETE, SWARM | {"n_rounds": 2}),
    "fpso fitness": (
        fs.FPSOSelector, by_rows, COMPLETE, SWARM | {"n_rounds": 1, "mode": "federated-fitness"},
    ),
}  # fmt: skip
ENCRYPTED = (
    "filter gini vertical",
    "filter mi vertical",
    "filter gini horizontal",
    "interaction",
    "stepwise",
    "vfps",
    "fpso",
    "dcfs",
    "fedsdg",
    "fedsdg paper",
)
RUNS = [
    *((case, change, "plain") for case in CASES for change in CASES[case][2]),
    *((case, change, "secure") for case in ENCRYPTED for change in ("values",)),
    ("fedsdg", "more columns", "secure"),
    ("vfps", "more columns", "secure"),
    ("filter gini vertical", "more columns", "secure"),
]


@cache
def run(case, change, security):
    """The outside of a run's messages, and the kinds that every party is told."""
    selector, federation, changes, settings = CASES[case]
    engine = RecordingEngine({})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = selector(random_state=0, security=security, **settings)
        # The same feature holder helps in all runs; a lot decides it otherwise.
        with mock.patch("secrets.choice", min):
            made.run(federation(**changes.get(change, {})), engine=engine)
    told = {(row.learner, row.kind) for stage in engine.stages for row in stage.ledger}
    return made.result_.method, seen_outside(engine.stages), told


def undeclared(case, change, security, play=run):
    """Fields by which two runs can be told apart, and no kind that declares it."""
    method, before, told = play(case, "nothing", security)
    _, after, told_after = play(case, change, security)
    return {
        where
        for where in {*before, *after}
        if before.get(where) != after.get(where)
        and not follows(FOLLOWS.get((method, *where[2:]), ()), where[1], told | told_after)
    }


def follows(kinds, receiver, told):
    """Whether a field has kinds that it follows from, and its receiver is told all of them."""
    return bool(kinds) and all((receiver, kind) in told for kind in kinds)


@pytest.mark.parametrize(("case", "change", "security"), RUNS)
def test_messages_that_reveal_nothing_look_the_same(case, change, security):
    assert undeclared(case, change, security) == set()


def test_most_methods_have_such_messages():
    """A filter of vertical tables has them only where no labels are needed; counts are declared."""
    silent = {case for case in CASES if not run(case, "nothing", "plain")[1]}
    filters = {f"filter {score} vertical" for score in ("gini", "mi", "iv", "f", "chi2")}
    assert silent == filters | {"stepwise mrmr"}


def test_an_undeclared_number_is_found(monkeypatch):
    """What participants tell the leader of their size, if it were said to be nothing."""
    declaration = dataclasses.replace(Joined.declaration, kind="nothing")
    monkeypatch.setattr(Joined, "declaration", declaration)
    found = undeclared("vfps", "more columns", "plain", run.__wrapped__)
    assert found == {("shop", "bank", "Joined", "size_bits")}


def test_the_outside_of_a_field():
    """Open numbers differ by what they are, hidden ones by their size."""
    one, two = np.array([1, 2]), np.array([1, 3])
    assert outside_of(PublicArray.of(one)) != outside_of(PublicArray.of(two))
    assert outside_of(MaskedArray.of(one)) == outside_of(MaskedArray.of(two))
    assert outside_of(MaskedArray.of(one)) != outside_of(MaskedArray.of(one[:1]))
    assert outside_of({"a": (1, "x")}) != outside_of({"a": (1, "y")})
