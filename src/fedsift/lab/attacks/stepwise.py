# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on stepwise selection.

Column on its way
Leak  Whoever multiplies with a selected column receives it, and could look for values that it
      guesses. A label holder that works with such a party sees no more.
Fix   The column is under its owner's key.

Products at their owner
Leak  The owner of a selected column opens the products of all others with it. Of a column of zeros
      and ones that it makes up, every product is a sum over the rows that it marks.
Fix   The others add a mask to each product before it is sealed and hand the masks to the label
      holder, which knows no product without both.

A column that marks a row
Leak  A product with a column that leans on one row is the value of that row.
Fix   A column of which one row has more than 1 / ``min_class_size`` of the squared length is not
      multiplied with others.

Columns that name rows
Leak  Own columns of many rows each can have digits that name these rows.
Fix   Products with own columns are ``numeric-scores``, which policies have to name.
Remains   Whoever names them can be read.

As many columns as rows
Leak  Products of a column with as many random columns as there are rows are solved for the rows.
Fix   Every party answers one for ten rows at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import from_limbs
from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.errors import PolicyViolation
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.interaction import best_likeness
from fedsift.lab.attacks.label_digits import N_ROWS, N_TOLD, made_label
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage, job_of, recorded_fit
from fedsift.maths.unit import unit_columns
from fedsift.methods.stepwise import label_holder
from fedsift.methods.stepwise.columns import make_design
from fedsift.methods.stepwise.feature_holder import FeatureHolder
from fedsift.methods.stepwise.messages import (
    VALUE_BITS,
    EncryptedColumn,
    OpenedProducts,
    Params,
)
from fedsift.methods.stepwise.selector import StepwiseSelector
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]

_BANK, _SHOP, _MILL = "bank", "shop", "mill"
_NAMED = Policy(may_reveal=("basic", "products", "numeric-scores"))
_ANY = replace(_NAMED, min_class_size=1, min_bin_size=1)


def _federation(tables: dict[str, Any], label: npt.NDArray[Any]) -> Federation:
    return Federation.vertical(tables, (_BANK, label))


def _three(seed: int, n_rows: int = 200) -> Federation:
    """A bank with the label, and two partners whose columns say something of it."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % 2)
    shop = rng.normal(size=(n_rows, 2)) + 2 * y[:, None]
    return _federation({_SHOP: shop, _MILL: rng.normal(size=(n_rows, 3))}, y)


def _run(federation: Federation, **settings: Any) -> Stage:
    """A run whose settings no estimator has."""
    assert federation.target is not None  # noqa: S101 - the bank has the label
    params = Params(n_features_to_select=1, own_columns=False, seed=0, **settings)
    nodes = label_holder.build_nodes(
        federation.tables, _BANK, federation.target, federation.n_rows, params
    )
    outcome = run_local(label_holder.PROTOCOL, nodes, keep_frames=True, protected=False)
    return Stage(label_holder.PROTOCOL, nodes, outcome, job_of(label_holder.PROTOCOL, nodes))


# Column on its way


def trace_column(stage: Stage, federation: Any, receiver: str) -> Trial | None:
    """How alike what a party received is to a selected column that it knows by heart."""
    tables = federation if isinstance(federation, dict) else federation.tables
    found, chance = [], []
    for owner, message in stage.received_from(receiver, EncryptedColumn):
        columns = make_design(tables[owner], tables[owner].n_rows, 1).values
        sealed = [message.column]
        found.append(max(best_likeness(sealed, column) for column in columns.T))
        noise = np.random.default_rng(0).normal(size=columns.shape)
        chance.append(max(best_likeness(sealed, column) for column in noise.T))
    if not found:
        return None
    return Trial(float(np.mean(found)), float(np.mean(chance)), *stage.told)


def _column_trial(variant: str, seed: int) -> Trial:
    federation = _three(seed)
    security = "plain" if variant == UNPROTECTED else "secure"
    selector = StepwiseSelector(n_features_to_select=1, security=security, random_state=seed)
    stage = recorded_fit(selector, federation)
    trial = trace_column(stage, federation, _MILL) or trace_column(stage, federation, _SHOP)
    assert trial is not None  # noqa: S101 - a partner's column is always selected here
    return trial


# Products at their owner


def read_products(stage: Stage, owner: str) -> Trial | None:
    """Products that the owner of a selected column opened, read without the masks."""
    right: list[float] = []
    holders = stage.roles(FeatureHolder)
    for party, message in stage.received_from(_label_party(stage), OpenedProducts):
        if party != owner:
            continue
        for other, masked in message.masked.items():
            design = holders[other]._design().values
            read = np.array([float(value) for value in from_limbs(masked.array())])
            read = read * 2.0 ** (-2 * VALUE_BITS)
            true = design.T @ holders[owner]._design().values
            close = np.abs(true - read[:, None]).min(axis=1) < 1e-6
            right += close.astype(float).tolist()
    if not right:
        return None
    return Trial(float(np.mean(right)), 0.0, *stage.told)


def _label_party(stage: Stage) -> str:
    return next(iter(stage.roles(label_holder.LabelHolder)))


def _products_trial(variant: str, seed: int) -> Trial:
    federation = _three(seed)
    stage = _run(federation, scheme="plain", masked=variant != UNPROTECTED)
    for party in (_SHOP, _MILL):
        found = read_products(stage, party)
        if found is not None:
            return found
    raise AssertionError("a partner's column is always selected here")


# Columns of the label holder


def _read_with(own: Floats, hidden: Floats, label: Any, policy: Any) -> tuple[Stage, Floats] | None:
    """Products of a hidden column with own columns that the label holder makes up."""
    federation = _federation({_BANK: own, _SHOP: hidden[:, None]}, label)
    selector = StepwiseSelector(n_features_to_select=1, policy=policy, random_state=0)
    try:
        stage = recorded_fit(selector, federation)
    except PolicyViolation:
        return None
    (holder,) = stage.roles(label_holder.LabelHolder).values()
    read = holder._opened["own"].get(_SHOP)
    return None if read is None else (stage, read[0])


def _marked_trial(variant: str, seed: int) -> Trial:
    """The value of one row, from a column that marks it."""
    rng = np.random.default_rng(seed)
    hidden, row = rng.normal(size=60), int(rng.integers(60))
    policy = _ANY if variant == UNPROTECTED else None
    mark = (np.arange(60) == row).astype(float)[:, None]
    read = _read_with(mark, hidden, np.arange(60) % 2, policy)
    if read is None:
        return Trial(0.0, 0.0)
    stage, products = read
    length = np.sqrt(60 / 59)  # of the mark, around its mean
    true = unit_columns(hidden[:, None])[row, 0]
    return Trial(float(abs(products[0] - length * true) < 1e-6), 0.0, *stage.told)


def _digits_trial(variant: str, seed: int) -> Trial:
    """Values of many rows of a column of zeros and ones, from the digits of one product."""
    rng = np.random.default_rng(seed)
    hidden, own = (rng.random(N_ROWS) < 0.4).astype(float), made_label()
    policy = _NAMED if variant == UNPROTECTED else Policy()
    read = _read_with(own[:, None], hidden, np.arange(N_ROWS) % 2, policy)
    if read is None:
        return Trial(0.0, 0.0)
    stage, products = read
    n_ones = hidden.sum()
    spread = np.sqrt(((own - own.mean()) ** 2).sum() * n_ones * (N_ROWS - n_ones) / N_ROWS)
    total = round(float(products[0] * spread + n_ones * own.mean()))
    digits = total % (1 << N_TOLD)
    told = np.array([digits >> place & 1 for place in range(N_TOLD)])
    right, ones = float((told == hidden[:N_TOLD]).mean()), float(hidden[:N_TOLD].mean())
    guess = max(ones, 1 - ones)
    return Trial(max(0.0, (right - guess) / (1 - guess)), 0.0, *stage.told)


def _solved_trial(variant: str, seed: int) -> Trial:
    """Share of the variance of a column that its products with random columns tell."""
    rng = np.random.default_rng(seed)
    hidden, own = rng.normal(size=30), rng.normal(size=(30, 30))
    policy = _ANY if variant == UNPROTECTED else None
    read = _read_with(own, hidden, np.arange(30) % 2, policy)
    if read is None:
        return Trial(0.0, 0.0)
    stage, products = read
    solved, *_ = np.linalg.lstsq(unit_columns(own).T, products, rcond=None)
    true = unit_columns(hidden[:, None])[:, 0]
    return Trial(float(max(0.0, 1 - ((solved - true) ** 2).sum())), 0.0, *stage.told)


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """The attacks that need no made-up columns, on a recorded job."""
    for receiver in stage.roles(FeatureHolder):
        found = trace_column(stage, dict(run.tables), receiver)
        if found is not None:
            yield "column-in-transit", receiver, found
    for owner in stage.roles(FeatureHolder):
        found = read_products(stage, owner)
        if found is not None:
            yield "owner-products", owner, replace(found, victim="others")


ATTACKS = (
    Attack(
        name="column-in-transit",
        method="stepwise",
        attacker="feature holder",
        uses=("EncryptedColumn",),
        aims_at="the values of a selected column of somebody else",
        measure="correlation with the column",
        unprotected="security='plain': no encryption",
        default="the column is under its owner's key",
        trial=_column_trial,
        runs=(1, 3),
    ),
    Attack(
        name="owner-products",
        method="stepwise",
        attacker="feature holder",
        uses=("HiddenProducts",),
        aims_at="products of others' columns with its own",
        measure="products read",
        unprotected="no masks",
        default="the products are masked before they are sealed",
        trial=_products_trial,
        runs=(1, 5),
    ),
    Attack(
        name="marked-own-column",
        method="stepwise",
        attacker="label holder",
        uses=("OwnProducts",),
        aims_at="the value of one row of somebody else's column",
        measure="values read",
        unprotected="all policies have min_class_size=1",
        default="a column of which few rows make up most stays at home",
        trial=_marked_trial,
        runs=(1, 5),
        declared_as=("numeric-scores",),
    ),
    Attack(
        name="own-digits",
        method="stepwise",
        attacker="label holder",
        uses=("OwnProducts",),
        aims_at="the values of many rows of a column of zeros and ones",
        measure="values known beyond a guess",
        unprotected="the policy of the column's owner names numeric-scores",
        default="products with own columns are refused",
        trial=_digits_trial,
        runs=(2, 5),
        declared_as=("numeric-scores",),
    ),
    Attack(
        name="as-many-columns",
        method="stepwise",
        attacker="label holder",
        uses=("OwnProducts",),
        aims_at="all values of a column of somebody else",
        measure="variance told",
        unprotected="all policies have min_class_size=1: any number of own columns",
        default="one product for ten rows at most",
        trial=_solved_trial,
        runs=(1, 5),
        declared_as=("numeric-scores",),
    ),
)
