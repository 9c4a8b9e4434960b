# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""As ``test_declared``, for what comes before, after and between methods in joint runs.

Setup, alignment, collection and the messages of a chain: those that are declared to reveal nothing
look the same whatever the private data, or follow from a kind that the ledger lists.
"""

from __future__ import annotations

import dataclasses
import secrets
import warnings
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.data.part import read_part
from fedsift.jobs import align, chain_messages, collect, setup
from fedsift.jobs.chain_joint import run_chain
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.lab.attacks.outside import seen_outside
from fedsift.lab.attacks.recording import RecordingEngine
from protocol.test_declared import BLIND, FEW, PLAIN, QUERIES, by_columns, by_rows, undeclared

AROUND = (setup.PROTOCOL, align.PROTOCOL, collect.PROTOCOL, chain_messages.PROTOCOL)
SILENT = {
    message.__name__
    for protocol in AROUND
    for message in protocol.messages
    if not message.declaration.reveals_something
}
FOUR = ("bank", "shop", "store", "mill")
CHAIN = (("filter", FEW | {"n_features_to_select": 4}), ("interaction", FEW))
PREDICTED = (
    ("filter", {"n_features_to_select": 4}),
    ("train", BLIND | {"batch_size": 32}),
    ("predict", {"rows": "held-out", "share": 0.25}),
)

VERTICAL = {
    "values": {"seed": 1},
    "more columns": {"widths": (2, 5, 2, 2)},
    "more columns of the label holder": {"widths": (5, 2, 2, 2)},
    "more classes": {"classes": 3},
    "class sizes": {"share": 0.3},
    "missing values": {"missing": True},
    "words": {"words": True},
    "other rows in common": {"lacking": (0, 9, 4, 2)},
    "more rows of the label holder": {"lacking": (3, 1, 1, 1)},
}
HORIZONTAL = {
    "values": {"seed": 1},
    "more rows": {"rows": (40, 55, 40)},
    "more classes": {"classes": 3},
    "class sizes": {"share": 0.3},
    "missing values": {"missing": True},
    "words": {"words": True},
}


def vertical(*steps, **options):
    """A job of four parties that match their rows by ids."""
    single = len(steps) == 1
    (name, parameters), *_ = steps
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
        **options,
    )


def columns_at_home(lacking=(0, 1, 1, 1), **changes):
    """Everybody's own columns of mostly the same people; some lack a few of them."""
    federation = by_columns(**changes)
    target, homes = federation.target, {}
    names = np.array([f"person {n:03d}" for n in range(len(target.codes))])
    for number, (party, table) in enumerate(federation.tables.items()):
        frame = table.to_frame() if hasattr(table, "to_frame") else frame_of(table)
        frame.insert(0, "id", names)
        if party == "bank":
            frame["label"] = [target.classes[code] for code in target.codes]
        start = 10 * number
        frame = frame.drop(index=range(start, start + lacking[number]))
        part = read_part(party, frame, ids=["id"], label="label" if party == "bank" else None)
        homes[party] = LocalParty.of(part, POLICY)
    return homes


POLICY = fs.Policy(
    min_security_bits=0,
    may_reveal=("basic", "common-ids", "scores", "counts", "training", "relevance"),
)
