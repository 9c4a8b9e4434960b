# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A number that stands for a party's data, to notice changes; it stays with the party."""

from __future__ import annotations

import hashlib

import numpy as np

from fedsift.data.table import PartyTable
from fedsift.data.target import Target


def fingerprint(*parts: PartyTable | Target | None) -> str:
    """Digest of tables and targets: names, kinds, values, and the order of rows and columns.

    Examples
    --------
    >>> table = PartyTable.from_any({"age": [31, 52]}, name="bank")
    >>> older = PartyTable.from_any({"age": [31, 53]}, name="bank")
    >>> fingerprint(table) == fingerprint(table), fingerprint(table) == fingerprint(older)
    (True, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, PartyTable):
            for column in part.columns:
                digest.update(repr((column.name, column.kind, column.categories)).encode())
                digest.update(np.ascontiguousarray(column.values).tobytes())
        elif part is not None:
            digest.update(repr((part.kind, part.classes)).encode())
            digest.update(part.codes.tobytes() + part.values.tobytes())
        digest.update(b"|")
    return digest.hexdigest()
