# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers that stand for a party's rows, to recognise them later; without the key they say nothing.

A row is recognised in two ways: by its ids, whatever else has changed, and by all its values. The
columns that a job asks for play no part, so that a job cannot make rows look new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsift.data.sources import RawColumn, RawTable

Digests = NDArray[np.uint64]
BY_ID, BY_VALUES = "ids", "values"
KEY_BYTES = 32
_DIGEST_BYTES = 8


def digest_rows(raw: RawTable, ids: Sequence[str], key: bytes) -> dict[str, Digests]:
    """Compute keyed digests of all rows, in the order of the table.

    Parameters
    ----------
    raw : RawTable
        The whole table.
    ids : sequence of str
        Columns that identify a row.
    key : bytes
        Secret of the party.

    Examples
    --------
    >>> from fedsift.data.sources import read_source
    >>> raw = read_source({"id": ["a", "b", "a"], "age": [31, 52, 31]}, party="shop")
    >>> digests = digest_rows(raw, ["id"], bytes(32))
    >>> [int(one[0] == one[2] != one[1]) for one in digests.values()]
    [1, 1]
    """
    columns = sorted(raw.columns, key=lambda column: column.name)
    found = {BY_VALUES: _digest(columns, raw.n_rows, key, BY_VALUES)}
    named = [column for column in columns if column.name in ids]
    if named:
        found[BY_ID] = _digest(named, raw.n_rows, key, BY_ID)
    return found


def _digest(columns: Sequence[RawColumn], n_rows: int, key: bytes, view: str) -> Digests:
    numbers = [column.values for column in columns if column.values.dtype.kind in "biuf"]
    others = [column.values for column in columns if column.values.dtype.kind not in "biuf"]
    matrix = np.empty((n_rows, len(numbers)))
    for place, values in enumerate(numbers):
        matrix[:, place] = values
    matrix += 0.0  # no negative zero
    texts = [[_text(value) for value in values.tolist()] for values in others]
    rows = zip(*texts, strict=True) if texts else iter([()] * n_rows)
    keyed = hashlib.blake2b(key=key, digest_size=_DIGEST_BYTES, person=view.encode())
    digests = bytearray()
    for row, words in zip(matrix, rows, strict=True):
        one = keyed.copy()
        one.update(row.tobytes())
        one.update("".join(words).encode(errors="surrogatepass"))
        digests += one.digest()
    return np.frombuffer(bytes(digests), dtype="<u8").astype(np.uint64)


def _text(value: object) -> str:
    """Write a value so that values in a row cannot run into each other."""
    text = "" if value is None or value != value else str(value)
    return f"{len(text)}:{text}"
