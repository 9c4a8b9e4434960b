# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of DCFS: small messages, and matrices as large as a party has rows."""

from __future__ import annotations

import math
from typing import Any

from fedsift.costs.counting import count_run, sample_federation
from fedsift.costs.counts import Counts, Expected
from fedsift.data import Federation, PartyTable
from fedsift.methods.dcfs.settings import Params

_FEWEST_ROWS = 20


def expect_dcfs(selector: Any, federation: Federation, params: Params) -> Expected:
    """Messages of a run on a few rows, which are as long as on many, and matrices of all rows."""
    n_rows = max(_FEWEST_ROWS, 2 * params.n_dimensions, params.n_neighbors + 2)
    few = sample_federation(federation, n_rows)
    counts = count_run(selector._prepare(few, simulated=True).nodes)
    counts.side_by_side = len(federation.tables)
    for table in federation.tables.values():
        _count_member(counts, table, params)
    return Expected(counts)


def _count_member(counts: Counts, table: PartyTable, params: Params) -> None:
    """Neighbours, first projection, and one system of equations per alignment."""
    n, m = table.n_rows, table.n_columns
    rank = min(n, m)
    counts.do("train", "matrix product", n * n * m + n * m * rank + n * n * rank + n * rank * rank)
    counts.do("train", "matrix sort", n * n * math.log2(max(2, n)))
    counts.do("train", "matrix cell", 12 * n * n)
    counts.do("train", "matrix eigen", rank**3)
    counts.do("train", "matrix eigen pair", rank**3)
    steps = params.n_iterations
    counts.do("train", "matrix product", steps * (n * n * m + n**3))
    counts.do("train", "matrix solve", steps * n**3)
    counts.do("train", "matrix cell", steps * 6 * n * n)
    counts.do("prepare", "moment cell", 4 * n * m / 100)
