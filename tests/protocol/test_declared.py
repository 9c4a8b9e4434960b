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

FOLLOWS = {
    # The cloud is told the selection step by step, and whose features those are.
    ("interaction", "MateColumn"): "selection",
    ("interaction", "MaskedProducts"): "feature-count",
    ("interaction", "MaskedColumns"): "feature-count",
    ("interaction", "EncryptedLabels"): "class-count",
    # The aggregator has named the candidates itself.
    ("vfps", "PartialDistances"): "stop-depths",
    ("vfps", "PartsWanted"): "stop-depths",
    # Feature holders are told which rows train, how wide the layer is and how the training goes.
    # Shares have the shape of a batch, of the receiver's own columns, or of what it asked for.
    **{
        ("fedsdg", name): "total-feature-count"
        for name in ("GatesDrawn", "Opening", "StepWanted", "OwnProducts")
    },
    **{
        ("fedsdg", name): "feature-count"
        for name in ("GatedWeights", "HelperKeys", "GateSums", "ProductsMade")
    },
    **{
        ("fedsdg", name): "training-rows"
        for name in ("RowsWanted", "SquaresWanted", "SlopesWanted", "LossesWanted")
    },
    **{
        ("fedsdg", name): "block-losses"
        for name in ("HiddenShare", "SquareShare", "SlopeShare", "LossSums")
    },
    # The label holder knows its own columns; batches are drawn from the rows that train.
    **{("fedsdg", name): "feature-count" for name in ("OwnMasks", "Restarted")},
    ("fedsdg", "ProductsWanted"): "training-rows",
    ("fedsdg", "OwnMasksWanted"): "training-rows",
    ("fedsdg", "BatchWanted"): "training-rows",
    ("fedsdg", "EpochEnd"): "training-course",
    ("fedsdg", "MaskedOutputs"): "layer-shape",
    ("fedsdg", "MaskKeys"): "training-course",
    ("fedsdg", "ShareWanted"): "training-course",
    ("fedsdg", "Refit"): "training-course",
    ("fedsdg", "EncryptedBatch"): "embedding-width",
    ("fedsdg", "WeightShare"): "embedding-width",
}
"""What the outside of a message follows from: a kind that its receiver is told in the same run."""


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
QUERIES = {"n_participants": 2, "n_queries": 6, "n_groups": 4}
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
    "interaction": (fs.InteractionSelector, by_columns, VERTICAL, FEW),
    "vfps": (fs.VFPSSelector, by_columns, WORDS, QUERIES),
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
    "vfps",
    "fpso",
    "dcfs",
)
RUNS = [
    *((case, change, "plain") for case in CASES for change in CASES[case][2]),
    *((case, change, "secure") for case in ENCRYPTED for change in ("values",)),
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
        and (where[1], FOLLOWS.get((method, where[2]))) not in told | told_after
    }


@pytest.mark.parametrize(("case", "change", "security"), RUNS)
def test_messages_that_reveal_nothing_look_the_same(case, change, security):
    assert undeclared(case, change, security) == set()


def test_most_methods_have_such_messages():
    """A filter of vertical tables has them only where no labels are needed."""
    silent = {case for case in CASES if not run(case, "nothing", "plain")[1]}
    assert silent == {f"filter {score} vertical" for score in ("gini", "mi", "iv", "f", "chi2")}


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
