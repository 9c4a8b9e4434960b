# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: what a curious leader and a curious aggregator make of what they see.

The leader, which holds the secret key, and the sums it may decrypt
Method    vfps (paper 002).
Leak      Algorithm 1 shows whoever decrypts the partial distances of groups of one, and of groups
          that form a linear system. Distances of a one-column party are that column.
Fix       Sums over at least two other participants, and (``design="separate"``) no participant in
          two sums of one query. :func:`solve_parts` then finds no participant's part. Sums of one
          group over many queries would still be coordinates (:func:`trilaterate`, or
          :func:`embed` where not all rows are known), and geometries of overlapping groups can be
          subtracted even if no query was shared, or all groups solved together
          (:func:`fit_jointly`). So the leader sees the nearest rows only, and at most half as many
          distances in all as the participants' columns have values.
Remains   Blinding factors are found as common divisors (:func:`unblind`). ``greedy``, ``shapley``,
          ``brute-force`` and ``design="shared"`` give a solvable system; they are refused unless
          every participant's policy names ``paired-groups``. Separate designs that compare all
          rows need ``all-row-distances`` in the same way.

The aggregator, which sees per query orders of rows under pseudo-ids
Leak      The paper shuffles once, so an id is the same row in every query: counting how often ids
          come near (:func:`popularity`) tells central rows from remote ones, and one known row
          stays known.
Fix       Every query has a shuffle of its own, drawn from a secret the aggregator does not have.
          What is left is the order of ids inside one query, unlinked to any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.methods.vfps import blinding
from fedsift.methods.vfps.aggregator import Aggregator
from fedsift.methods.vfps.leader import Leader, _Chunk
from fedsift.methods.vfps.messages import GroupsWanted
from fedsift.methods.vfps.search import Group

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """What the leader sees of one group on one query."""

    query: int
    group: Group
    rows: Integers
    blinded: Integers


class CuriousLeader(Leader):
    """Follows the protocol and keeps everything it decrypts."""

    views: list[View]

    def watch(self) -> None:
        """Start keeping notes."""
        self.views = []

    async def _open(self, chunk: _Chunk, groups: Sequence[Group], net: Any, *, last: bool) -> Any:
        self.views = getattr(self, "views", [])

        def note(ask: GroupsWanted, reply: Any) -> None:
            starts = np.cumsum([0, *chunk.segments])
            for group, sealed in zip(ask.groups, reply.sums, strict=True):
                vector = blinding.open_vector(self._owner, sealed, int(starts[-1]))
                for i, query in enumerate(chunk.queries):
                    known = chunk.rows[i]
                    rows = np.arange(self._n_rows) if known is None else known
                    part = vector[starts[i] : starts[i] + len(rows)]
                    self.views.append(View(query, group, rows, part))

        tapped: Any = _Tap(net, note)
        return await super()._open(chunk, groups, tapped, last=last)


class _Tap:
    """A network that lets its owner read along."""

    def __init__(self, net: Any, note: Any) -> None:
        self._net = net
        self._note = note

    async def ask(self, role: str, message: Any, reply: Any) -> list[Any]:
        answers: list[Any] = await self._net.ask(role, message, reply)
        if isinstance(message, GroupsWanted):
            self._note(message, answers[0])
        return answers


class CuriousAggregator(Aggregator):
    """Follows the protocol and keeps every order of pseudo-ids, and every list, that it sees."""

    rankings: list[Integers]
    lists: list[tuple[tuple[str, ...], int, Integers, npt.NDArray[np.bool_]]]
    """Group, number of the query, sums, and which rows share the label."""

    def watch(self) -> None:
        """Start keeping notes."""
        self.rankings = []
        self.lists = []

    async def _sums(self, members: Any, ask: Any, lengths: Sequence[int], net: Any) -> Any:
        sums = await super()._sums(members, ask, lengths, net)
        ends = np.cumsum(lengths)[:-1]
        pairs = zip(np.split(sums, ends), np.split(ask.alike.array(), ends), strict=True)
        self.lists += [
            (members, ask.first + i, part, alike.astype(bool))
            for i, (part, alike) in enumerate(pairs)
        ]
        return sums

    async def _add_rounded(self, batch: Any, runs: list[int], net: Any) -> None:
        await super()._add_rounded(batch, runs, net)
        self.rankings += [batch.orders[run]._order.copy() for run in runs]


PAPER = {"strategy": "group-testing", "design": "separate", "keep_own": False}
"""The paper's way, in which the leader decrypts distances."""

CURIOUS = {Leader: CuriousLeader, Aggregator: CuriousAggregator}


def unblind(values: Integers) -> Integers:
    """Differences to the first number, without the factor: integers share it as a divisor.

    Examples
    --------
    >>> unblind(np.array([100, 107, 121])).tolist()
    [0, 1, 3]
    """
    differences = values - values[0]
    factor = int(np.gcd.reduce(differences))
    return np.asarray(differences // factor if factor else differences)


@dataclass(frozen=True)
class Guess:
    """A participant's part of the distances to some rows, up to an offset."""

    rows: Integers
    values: Floats
    solved: bool


def solve_parts(views: Sequence[View], known: Mapping[str, Floats]) -> dict[str, Guess]:
    """Solve the sums of one query for the parts of single participants.

    Parameters
    ----------
    views : list of View
        All of one query; only rows that all of them cover are used.
    known : dict of participant to ndarray of shape (n_rows,)
        Parts the leader has anyway (its own), in the units of the sums.

    Returns
    -------
    dict of participant to Guess
        ``solved`` says that the system determines the part; otherwise it is the shortest solution.
    """
    names = sorted({name for view in views for name in view.group} | set(known))
    system = [[float(name in view.group) for name in names] for view in views]
    rows = views[0].rows
    for view in views[1:]:
        rows = np.intersect1d(rows, view.rows)
    right = []
    for view in views:
        where = np.argsort(view.rows)[np.searchsorted(np.sort(view.rows), rows)]
        numbers = unblind(view.blinded)[where]
        right.append((numbers - numbers[0]).astype(np.float64))
    for name, values in known.items():
        system.append([float(name == other) for other in names])
        right.append(values[rows] - values[rows[0]])
    matrix = np.array(system)
    inverse = np.linalg.pinv(matrix)
    solution = inverse @ np.stack(right)
    resolved = np.isclose(np.diag(inverse @ matrix), 1.0)
    return {
        name: Guess(rows, solution[i], bool(resolved[i]))
        for i, name in enumerate(names)
        if name not in known
    }


def trilaterate(distances: Floats, queries: Sequence[int]) -> Floats:
    """Coordinates of all rows, up to a rotation, from squared distances to several query rows.

    Parameters
    ----------
    distances : ndarray of shape (n_queries, n_rows)
        One group's sums, each row with its zero at its own query.
    queries : list of int
        The rows that were the queries.
    """
    among = distances[:, list(queries)]
    n = len(queries)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ (among + among.T) / 2 @ centre)
    kept = values > 1e-6 * values.max()
    axes = vectors[:, kept] / np.sqrt(values[kept])
    return np.asarray(-0.5 * (distances - among.mean(axis=1, keepdims=True)).T @ axes)


@dataclass(frozen=True)
class Edges:
    """Squared distances between some rows in one group's columns."""

    first: Integers
    second: Integers
    squares: Floats

    @classmethod
    def of(cls, views: Sequence[View], group: Group) -> Edges:
        """Everything the leader knows exactly about a group."""
        parts: list[tuple[Integers, Integers, Floats]] = []
        for view in views:
            if view.group != group:
                continue
            numbers = unblind(view.blinded).astype(np.float64)
            zero = numbers[np.flatnonzero(view.rows == view.query)[0]]
            kept = view.rows != view.query
            rows = view.rows[kept]
            parts.append((np.full(len(rows), view.query), rows, (numbers - zero)[kept]))
        first, second, squares = (np.concatenate(column) for column in zip(*parts, strict=True))
        return cls(first, second, squares)


def _fit_points(edges: Edges, members: Floats | float, start: Floats) -> Any:
    """Points that fit squared distances in some columns, by least squares."""
    from scipy.optimize import minimize

    first, second = edges.first, edges.second

    def misfit(flat: Floats) -> tuple[float, Floats]:
        points = flat.reshape(start.shape)
        gaps = points[first] - points[second]
        errors = (members * gaps**2).sum(axis=1) - edges.squares
        slopes, pulls = np.zeros_like(points), 4 * errors[:, None] * members * gaps
        np.add.at(slopes, first, pulls)
        np.add.at(slopes, second, -pulls)
        return float((errors**2).sum()), slopes.ravel()

    options = {"maxiter": 1000}
    return minimize(misfit, start.ravel(), jac=True, method="L-BFGS-B", options=options)


def embed(edges: Edges, n_rows: int, n_columns: int) -> Floats:
    """Coordinates that fit some known distances: shortest paths first, then least squares.

    Parameters
    ----------
    n_columns : int
        Of the group; the attacker is told.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Up to a rotation if the distances determine it, otherwise one of many answers.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import shortest_path

    first, second = edges.first, edges.second
    scale = float(edges.squares.mean())
    squares = np.maximum(edges.squares / scale, 1e-9)
    graph = coo_matrix((np.sqrt(squares), (first, second)), shape=(n_rows, n_rows)).tocsr()
    paths = shortest_path(graph.maximum(graph.T), directed=False)
    paths[~np.isfinite(paths)] = paths[np.isfinite(paths)].max()
    centre = np.eye(n_rows) - 1.0 / n_rows
    values, vectors = np.linalg.eigh(-0.5 * centre @ paths**2 @ centre)
    start = vectors[:, -n_columns:] * np.sqrt(np.maximum(values[-n_columns:], 1e-12))
    found = _fit_points(Edges(first, second, squares), 1.0, start)
    return np.asarray(found.x.reshape(n_rows, n_columns) * np.sqrt(scale))


def fit_jointly(views: Sequence[View], names: Sequence[str], n_rows: int, n_starts: int) -> Floats:
    """Columns of one-column participants that fit everything seen of all groups together.

    Returns
    -------
    ndarray of shape (n_rows, n_participants)
        The best fit of several random starts; each column up to a shift and the sign.
    """
    groups = list(dict.fromkeys(view.group for view in views))
    edges = [Edges.of(views, group) for group in groups]
    first = np.concatenate([some.first for some in edges])
    second = np.concatenate([some.second for some in edges])
    squares = np.concatenate([some.squares for some in edges])
    members = np.concatenate(
        [
            np.tile([float(name in group) for name in names], (len(some.first), 1))
            for group, some in zip(groups, edges, strict=True)
        ]
    )
    scale = float(squares.mean())
    shape = (n_rows, len(names))
    starts = (np.random.default_rng(s).normal(scale=0.5, size=shape) for s in range(n_starts))
    fits = [_fit_points(Edges(first, second, squares / scale), members, s) for s in starts]
    best = min(fits, key=lambda fit: float(fit.fun))
    return np.asarray(best.x.reshape(shape) * np.sqrt(scale))


def geometry(
    views: Sequence[View], group: Group, pairs: Integers, n_rows: int, n_columns: int
) -> Floats:
    """Squared distances of pairs of rows in one group's columns, as well as they can be had.

    Parameters
    ----------
    pairs : ndarray of shape (n_pairs, 2)
    """
    own = [view for view in views if view.group == group]
    if all(len(view.rows) == n_rows for view in own):
        table = np.empty((len(own), n_rows))
        for i, view in enumerate(own):
            numbers = unblind(view.blinded).astype(np.float64)
            table[i, view.rows] = numbers - numbers[np.flatnonzero(view.rows == view.query)[0]]
        points = trilaterate(table, [view.query for view in own])
    else:
        points = embed(Edges.of(own, group), n_rows, n_columns)
    return np.asarray(((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2).sum(axis=1))


def subtract_geometries(views: Sequence[View], trio: Group, pairs: Integers, n_rows: int) -> Floats:
    """Squared distances in the first of three one-column participants, from all pairs of them."""
    a, b, c = trio
    shapes = [geometry(views, group, pairs, n_rows, 2) for group in ((a, b), (a, c), (b, c))]
    return (shapes[0] + shapes[1] - shapes[2]) / 2


def likeness(guess: npt.NDArray[Any], truth: npt.NDArray[Any]) -> float:
    """Squared correlation of a guess with the truth; 0 where one of them does not vary."""
    if np.std(guess) == 0 or np.std(truth) == 0:
        return 0.0
    return float(np.corrcoef(guess, truth)[0, 1] ** 2)


def popularity(rankings: Sequence[Integers], n_rows: int, depth: int) -> Integers:
    """How often each pseudo-id is among the first of a ranking.

    Examples
    --------
    >>> popularity([np.array([2, 0, 1]), np.array([2, 1, 0])], 3, depth=1).tolist()
    [0, 0, 2]
    """
    counts = np.zeros(n_rows, dtype=np.int64)
    for ranking in rankings:
        counts[ranking[:depth]] += 1
    return counts


def linked(rankings: Sequence[Integers], row_of: Integers, true: Integers, depth: int) -> float:
    """Squared correlation of what an aggregator counts with how central the rows really are.

    Parameters
    ----------
    row_of : ndarray of shape (n_rows,)
        The row that the attacker takes each id for.
    true : ndarray of shape (n_rows,)
        How often each row really comes near.
    """
    return likeness(popularity(rankings, len(true), depth), true[row_of])
