# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of DCFS: small messages, and matrices as large as a party has rows."""

from __future__ import annotations

import math

import numpy as np

from fedsift.costs.counts import MASKING_KEY, Counts, frame
from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation, PartyTable
from fedsift.maths import moments
from fedsift.methods.dcfs import messages
from fedsift.methods.dcfs.member import image_type
from fedsift.methods.dcfs.settings import Params
from fedsift.protocol import MaskedArray, Message, PublicArray

_SEALED_SECRET = (1, 48)
_EMPTY = Ciphertexts("x25519-chacha20poly1305", ())


def tally_dcfs(federation: Federation, params: Params) -> Counts:
    """Walk through a run."""
    tally, tables = Counts(), federation.tables
    n, m = len(tables), federation.n_features
    tally.side_by_side = n
    local = params.alignment == "local"
    tally.ask(messages.Hello(), messages.Greeting(MASKING_KEY, m), others=n)
    roster = messages.Roster(dict.fromkeys(tables, MASKING_KEY))
    tally.ask(roster, messages.SecretDealt({}), others=n)
    if not local:
        names = list(tables)[1:]
        dealt = frame(messages.SecretDealt(dict.fromkeys(names, _EMPTY)), (n - 1, 48))
        tally.n_bytes += dealt.n_bytes - frame(messages.SecretDealt({})).n_bytes
        tally.ciphertexts += n - 1
    _masked(tally, messages.SumsWanted(), 3 * m, moments.LIMBS, n)
    numbers = PublicArray.of(np.zeros(m))
    if local:
        tally.ask(messages.LocalScale(numbers, numbers), others=n)
    else:
        tally.ask(frame(messages.AnchorSecret(_EMPTY), _SEALED_SECRET), others=n - 1)
        _align(tally, federation, params)
    _masked(tally, messages.ScoresWanted(), m, 1, n)
    tally.ask(messages.Chosen(tuple(range(params.n_features_to_select))), others=n)
    for table in tables.values():
        _member(tally, table, params)
    return tally


def _align(tally: Counts, federation: Federation, params: Params) -> None:
    """First images, then alignments and images in turn."""
    n, m, anchors = len(federation.tables), federation.n_features, params.n_anchors
    fewest_rows = min(table.n_rows for table in federation.tables.values())
    first = min(params.n_dimensions, fewest_rows, m)
    if params.target == "exact":
        first = min(first, max(1, anchors // 2))
    width = min(params.n_components, anchors, n * first)
    later = min(first, width)
    numbers = PublicArray.of(np.zeros(m))
    kind = image_type(params)

    def image(n_dimensions: int) -> PublicArray:
        return PublicArray.of(np.zeros((n_dimensions, anchors)))

    scale = messages.CommonScale(numbers, numbers, numbers, numbers)
    tally.ask(scale, kind(image(first)), others=n)
    for step in range(params.n_iterations):
        reached = later if step else first
        if params.alignment == "open":
            all_images = messages.AlignAll(dict.fromkeys(federation.tables, image(reached)))
            tally.ask(all_images, kind(image(later)), others=n)
        else:
            matrix = messages.AlignOne(PublicArray.of(np.zeros((width, reached))))
            tally.ask(matrix, kind(image(later)), others=n)


def _member(tally: Counts, table: PartyTable, params: Params) -> None:
    """Neighbours, first projection, and one system of equations per alignment."""
    n, m = table.n_rows, table.n_columns
    rank = min(n, m)
    tally.do("train", "matrix product", n * n * m + n * m * rank + n * n * rank + n * rank * rank)
    tally.do("train", "matrix sort", n * n * math.log2(max(2, n)))
    tally.do("train", "matrix cell", 12 * n * n)
    tally.do("train", "matrix eigen", rank**3)
    tally.do("train", "matrix eigen pair", rank**3)
    steps = params.n_iterations
    tally.do("train", "matrix product", steps * (n * n * m + n**3))
    tally.do("train", "matrix solve", steps * n**3)
    tally.do("train", "matrix cell", steps * 6 * n * n)
    tally.do("prepare", "moment cell", 4 * n * m / 100)


def _masked(tally: Counts, ask: Message, n_numbers: int, limbs: int, n_parties: int) -> None:
    sums = MaskedArray.of(np.zeros((n_numbers, limbs), dtype=np.uint64))
    tally.ask(ask, messages.MaskedSums(sums), others=n_parties)
    tally.mask(n_numbers, n_parties)
