# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of the filters, vertical and horizontal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsift.costs.columns import Evaluator, columns_of
from fedsift.costs.counts import MASKING_KEY, Counts, Expected, Frame, frame
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation, PartyTable, Target
from fedsift.data.remote_table import is_remote
from fedsift.maths import binning, moments
from fedsift.methods.filter import features as local
from fedsift.methods.filter import horizontal_messages as horizontal
from fedsift.methods.filter import messages as vertical
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import MaskedArray, PublicArray


def tally_filter(federation: Federation, params: Params) -> Counts:
    """Walk through a filter run."""
    tally = Counts()
    if params.releases:  # a choice looks at every feature about once, and at each quickly
        looks = params.n_features_to_select * federation.n_features
        tally.do("decrypt", "noise number", looks / 5)
    if federation.setting == "horizontal":
        _horizontal(tally, federation, params)
        return tally
    holder = federation.label_holder or federation.parties[0]
    others = {party: table for party, table in federation.tables.items() if party != holder}
    own = federation.tables.get(holder)
    n_chosen = params.n_features_to_select
    if others:
        tally_scores(tally, federation.n_rows, federation.target, others, params)
        share = round(n_chosen / max(1, len(federation.tables)))
        tally.ask(vertical.Selected(tuple(range(share))), others=len(others))
        if params.share_scores:
            columns = _mean_columns(others)
            told = vertical.OwnScores(PublicArray.of(np.zeros(columns)))
            tally.ask(told, others=len(others))
    if own is not None:
        tally.do("prepare", "score cell", federation.n_rows * own.n_columns)
    return tally


def tally_scores(
    tally: Counts,
    n_rows: int,
    target: Target | None,
    others: Mapping[str, PartyTable],
    params: Params,
) -> None:
    """Scores of feature holders' columns, as in the first part of a run."""
    offer = vertical.Offer(_mean_columns(others), 10, False)
    tally.ask(vertical.Introduction(n_rows, params.score), offer, others=len(others))
    if params.score == "variance":
        for table in others.values():
            reply = vertical.OpenScores(PublicArray.of(np.zeros(table.n_columns)))
            tally.ask(vertical.ScoresWanted(), reply, others=1)
        tally.rounds -= len(others) - 1
        return
    frequencies = all(local.are_frequencies(t) for t in others.values() if not is_remote(t))
    way = vertical.way_of(
        params.score, params.disclose, frequencies=frequencies, noisy=params.noisy
    )
    n_classes = classes_of(target, params)
    binned = way in ("count", "noisy", "impurity")
    evaluators = {
        party: Evaluator(table.n_columns, n_cells(table, params) if binned else 1, _squares(way))
        for party, table in others.items()
    }
    features = max(evaluator.n_features for evaluator in evaluators.values())
    cells = max(evaluator.n_cells for evaluator in evaluators.values())
    noise_bits = params.noise(features).bits if params.noisy else 0
    spec = vertical.column_spec(
        way, n_rows, n_classes, features, cells, noise_bits, fine=params.releases
    )
    kernel = columns_of(tally, params.scheme, spec, params.security_bits)
    empty = Ciphertexts(params.scheme, ())
    labels = frame(
        vertical.EncryptedLabels(way, n_classes, features, cells, kernel.keys, empty),
        kernel.columns,
        keys=kernel.key_bytes,
    )
    kernel.encrypt()
    for evaluator in evaluators.values():
        tally.ask(labels, _reply(way, evaluator, kernel.sealed(evaluator), empty), others=1)
        if binned:
            tally.do("prepare", "bin cell", n_rows * evaluator.n_features)
        if params.noisy:
            tally.do("evaluate", "noise number", evaluator.n_rows * n_classes)
        kernel.evaluate(evaluator)
        kernel.decrypt(evaluator)
    tally.rounds -= len(evaluators) - 1  # all of them are asked at once


def _squares(way: str) -> bool:
    return way in ("impurity", "share")


def _reply(
    way: str, evaluator: Evaluator, result: list[tuple[int, int]], empty: Ciphertexts
) -> Frame:
    if _squares(way):
        return frame(vertical.SealedScores(empty), *result)
    if way == "noisy":
        return frame(vertical.NoisyCounts(empty), *result)
    if way == "sum":
        exponents = PublicArray.of(np.zeros(evaluator.n_features, dtype=np.int64))
        return frame(vertical.SealedSums(empty, exponents), *result)
    sizes = PublicArray.of(np.zeros((evaluator.n_features, evaluator.n_cells), dtype=np.int64))
    return frame(vertical.SealedCounts(empty, sizes), *result)


def _mean_columns(tables: Mapping[str, PartyTable]) -> int:
    return round(sum(table.n_columns for table in tables.values()) / max(1, len(tables)))


def classes_of(target: Target | None, params: Params) -> int:
    """Classes of the label; 0 for a numeric one that stays numeric."""
    if target is None or params.score == "variance":
        return 0
    if target.kind == "classes":
        return len(target.classes)
    return 0 if params.score == "f" else params.target_bins


def n_cells(table: PartyTable, params: Params) -> int:
    """Bins of the finest column, if none has to be merged."""
    return max((_bins(column, params) for column in table.columns), default=1)


def _bins(column: Any, params: Params) -> int:
    missing = int(params.fixed_edges or bool(column.missing.any()))
    if column.kind == "categorical":
        return max(1, len(column.categories) + missing)
    choice = local.bin_choice(params.bins, column.name)
    return (choice if isinstance(choice, int) else len(choice) + 1) + missing


def _horizontal(tally: Counts, federation: Federation, params: Params) -> None:
    tables = federation.tables
    table, n = next(iter(tables.values())), len(tables)
    target = next(iter(federation.targets.values()), None)
    numbers = target is not None and target.kind == "numbers" and params.score != "variance"
    n_classes = classes_of(target, params)
    counts = tuple(len(c.categories) if c.kind == "categorical" else 0 for c in table.columns)
    greeting = horizontal.Greeting(MASKING_KEY, counts, n_classes, bool(numbers), False)
    tally.ask(horizontal.Hello(params.score), greeting, others=n)
    tally.ask(horizontal.Roster(dict.fromkeys(tables, MASKING_KEY)), others=n)
    frequencies = all(local.are_frequencies(t) for t in tables.values())
    binned = params.score in local.BINNED_SCORES
    n_rows = sum(one.n_rows for one in tables.values())
    if binned and not (params.score == "chi2" and frequencies and not params.noisy):
        _tables(tally, federation, params, counts, n_classes, bool(numbers))
        tally.do("prepare", "sort cell", n_rows * table.n_columns)
        tally.do("prepare", "score cell", n_rows * table.n_columns)
    else:
        per_column = 2 * max(1, n_classes) + 1 + 2 * numbers
        total = 1 + n_classes + 2 * numbers + table.n_columns * per_column
        _masked(tally, horizontal.Moments(), total, moments.LIMBS, n)
        tally.do("prepare", "moment cell", n_rows * table.n_columns)
    chosen = horizontal.Chosen(tuple(range(params.n_features_to_select)))
    tally.ask(chosen, others=n)


def _tables(
    tally: Counts,
    federation: Federation,
    params: Params,
    counts: tuple[int, ...],
    n_classes: int,
    numbers: bool,
) -> None:
    """Quantiles by bisection, sizes of bins, contingency tables."""
    tables = federation.tables
    table, n = next(iter(tables.values())), len(tables)
    numeric = [c for c in table.columns if c.kind == "numeric"]
    choices = [local.bin_choice(params.bins, column.name) for column in numeric]
    wanted = [c if isinstance(c, int) else 2 for c in choices]
    wanted += [params.target_bins] * numbers
    if wanted and not params.fixed_edges:
        width = max(wanted) - 1
        below = horizontal.CountsBelow(20, PublicArray.of(np.zeros((len(wanted), width))))
        _masked(tally, below, len(wanted) * (width + 1), 1, n, times=binning.KEPT_BITS)
        tally.do("prepare", "search column", binning.KEPT_BITS * n * len(wanted))
    longest = max([0, *(c - 1 if isinstance(c, int) else len(c) for c in choices)])
    width = max([longest + 1, *counts]) + 1
    edges = PublicArray.of(np.zeros((len(numeric), longest)))
    targets = PublicArray.of(np.zeros((params.target_bins - 1) * numbers))
    sizes = horizontal.BinSizes(edges, (longest,) * len(numeric), targets)
    _masked(tally, sizes, table.n_columns * width, 1, n)
    n_bins = width if params.fixed_edges else max([longest + 1, *counts])
    merged = PublicArray.of(np.zeros((table.n_columns, width), dtype=np.int64))
    total = table.n_columns * n_bins * max(1, n_classes)
    _masked(tally, horizontal.Tables(merged, n_bins), total, 1, n)
    if params.noisy:
        tally.do("mask", "noise number", n * total)


def _masked(
    tally: Counts, ask: Any, n_numbers: int, limbs: int, n_parties: int, times: int = 1
) -> None:
    """A request that everybody answers with masked numbers."""
    sums = MaskedArray.of(np.zeros((n_numbers, limbs), dtype=np.uint64))
    tally.ask(ask, horizontal.MaskedSums(sums), others=n_parties, times=times)
    tally.mask(times * n_numbers, n_parties)


def expect_filter(selector: Any, federation: Federation, params: Params) -> Expected:  # noqa: ARG001 - as all
    """Counts of a run; nothing depends on the data."""
    return Expected(tally_filter(federation, params))
