# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on one run of a filter: labels behind scores, and sums of single members.

Scores
Method    filter with a binned score (gini of paper 000; iv, mi and chi2 alike); labels elsewhere.
Leak      A score and one's own bins are an equation in the label counts. A bin of one row has one
          unknown, the label of that row (:func:`lonely_label`). Two columns that differ in one row
          give it by difference, however large their bins are (:func:`label_by_difference`).
Fix       Bins below the minimum size are merged, which ends the first, and scores do not go back
          to feature holders unless the label holder's policy names ``own-scores``, which ends both.
Remains   Where a policy names ``own-scores``, the second attack works; the declaration says so.

Totals
Method    filter on rows of the same columns (and any other method that opens sums over parties).
Leak      The coordinator learns totals over all members, and one member's sums where they are not
          masked (``member-sums``).
Fix       Masks. What several runs tell together is in :mod:`fedsift.lab.attacks.repeats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import unmask_sum
from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks import label_digits, made_columns, rare_class, small_cells
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.made_columns import own_scores
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage, recorded_fit
from fedsift.maths import moments
from fedsift.methods.filter import coordinator as filters_horizontal
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter.horizontal_messages import MaskedSums, OpenTables
from fedsift.methods.filter.ranking import bins_of
from fedsift.methods.filter.scores import TABLE_SCORES
from fedsift.methods.filter.selector import FilterSelector
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Limbs = npt.NDArray[np.uint64]
Solved = list[tuple[int, int | None]]
"""Rows that stand apart, and the label of each where a score tells."""

_SAME = 2.0**-15
"""Scores closer than this are the same: they are computed in fixed point."""

_READABLE_BITS = 40
"""An unmasked count or sum is far below this; a masked one is uniform."""

# What a feature holder solves for


def nearly_equal_columns(n_rows: int, row: int, rng: np.random.Generator) -> Floats:
    """Two columns of zeros and ones, about a third ones, that differ in a single row.

    Returns
    -------
    ndarray of shape (n_rows, 2)
        The row is one in the second column only.
    """
    others = np.delete(np.arange(n_rows), row)
    ones = rng.permutation(others)[: max(1, n_rows // 3)]
    columns = np.zeros((n_rows, 2))
    columns[ones] = 1.0
    columns[row, 1] = 1.0
    return columns


def two_class_score(name: str, positives: Integers, sizes: Integers) -> Floats:
    """A score of tables with two bins and two classes, one for each line of ``positives``.

    Parameters
    ----------
    positives : ndarray of shape (n_tables, 2)
        Rows of the second class in either bin.
    sizes : ndarray of shape (2,)
    """
    tables = np.stack([sizes - positives, positives], axis=2)
    return np.asarray(TABLE_SCORES[name](tables), dtype=np.float64)


def lonely_label(name: str, score: float, sizes: Integers, n_positive: int) -> int | None:
    """The label of the only row in the second bin, if the score tells.

    Parameters
    ----------
    sizes : ndarray of shape (2,)
        Rows of either bin, as the score was computed; the attacker knows them.
    n_positive : int
        Rows of the second class in all; told for the attacker's benefit.

    Examples
    --------
    >>> sizes = np.array([9, 1])
    >>> score = two_class_score("gini", np.array([[4, 0]]), sizes)[0]
    >>> lonely_label("gini", float(score), sizes, n_positive=4)
    0
    """
    if sizes.min() != 1:
        return None
    labels = np.array([0, 1])
    found = two_class_score(name, np.stack([n_positive - labels, labels], axis=1), sizes)
    return _only(labels[np.abs(found - score) < _SAME])


def label_by_difference(name: str, scores: Floats, sizes: Integers, n_positive: int) -> int | None:
    """The label of the one row by which two partitions differ, if their scores tell.

    Parameters
    ----------
    scores : ndarray of shape (2,)
        Of a column without the row among its ones, and of the same column with it.
    sizes : ndarray of shape (2,)
        Zeros and ones of the first column.

    Examples
    --------
    >>> sizes = np.array([14, 6])
    >>> first = two_class_score("gini", np.array([[5, 4]]), sizes)[0]
    >>> second = two_class_score("gini", np.array([[4, 5]]), sizes + [-1, 1])[0]
    >>> label_by_difference("gini", np.array([first, second]), sizes, n_positive=9)
    1
    """
    low, high = max(0, n_positive - int(sizes[0])), min(n_positive, int(sizes[1]))
    ones = np.arange(low, high + 1)
    before = two_class_score(name, np.stack([n_positive - ones, ones], axis=1), sizes)
    ones = ones[np.abs(before - scores[0]) < _SAME]
    explained, larger = [], sizes + np.array([-1, 1])
    for label in (0, 1):
        moved = np.stack([n_positive - ones - label, ones + label], axis=1)
        possible = (moved >= 0).all(axis=1) & (moved <= larger).all(axis=1)
        after = two_class_score(name, moved[possible], larger)
        if (np.abs(after - scores[1]) < _SAME).any():
            explained.append(label)
    return _only(np.array(explained))


def share_right(guesses: list[int | None], labels: Integers) -> float:
    """Share of right labels; where the attacker cannot tell, it tosses a coin.

    Examples
    --------
    >>> share_right([1, None, 0], np.array([1, 0, 0]))
    0.8333333333333334
    """
    points = [0.5 if g is None else float(g == y) for g, y in zip(guesses, labels, strict=True)]
    return float(np.mean(points))


def _only(labels: Integers) -> int | None:
    return int(labels[0]) if len(labels) == 1 else None


def _rows_alone(score: str, scores: Floats, binned: list[Integers], positive: int) -> Solved:
    """Rows that are alone in one of two bins."""
    found: Solved = []
    for value, codes in zip(scores, binned, strict=True):
        sizes = np.bincount(codes)
        if len(sizes) == 2 and sizes.min() == 1:
            row = int(np.flatnonzero(codes == sizes.argmin())[0])
            ordered = np.sort(sizes)[::-1]
            found.append((row, lonely_label(score, float(value), ordered, positive)))
    return found


def _rows_apart(score: str, scores: Floats, binned: list[Integers], positive: int) -> Solved:
    """Rows by which two columns of two bins differ."""
    found: Solved = []
    two = [i for i, codes in enumerate(binned) if codes.max(initial=0) == 1]
    for i in two:
        for j in two:
            apart = np.flatnonzero(binned[i] != binned[j])
            if len(apart) == 1 and binned[j][apart[0]] == 1:
                sizes = np.bincount(binned[i], minlength=2)
                both = np.array([scores[i], scores[j]])
                label = label_by_difference(score, both, sizes, positive)
                found.append((int(apart[0]), label))
    return found


def _labels_found(solved: Solved, codes: Integers, stage: Stage) -> Trial:
    """Share of right labels of the rows that stood apart; a coin if there were none."""
    if not solved:
        return Trial(0.5, 0.5, *stage.told)
    rows = np.array([row for row, _ in solved])
    found = share_right([label for _, label in solved], codes[rows])
    return Trial(found, 0.5, *stage.told)


def _labels_behind_scores(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Feature holders solve whatever scores came back for labels."""
    for party, role in stage.roles(filters.FeatureHolder).items():
        (holder,) = stage.roles(filters.LabelHolder).values()
        params = role._params
        if params.score not in TABLE_SCORES or holder.n_classes != 2:
            run.notes.append(
                "Labels are solved from scores for two classes and binned scores only."
            )
            return
        codes, scores = holder._codes, own_scores(stage, party)
        binned = list(bins_of(role._table, params, holder.n_classes).codes.T)
        if scores is None:
            run.notes.append(f"{party}: no score came back, so there was nothing to solve.")
            scores = np.full(len(binned), np.nan)
        given = (params.score, scores, binned, int(codes.sum()))
        isolation = f"bin-isolation-{'iv' if params.score == 'iv' else 'gini'}"
        yield isolation, party, _labels_found(_rows_alone(*given), codes, stage)
        yield "partition-difference", party, _labels_found(_rows_apart(*given), codes, stage)


def _sums_without_masks(stage: Stage) -> Iterator[Mounted]:
    """The coordinator reads what single members sent."""
    readable: list[bool] = []
    sealed = [
        message
        for kind in (MaskedSums, OpenTables)
        if kind in stage.protocol.messages
        for _, message in stage.received_from("coordinator", kind)
    ]
    for message in sealed:
        limbs = message.sums.array()
        width = limbs.shape[1]
        bits = _READABLE_BITS + (moments.FRACTION_BITS if width > 1 else 0)
        # Counts lie side by side, each in a word of its own.
        counts = (limbs >> np.uint64(_READABLE_BITS) == 0).all(axis=1)
        numbers = unmask_sum([limbs], width)
        readable += [
            bool(count) or abs(number) >> bits == 0
            for count, number in zip(counts, numbers, strict=True)
        ]
    if stage.roles(filters_horizontal.Coordinator) and readable:
        found = float(np.mean(readable))
        trial = Trial(found, 0.0, *stage.told, measure="numbers without a mask")
        yield "member-sums", "coordinator", trial


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Feature holders solve scores for labels; a coordinator reads single members' sums."""
    yield from _labels_behind_scores(run, stage)
    yield from _sums_without_masks(stage)


# Generated data: columns made to tell a label

_ROWS, _POSITIVE, _VICTIMS = 60, 24, 8
_MIN_BIN = 5
_BANK, _REGISTRY = "bank", "label-holder"


def _scored(attack: str, y: Integers, X: Floats, score: str, min_bin: int, share: bool) -> Trial:
    """An attack on a run with all columns at the attacker and the label elsewhere."""
    federation = split_vertical(X, y, 1, label_holder=None, names=[_BANK])
    allowed = ("row-count", "class-count", "selection", "own-scores")
    # Bins whose counts are opened are as large as smallest classes make them.
    sizes: Any = {"min_bin_size": 1, "min_class_size": min_bin}
    counts = ("basic", "counts", "feature-count")
    bare = {
        _REGISTRY: Policy(may_reveal=allowed, **sizes),
        _BANK: Policy(may_reveal=counts, **sizes),
    }
    policy = bare if share else None
    selector = FilterSelector(
        score, n_features_to_select=1, bins=[0.5], min_bin_size=min_bin, policy=policy
    )
    stage = recorded_fit(selector, federation, {})
    run = JobRun("filter", [stage], federation.tables, {})
    return next(trial for name, _, trial in attack_run(run, stage) if name == attack)


def _labels(seed: int) -> tuple[Integers, Integers]:
    """Labels of all rows, and the rows the attacker is after."""
    rng = np.random.default_rng(seed)
    y = rng.permutation((np.arange(_ROWS) < _POSITIVE).astype(np.int64))
    return y, rng.permutation(_ROWS)[:_VICTIMS]


def _isolation(score: str) -> Callable[[str, int], Trial]:
    def trial(variant: str, seed: int) -> Trial:
        y, victims = _labels(seed)
        X = (np.arange(_ROWS)[:, None] == victims).astype(np.float64)
        bare = variant == UNPROTECTED
        return _scored(f"bin-isolation-{score}", y, X, score, 1 if bare else _MIN_BIN, bare)

    return trial


def _difference(variant: str, seed: int) -> Trial:
    y, victims = _labels(seed)
    rng = np.random.default_rng((seed, 1))
    X = np.hstack([nearly_equal_columns(_ROWS, row, rng) for row in victims])
    return _scored("partition-difference", y, X, "gini", _MIN_BIN, variant == UNPROTECTED)


# Parties with rows of the same columns

_MEMBERS, COLUMNS, _CLASSES = 3, 4, 2

Parties = dict[str, tuple[Floats, Integers]]


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums behind the score ``f``: rows, rows of each class, and each column's sum by class."""

    n_rows: int
    class_sizes: npt.NDArray[np.int64]
    sums: Floats

    @classmethod
    def read(cls, numbers: Sequence[int], n_columns: int, n_classes: int) -> Totals:
        """From the numbers in the order that members lay them down; no value is missing."""
        found = moments.read_sums(numbers, n_columns, n_classes, numeric=False, complete=True)
        sums = [[float(value) for value in column.sums] for column in found.columns]
        return cls(found.n_rows, np.array(found.sizes), np.array(sums))

    def minus(self, other: Totals) -> Totals:
        """What the other run had less of."""
        return Totals(
            self.n_rows - other.n_rows,
            self.class_sizes - other.class_sizes,
            self.sums - other.sums,
        )

    @property
    def means(self) -> Floats:
        """Mean of every column; for a single row, the row."""
        return np.asarray(self.sums.sum(axis=1) / max(1, self.n_rows))


def recovered(guess: Floats, truth: Floats) -> float:
    """Share of values known to a millionth of their size."""
    size = np.maximum(np.abs(truth), 1e-3)
    return float((np.abs(guess - truth) <= 1e-6 * size).mean())


def draw_members(
    seed: int | tuple[int, int], n_rows: int = 40, n_columns: int = COLUMNS
) -> Parties:
    """Draw tables with the same columns, and labels."""
    rng = np.random.default_rng(seed)
    found = {}
    for i in range(_MEMBERS):
        y = rng.permutation(np.arange(n_rows) % _CLASSES)
        found[f"party-{i + 1}"] = (rng.normal(size=(n_rows, n_columns)) + y[:, None], y)
    return found


def _pooled(parties: Parties, score: str, **settings: Any) -> tuple[dict[str, Limbs], Stage]:
    """A run, and the last sums that each member sent the coordinator."""
    selector = FilterSelector(score, n_features_to_select=1, **settings)
    stage = recorded_fit(selector, Federation.horizontal(parties), {})
    sent = stage.received_from("coordinator", MaskedSums)
    return {sender: message.sums.array() for sender, message in sent}, stage


def _security(variant: str) -> dict[str, Any]:
    return {"security": "plain"} if variant == UNPROTECTED else {}


def _totals(parts: Sequence[Limbs]) -> Totals:
    """Totals of what members sent: masks of all of them cancel, those of one do not."""
    return Totals.read(unmask_sum(list(parts), moments.LIMBS), COLUMNS, _CLASSES)


def _member_sums(variant: str, seed: int) -> Trial:
    parties = draw_members(seed)
    sent, stage = _pooled(parties, "f", **_security(variant))
    X, y = parties["party-1"]
    true = np.stack([X[y == k].sum(axis=0) for k in range(_CLASSES)], axis=1)
    return Trial(recovered(_totals([sent["party-1"]]).sums, true), 0.0, *stage.told)


ATTACKS = (
    *(
        Attack(
            name=f"bin-isolation-{score}",
            method="filter",
            attacker="feature holder",
            uses=("OwnScores",),
            aims_at="the label of a row that is alone in a bin",
            measure="labels right",
            unprotected="bins of one row, scores go back to their owner",
            default=f"bins of at least {_MIN_BIN} rows, no score goes back",
            trial=_isolation(score),
            declared_as=("own-scores",),
        )
        for score in ("gini", "iv")
    ),
    Attack(
        name="partition-difference",
        method="filter",
        attacker="feature holder",
        uses=("OwnScores",),
        aims_at="the label of the one row by which two columns differ",
        measure="labels right",
        unprotected=f"scores go back to their owner; bins of at least {_MIN_BIN} rows",
        default="no score goes back",
        trial=_difference,
        declared_as=("own-scores",),
    ),
    Attack(
        name="member-sums",
        method="filter",
        attacker="coordinator",
        uses=("MaskedSums",),
        aims_at="one member's sums by class",
        measure="sums known",
        unprotected="no masks (security='plain')",
        default="pairwise masks",
        trial=_member_sums,
        runs=(1, 3),
        declared_as=(),
        tolerance=0.05,
    ),
    *rare_class.ON_FILTER,
    *label_digits.ON_FILTER,
    *small_cells.ATTACKS,
    *made_columns.ON_FILTER,
)
