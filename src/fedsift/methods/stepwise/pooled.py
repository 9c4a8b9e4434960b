# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Stepwise selection on open data: what the encrypted protocol must equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation
from fedsift.methods.stepwise.columns import (
    bin_codes,
    label_bins,
    label_columns,
    make_design,
    shuffle_rows,
)
from fedsift.methods.stepwise.coordinator import for_parties
from fedsift.methods.stepwise.feature_holder import secret_source
from fedsift.methods.stepwise.forward import ForwardSearch
from fedsift.methods.stepwise.knockoffs import Moments
from fedsift.methods.stepwise.member import copies_of
from fedsift.methods.stepwise.messages import ALL, Params, number_wanted
from fedsift.methods.stepwise.mrmr import MrmrSearch, search_open
from fedsift.methods.stepwise.own_rows import OwnRows
from fedsift.methods.stepwise.selection import (
    Features,
    Found,
    KnockoffSelection,
    Selection,
    select_true,
)
from fedsift.protocol.policy import SMALLEST_CLASS

Floats = npt.NDArray[np.float64]


def search_pooled(
    federation: Federation, params: Params, kept: frozenset[int] = frozenset()
) -> Found:
    """The search of a vertical run, with all columns in one place; features in table order.

    ``kept`` are features of the label holder.
    """
    tables, holder, target = federation.tables, federation.label_holder, federation.target
    assert holder is not None and target is not None  # noqa: S101, PT018 - it has a label
    ordered = {p: tables[p] for p in sorted(tables, key=lambda p: p != holder)}
    designs = {
        p: make_design(t, federation.n_rows, params.min_class_size) for p, t in ordered.items()
    }
    columns = np.concatenate([design.values for design in designs.values()], axis=1)
    features = Features({p: d.widths for p, d in designs.items()}, {holder: kept})
    lengths = np.ones(columns.shape[1])
    if params.knockoffs:
        rng = np.random.default_rng(params.seed)
        made = [design.with_knockoffs(rng)[:, design.n_columns :] for design in designs.values()]
        columns = np.concatenate([columns, *made], axis=1)
        lengths = np.tile(lengths, 2)
        lengths[len(lengths) // 2 :][features.kept_columns()] = 0.0
    labels = label_columns(target)
    n_own = designs[holder].n_columns if holder in designs else 0
    n_copies = params.copies(federation.n_rows, n_own, labels.shape[1])
    shuffled = None
    if n_copies:
        copies = shuffle_rows(labels, n_copies, np.random.default_rng(params.seed))
        shuffled = (columns.T @ copies).reshape(columns.shape[1], n_copies, -1).transpose(1, 0, 2)
    search = ForwardSearch(
        columns.T @ labels,
        lengths,
        federation.n_rows,
        shuffled=shuffled,
        ridge=0.0 if params.knockoffs else params.ridge,
    )
    if params.knockoffs:
        return _search(KnockoffSelection(search, features, params.fdr), columns.T @ columns)
    selection = Selection(search, features, params.n_features_to_select, params.level, n_copies)
    return _search(selection, columns.T @ columns)


def search_bins(
    federation: Federation, params: Params, kept: frozenset[int] = frozenset()
) -> tuple[list[tuple[str, int]], MrmrSearch]:
    """The search of a vertical run by counts of rows, and whose features its numbers stand for."""
    tables, holder, target = federation.tables, federation.label_holder, federation.target
    assert holder is not None and target is not None  # noqa: S101, PT018 - it has a label
    names, codes = [], []
    for party in sorted(tables, key=lambda p: p != holder):
        for number, column in enumerate(tables[party].columns):
            names.append((party, number))
            codes.append(bin_codes(column, params.smallest_bin))
    labels = label_bins(target, params.smallest_bin).codes
    forced = [place for place, (p, f) in enumerate(names) if p == holder and f in kept]
    wanted = int(params.n_features_to_select)
    return names, search_open(np.stack(codes, axis=1), labels, wanted, forced)


def search_rows(
    federation: Federation, params: Params, forced: frozenset[int] = frozenset()
) -> Found:
    """The search of a horizontal run, with all rows in one place and means per site taken off."""
    sites = [
        OwnRows(table, target)
        for party, table in federation.tables.items()
        if (target := federation.targets[party]) is not None
    ]
    columns = np.concatenate([site.columns for site in sites])
    labels = np.concatenate([site.labels for site in sites])
    widths, smallest = sites[0].schema.widths, params.min_class_size
    lengths = (columns**2).sum(axis=0)
    kept = (lengths > 0) & ((columns**2).max(axis=0) * smallest <= lengths)
    counts = sum(site.counts for site in sites)
    few = np.minimum(counts, len(columns) - counts)
    kept[sites[0].schema.counted] &= few >= smallest
    columns = columns[:, kept] / np.sqrt(lengths[kept])
    by_feature = np.add.reduceat(kept, np.cumsum(widths) - widths).astype(np.int64)
    features = Features({ALL: by_feature}, {ALL: forced})
    if params.knockoffs:
        moments = Moments(
            columns.T @ columns, columns.T @ labels, labels.T @ labels, len(columns) - len(sites)
        )
        source = secret_source(params.seed, "coordinator")
        return _search(*select_true(moments, features, len(sites), params.fdr, source))
    rng = np.random.default_rng(params.seed)
    n_copies = copies_of(params)
    copies = [
        columns.T @ np.concatenate([s.labels[rng.permutation(s.n_rows)] for s in sites])
        for _ in range(n_copies)
    ]
    search = ForwardSearch(
        columns.T @ labels,
        np.ones(columns.shape[1]),
        len(columns),
        shuffled=np.stack(copies) if copies else None,
        ridge=params.ridge,
        n_means=len(sites),
        label_gram=labels.T @ labels,
    )
    selection = Selection(search, features, params.n_features_to_select, params.level, n_copies)
    return _search(selection, columns.T @ columns)


def _search(selection: Selection, gram: Floats) -> Found:
    """Take in what is kept, then go on to the end; products are of all columns with all."""
    search = selection.search
    for column in selection.features.kept_columns():
        search.add(column, gram[column], forced=True)
    while (best := selection.next_column()) is not None:
        search.add(best, gram[best])
    return selection.finish()


def select_pooled(
    federation: Federation, given: Mapping[str, Any], seed: int
) -> npt.NDArray[np.bool_]:
    """The same features, selected in the open; shuffled labels and knockoffs are others."""
    holder, rows = federation.label_holder, federation.setting == "horizontal"
    holder = federation.parties[0] if rows else holder
    own = federation.tables[holder].feature_names if holder in federation.tables else ()
    adjust = (given["adjust"],) if isinstance(given["adjust"], str) else given["adjust"]
    names = own if given["keep_own"] and not rows else [str(name) for name in adjust]
    kept = frozenset(own.index(name) for name in names)
    n_candidates = federation.n_features - len(kept)
    params = Params(
        n_features_to_select=number_wanted(given["n_features_to_select"], n_candidates),
        ridge=given["ridge"],
        fdr=given["fdr"],
        criterion=given["criterion"],
        min_bin_size=given["min_bin_size"],
        min_class_size=SMALLEST_CLASS,
        seed=seed,
    )
    if rows:
        selected = for_parties(search_rows(federation, params, kept), federation.parties).selected
    elif params.binned:
        names_of, search = search_bins(federation, params, kept)
        selected = {p: tuple(kept) if p == holder else () for p in federation.tables}
        for party, feature in map(names_of.__getitem__, search.selected):
            selected[party] += (feature,)
    else:
        selected = search_pooled(federation, params, kept).selected
    return federation.original_support(
        {
            party: [federation.tables[party].feature_names[i] for i in chosen]
            for party, chosen in selected.items()
        }
    )
