# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Which earlier jobs of a member used the rows of a table, whatever file those rows were in.

A renamed or moved file, or next month's export, has rows that have been used before. Rows are
recognised by their digests: by ids one at a time, and by values where at least half of the smaller
table is the same, because rows without ids may be alike by chance. A file that keeps its name is
the same table whatever its rows are.

Jobs reveal sums over their rows. Sums of two jobs that differ in one row are subtracted and leave
that row; so do three jobs if two of them have together all rows of the third but one.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedsift.data.row_digests import BY_ID, Digests
from fedsift.errors import FedsiftError, FileProblem

_STEP = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that the copies of a row have different numbers."""
_LEAST_SHARE = 0.5
"""Of the rows of the smaller table, for tables that are recognised by values."""


HISTORY_FILE = "history.sqlite"


@contextlib.contextmanager
def refuse_damage() -> Iterator[None]:
    """Say that the file is damaged where something is read from it that was never written."""
    try:
        yield
    except FedsiftError:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError):
        raise FileProblem(
            f"The history {HISTORY_FILE!r} is damaged.",
            "A member's history is read as it was written.",
            "Restore it from a backup; without one, a new file remembers nothing.",
        ) from None


def tell_copies_apart(digests: Digests) -> Digests:
    """Return sorted digests in which the second and later copies of a row have other numbers.

    Examples
    --------
    >>> rows = np.array([5, 3, 5], dtype=np.uint64)
    >>> len(np.unique(tell_copies_apart(rows)))
    3
    """
    ordered = np.sort(digests)
    first = np.searchsorted(ordered, ordered, side="left")
    copy = (np.arange(len(ordered)) - first).astype(np.uint64)
    return np.sort(ordered + copy * _STEP)


def find_smallest_change(rows: Digests, earlier: Sequence[Digests]) -> int | None:
    """Count the fewest rows that remain when one or two earlier jobs are added or subtracted.

    Parameters
    ----------
    rows : ndarray of uint64
        Distinct, of the new job.
    earlier : sequence of ndarray of uint64
        The same of earlier jobs.

    Returns
    -------
    n_rows : int or None
        None if nothing remains in any combination, or if there is no earlier job.

    Examples
    --------
    >>> whole = np.arange(100, dtype=np.uint64)
    >>> find_smallest_change(whole[1:], [whole])
    1
    >>> find_smallest_change(whole[50:99], [whole, whole[:50]])
    1
    >>> find_smallest_change(whole, [whole]) is None
    True
    """
    if not earlier:
        return None
    everything = np.unique(np.concatenate([rows, *earlier]))
    members = np.stack([np.isin(everything, one, assume_unique=True) for one in (rows, *earlier)])
    # Rows that were in the same jobs cannot be told apart by sums, so they are counted together.
    packed = np.ascontiguousarray(np.packbits(members, axis=0).T)
    groups, sizes = np.unique(packed.view(np.dtype((np.void, packed.shape[1]))), return_counts=True)
    bits = np.unpackbits(groups.view(np.uint8).reshape(len(groups), -1), axis=1)
    own, *others = bits[:, : len(members)].T.astype(np.int8)
    smallest: int | None = None
    for place, one in enumerate(others):
        rest = others[:place] + others[place + 1 :]
        second = np.stack([np.zeros_like(own), *rest, *(-other for other in rest)])
        counts = (own - one + second != 0) @ sizes
        remaining = counts[counts > 0]
        if len(remaining) and (smallest is None or remaining.min() < smallest):
            smallest = int(remaining.min())
    return smallest


@dataclass(frozen=True, eq=False)
class Table:
    """A member's table: where it lies, and the digests of its rows by ids and by values."""

    data: str
    digests: Mapping[str, Digests] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows; 1 if they are not known, so that there is something to charge."""
        return max(1, len(next(iter(self.digests.values()), ())))


def spent_on(db: sqlite3.Connection, table: Table) -> tuple[int, float, float]:
    """Add up jobs and both budgets for every row, and return the largest of each sum."""
    sums = np.zeros((table.n_rows, 3))
    for job, used in _uses(db, table):
        spent = db.execute(
            "SELECT 1, epsilon, release_epsilon FROM jobs WHERE job = ? AND counted", (job,)
        ).fetchone()
        if spent is not None:
            with refuse_damage():
                sums[used] += spent
    jobs, epsilon, release = sums.max(axis=0).tolist()
    return int(jobs), epsilon, release


def ids_asked_of(
    db: sqlite3.Connection, table: Table, job: str
) -> list[tuple[int, str, int | None]]:
    """Return other jobs that compared ids of a table: how many, how they ended, which change."""
    found = []
    for other, used in _uses(db, table):
        row = db.execute(
            "SELECT ids_asked, state, row_change FROM jobs WHERE job = ? AND ids_asked > 0",
            (other,),
        ).fetchone()
        if row is not None and other != job and used.any():
            found.append(row)
    return found


def last_digests(db: sqlite3.Connection, data: str) -> dict[str, Digests]:
    """Return the digests that the rows of a table had in the last job with it."""
    rows = db.execute(
        "SELECT view, digests FROM job_tables NATURAL JOIN row_sets WHERE job ="
        " (SELECT job FROM jobs WHERE data = ? AND counted ORDER BY started DESC LIMIT 1)",
        (data,),
    )
    return {view: _read(blob) for view, blob in rows}


def earlier_rows(db: sqlite3.Connection, view: str, job: str) -> list[Digests]:
    """Return the different sets of rows that other jobs used."""
    rows = db.execute(
        "SELECT digests FROM row_sets WHERE digest IN"
        " (SELECT digest FROM job_rows WHERE view = ? AND job != ?)",
        (view, job),
    )
    return [_read(blob) for (blob,) in rows]


def keep_table(db: sqlite3.Connection, job: str, digests: Mapping[str, Digests]) -> None:
    """Keep which rows a job could use."""
    for view, rows in digests.items():
        keep_rows(db, "job_tables", job, view, np.unique(rows))


def keep_rows(db: sqlite3.Connection, kind: str, job: str, view: str, rows: Digests) -> None:
    """Keep a set of rows in ``job_rows`` or ``job_tables``; sets of several jobs are kept once."""
    blob = rows.astype("<u8").tobytes()
    digest = hashlib.sha256(blob).hexdigest()
    db.execute("INSERT OR IGNORE INTO row_sets VALUES (?, ?)", (digest, blob))
    db.execute(f"INSERT OR IGNORE INTO {kind} VALUES (?, ?, ?)", (job, view, digest))  # noqa: S608


def _uses(db: sqlite3.Connection, table: Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """All jobs of the history, and which rows of the table each could use."""
    known: dict[tuple[str, str], NDArray[np.bool_]] = {}
    sets: dict[str, list[tuple[str, str]]] = {}
    for job, view, digest in db.execute("SELECT job, view, digest FROM job_tables").fetchall():
        sets.setdefault(job, []).append((view, digest))
    for job, data in db.execute("SELECT job, data FROM jobs").fetchall():
        used = np.full(table.n_rows, data == table.data)
        for view, digest in sets.get(job, ()) if data != table.data else ():
            if view not in table.digests:
                continue
            if (view, digest) not in known:
                blob = db.execute(
                    "SELECT digests FROM row_sets WHERE digest = ?", (digest,)
                ).fetchone()[0]
                known[view, digest] = _common(view, table.digests[view], _read(blob))
            used = used | known[view, digest]
        yield job, used


def _common(view: str, own: Digests, earlier: Digests) -> NDArray[np.bool_]:
    """Which rows are among earlier ones, unless they may be so by chance."""
    common = np.isin(own, earlier)
    fewest = min(len(np.unique(own)), len(earlier))
    if view != BY_ID and len(np.unique(own[common])) < _LEAST_SHARE * fewest:
        return np.zeros(len(own), dtype=bool)
    return common


def _read(blob: bytes) -> Digests:
    with refuse_damage():
        return np.frombuffer(blob, dtype="<u8").astype(np.uint64)
