# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Private set intersection with every party in this process, for federations and ``align``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsift.crypto import psi as crypto_psi
from fedsift.data.alignment import Aligned
from fedsift.data.ids import Ids
from fedsift.engine import Outcome, run_local
from fedsift.jobs import align


def intersect(ids: Mapping[str, Ids]) -> tuple[dict[str, np.ndarray], Outcome]:
    """Rows of every party that all have, in the first party's order, and the run behind it."""
    crypto_psi.library()
    leader = next(iter(ids))
    nodes = align.build_nodes(ids, leader)
    outcome = run_local(align.PROTOCOL, nodes)
    return {party: nodes[party][0].facts()["rows"] for party in ids}, outcome


def psi(ids: Mapping[str, Ids]) -> Aligned:
    """The aligner behind ``Federation.vertical(..., alignment="psi")``."""
    if len(ids) == 1:
        only = next(iter(ids))
        return Aligned({only: np.arange(len(ids[only]))})
    rows, outcome = intersect(ids)
    return Aligned(rows, outcome.ledger.rows())
