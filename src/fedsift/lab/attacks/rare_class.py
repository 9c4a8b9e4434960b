# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks with labels that few rows share, by whoever has the labels or adds them up.

Method    Filters of every score, vertical and horizontal, and interaction, where an own column that
          marks a row does what a label does (``marked-column``).
Leak      A class of one row makes a class sum that row's value, a count the bin of that row, and a
          score a function of it. A number that stands out in one row does the same. Whoever has the
          labels may choose them.
Fix       ``min_class_size``: labels that fewer rows share are refused before anything is sent;
          sizes of pooled classes are compared first, and not opened; bins whose counts are opened
          hold so many rows for every class; chi2 tells scores alone.
Remains   A class of the smallest size that is allowed, which is tried on the defaults too. Counts
          of two classes, one of which has five rows, in three bins: the bin with most of the five
          is that of 0.57 of them, where the largest bin of all rows is that of 0.42.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import unmask_sum
from fedsift.data import Federation, split_vertical
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import recorded_fit
from fedsift.maths import moments
from fedsift.methods.checks import rows_with_variance
from fedsift.methods.filter.feature_holder import FeatureHolder
from fedsift.methods.filter.features import unit_columns
from fedsift.methods.filter.horizontal_messages import MaskedSums
from fedsift.methods.filter.label_holder import LabelHolder
from fedsift.methods.filter.ranking import contingency
from fedsift.methods.filter.selector import FilterSelector
from fedsift.methods.interaction.selector import InteractionSelector
from fedsift.protocol import Policy
from fedsift.protocol.policy import SMALLEST_CLASS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ROWS, _COLUMNS, _FEW_COLUMNS = 60, 64, 10
_EDGES = [-0.6, 0.5]
_ANY_CLASS = Policy(min_class_size=1, min_bin_size=1)
_OF_NUMBERS = replace(_ANY_CLASS, may_reveal=("basic", "scores"))


class CuriousLabelHolder(LabelHolder):
    """Follows the protocol and keeps what it opens."""

    tables: list[Integers]
    sums: list[Floats]

    @staticmethod
    def watch(role: Any) -> None:
        """Begin with nothing."""
        role.tables, role.sums = [], []

    def _scores_of_sums(self, sums: Floats, exponents: Integers) -> Floats:
        self.sums.append(np.ldexp(sums, exponents[:, None]))
        return super()._scores_of_sums(sums, exponents)

    def _scores_of_counts(self, owner: Any, party: str, offer: Any, reply: Any) -> Floats:
        opened = owner.open_products(reply.counts, offer.n_features * offer.n_cells)
        known = opened.astype(np.int64).reshape(offer.n_features, offer.n_cells, -1)
        self.tables.append(known)
        return super()._scores_of_counts(owner, party, offer, reply)


def best_of(tried: Callable[[int], Trial], sizes: Sequence[int], guess: float) -> Trial:
    """The attack with the fewest marked rows whose job is not refused; a guess if all are.

    Numbers that mark fewer rows are no classes of their own, so that there is none to score by.
    """
    for size in sizes:
        try:
            return tried(size)
        except (PolicyViolation, ParameterError):
            continue
    return Trial(guess, guess)


def _sizes(variant: str) -> tuple[int, ...]:
    """Rows that the attacker marks: one, and on the defaults as many as are allowed."""
    return (1,) if variant == UNPROTECTED else (1, SMALLEST_CLASS)


def _values(seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(_ROWS, _COLUMNS))


def _policy(variant: str, task: str = "classification") -> Policy | None:
    """Scores of numbers have to be named."""
    if variant != UNPROTECTED:
        return None
    return _OF_NUMBERS if task == "regression" else _ANY_CLASS


def _policy_on_counts(variant: str) -> Policy | None:
    """The same where counts, and scores of numbers, are opened, which a policy has to name."""
    policy = _policy(variant)
    return None if policy is None else replace(policy, may_reveal=("basic", "scores", "counts"))


def _marked(n_marked: int, task: str = "classification") -> npt.NDArray[Any]:
    """A label that marks the first rows; the first of all is the victim."""
    y = (np.arange(_ROWS) < n_marked).astype(np.int64)
    return y.astype(np.float64) if task == "regression" else y


def _federation(X: Floats, y: npt.NDArray[Any], task: str = "classification") -> Federation:
    return split_vertical(X, y, 1, label_holder=None, names=["bank"], task=task)


def alike(found: Floats, true: Floats) -> float:
    """Squared correlation over the columns."""
    if np.ptp(found) == 0:
        return 0.0
    return float(np.corrcoef(found, true)[0, 1] ** 2)


def _from_f(variant: str, seed: int) -> Trial:
    """The victim's standardised values from scores: a share of variance is a squared value."""
    X = _values(seed)

    def tried(n_marked: int) -> Trial:
        return _victim_in_f(X, _marked(n_marked), variant)

    return best_of(tried, _sizes(variant), 0.0)


def _from_numbers(variant: str, seed: int) -> Trial:
    """The same, by numbers: a mark, one that others hide, and as much as one row may carry."""
    X = _values(seed)

    def tried(number: int) -> Trial:
        label = uneven_labels(SMALLEST_CLASS, np.random.default_rng(seed))[number]
        return _victim_in_f(X, label, variant, "regression")

    numbers = (0,) if variant == UNPROTECTED else range(_N_LABELS)
    trials = [best_of(tried, (number,), 0.0) for number in numbers]
    return max(trials, key=lambda trial: trial.found)


_N_LABELS = 4
_SHARE, _BESIDE = 0.41, 11


def uneven_labels(smallest: int, rng: np.random.Generator) -> list[Floats]:
    """Numbers of which the first row, the victim, carries less and less of the variance.

    All of it; 41 per cent beside eleven equal rows, which together look like five rows by their
    fourth moment; just as much as is allowed, beside noise in all others; and equal marks.
    """
    signs = rng.permutation(np.where(np.arange(_BESIDE) % 2, 1.0, -1.0))
    beside = np.zeros(_ROWS)
    beside[0], beside[1 : _BESIDE + 1] = np.sqrt(_SHARE), signs * np.sqrt((1 - _SHARE) / _BESIDE)
    return [_marked(1).astype(np.float64), beside, _largest_mark(smallest, rng),
            _marked(smallest).astype(np.float64)]  # fmt: skip


def _largest_mark(smallest: int, rng: np.random.Generator) -> Floats:
    """The highest first number that is not refused, among numbers that hardly differ."""
    label = 1.0 + 0.1 * rng.random(_ROWS)
    label[1::2] *= -1.0
    for height in np.arange(8.0, 0.0, -0.01):
        label[0] = height
        if rows_with_variance(label) >= smallest:
            break
    return label


def _victim_in_f(
    X: Floats, label: npt.NDArray[Any], variant: str, task: str = "classification"
) -> Trial:
    selector = FilterSelector("f", n_features_to_select=1, policy=_policy(variant, task))
    stage = recorded_fit(selector, _federation(X, label, task))
    found = np.sqrt(selector.scores_ / (selector.scores_ + _ROWS - 2))
    return Trial(alike(found, np.abs(unit_columns(X)[0])), 0.0, *stage.told)


def _from_relevance(variant: str, seed: int) -> Trial:
    X = _values(seed)

    def tried(n_marked: int) -> Trial:
        federation = _federation(X, _marked(n_marked))
        selector = InteractionSelector(n_features_to_select=1, policy=_policy(variant))
        stage = recorded_fit(selector, federation)
        (role,) = stage.nodes["bank"]
        order: Integers = role._order  # type: ignore[attr-defined]  # told with the names
        found = np.empty(_COLUMNS)
        found[order] = np.sqrt(np.maximum(stage.outcome.value.relevance, 0))
        return Trial(alike(found, np.abs(unit_columns(X)[0])), 0.0, *stage.told)

    return best_of(tried, _sizes(variant), 0.0)


def _from_weights(variant: str, seed: int) -> Trial:
    """An own column that is 1 in the victim's row asks for its covariance with all others."""
    X = _values(seed)[:, :_FEW_COLUMNS]

    def tried(n_marked: int) -> Trial:
        own = (np.arange(_ROWS) < n_marked).astype(np.float64)
        shop = {str(f): X[:, f] for f in range(_FEW_COLUMNS)}
        label = ("bank", _marked(SMALLEST_CLASS))
        federation = Federation.vertical({"bank": {"mark": own}, "shop": shop}, label)
        selector = InteractionSelector(
            n_features_to_select=1 + _FEW_COLUMNS, policy=_policy(variant)
        )
        stage = recorded_fit(selector, federation)
        # Weights between the mark and a column are opened when the first of both is selected.
        found: dict[str, float] = {}
        for step in selector.result_.history:
            weights = step.get("weights", {})
            if step.get("feature") == "mark":
                found |= weights["shop"]
            elif "bank" in weights:
                found[step["feature"]] = weights["bank"]["mark"]
        if not found:  # the mark takes no part
            return Trial(0.0, 0.0, *stage.told)
        told = np.array([found[str(f)] for f in range(_FEW_COLUMNS)])
        return Trial(alike(told, unit_columns(X)[0] ** 2), 0.0, *stage.told)

    return best_of(tried, _sizes(variant), 0.0)


def _from_gini(task: str) -> Callable[[str, int], Trial]:
    """The size of the victim's bin follows from the score; sizes of bins are told for its sake."""

    def trial(variant: str, seed: int) -> Trial:
        X = _values(seed)
        codes = np.searchsorted(_EDGES, X)
        sizes = np.array([np.bincount(column, minlength=3) for column in codes.T])
        guess = float(sizes.max(axis=1).mean()) / _ROWS

        def tried(n_marked: int) -> Trial:
            selector = FilterSelector(
                "gini", n_features_to_select=1, bins=_EDGES, policy=_policy(variant, task)
            )
            stage = recorded_fit(selector, _federation(X, _marked(n_marked, task), task))
            told = 2 / np.maximum(2 - _ROWS * selector.scores_, 1e-9)
            found = np.abs(sizes - told[:, None]).argmin(axis=1)
            return Trial(float((found == codes[0]).mean()), guess, *stage.told)

        return best_of(tried, _sizes(variant), guess)

    return trial


def _from_counts(score: str) -> Callable[[str, int], Trial]:
    """Every row, or every few rows, a class of their own: counts tell the bins of all of them."""

    def trial(variant: str, seed: int) -> Trial:
        X = np.random.default_rng(seed).normal(size=(_ROWS, 4)) - 0.1

        def tried(n_marked: int) -> Trial:
            y = np.arange(_ROWS) // n_marked
            settings: dict[str, Any] = {"bins": _EDGES, "n_features_to_select": 1}
            selector = FilterSelector(score, policy=_policy_on_counts(variant), **settings)
            twins = {LabelHolder: CuriousLabelHolder}
            stage = recorded_fit(selector, _federation(X, y), twins)
            (holder,) = stage.roles(CuriousLabelHolder).values()
            if not holder.tables:
                return Trial(0.0, 0.0, *stage.told)
            (order,) = (role.order for role in stage.roles(FeatureHolder).values())
            found = [
                _grouped(table, y, np.searchsorted(_EDGES, X[:, feature]))
                for table, feature in zip(holder.tables[0], order, strict=True)
            ]
            return Trial(float(np.mean(found)), 0.0, *stage.told)

        return best_of(tried, _sizes(variant), 0.0)

    return trial


def _grouped(table: Integers, y: Integers, bins: Integers) -> float:
    """What counts of bins by class say about rows, beyond a guess at the largest bin."""
    guess = np.bincount(bins).max() / len(bins)
    known = np.flatnonzero(y < table.shape[1])  # the last class is what is left
    groups = table.argmax(axis=0)[y[known]]
    joint = contingency(groups[:, None], table.shape[0], bins[known], 3)[0]
    right = float(joint.max(axis=1).sum()) / len(known)
    return float(max(0.0, (right - guess) / (1 - guess)))


def _from_sums(task: str) -> Callable[[str, int], Trial]:
    """Frequencies: the sum of a class of one row is the row."""

    def trial(variant: str, seed: int) -> Trial:
        X = np.abs(_values(seed))

        def tried(n_marked: int) -> Trial:
            shown = {"disclose": "counts"} if variant == UNPROTECTED else {}
            policy = _policy_on_counts(variant)
            selector = FilterSelector("chi2", n_features_to_select=1, policy=policy, **shown)
            federation = _federation(X, _marked(n_marked, task), task)
            stage = recorded_fit(selector, federation, {LabelHolder: CuriousLabelHolder})
            (holder,) = stage.roles(CuriousLabelHolder).values()
            if holder.sums:
                (order,) = (role.order for role in stage.roles(FeatureHolder).values())
                known = np.abs(holder.sums[0][:, 1] - X[0, order]) < 1e-6
                return Trial(float(known.mean()), 0.0, *stage.told)
            found = np.sqrt(selector.scores_)
            return Trial(alike(found, np.abs(X[0] - X.mean(axis=0))), 0.0, *stage.told)

        return best_of(tried, _sizes(variant), 0.0)

    return trial


def _pooled(score: str, task: str) -> Callable[[str, int], Trial]:
    """The coordinator reads the sums of rows that are marked at one member."""

    def trial(variant: str, seed: int) -> Trial:
        X = np.abs(_values(seed)) + 1
        shares = np.array_split(np.arange(_ROWS), 3)

        def tried(n_marked: int) -> Trial:
            y = _marked(n_marked, task)
            parties = {f"party-{i}": (X[rows], y[rows]) for i, rows in enumerate(shares)}
            federation = Federation.horizontal(parties, task=task)
            selector = FilterSelector(score, n_features_to_select=1, policy=_policy(variant))
            stage = recorded_fit(selector, federation)
            replies = [m.sums.array() for m in stage.received("coordinator", MaskedSums)][-3:]
            complete = _policy(variant) is None  # otherwise nothing is compared
            found = _sums_of_marked(unmask_sum(replies, moments.LIMBS), task, complete=complete)
            return Trial(float((np.abs(found - X[0]) < 1e-6).mean()), 0.0, *stage.told)

        return best_of(tried, _sizes(variant), 0.0)

    return trial


def _sums_of_marked(numbers: Sequence[int], task: str, *, complete: bool) -> Floats:
    """Sums of the second class, or of products with the label, by column."""
    numeric = task == "regression"
    classes = 0 if numeric else 2
    found = moments.read_sums(numbers, _COLUMNS, classes, numeric=numeric, complete=complete)
    return np.array([float(one.product if numeric else one.sums[1]) for one in found.columns])


def _pooled_bins(score: str) -> Callable[[str, int], Trial]:
    """The coordinator reads the bins of rows that have classes of their own at the members."""

    def trial(variant: str, seed: int) -> Trial:
        X = np.random.default_rng(seed).normal(size=(_ROWS, 4)) - 0.1
        shares = np.array_split(np.arange(_ROWS), 3)

        def tried(n_marked: int) -> Trial:
            y = np.arange(_ROWS) // n_marked
            names = np.array([f"class-{code:02d}" for code in y])
            parties = {f"party-{i}": (X[rows], names[rows]) for i, rows in enumerate(shares)}
            # Without a policy, parties in one process open all cells; organisations do not.
            policy = _policy(variant) or Policy(min_security_bits=0)
            selector = FilterSelector(score, bins=_EDGES, n_features_to_select=1, policy=policy)
            stage = recorded_fit(selector, Federation.horizontal(parties, task="classification"))
            (role,) = stage.nodes["coordinator"]
            opened: list[int] = role._totals  # type: ignore[attr-defined]  # by it alone
            tables = np.array(opened).reshape(X.shape[1], -1, y.max() + 1)
            known = [
                _grouped(table, y, np.searchsorted(_EDGES, column))
                for table, column in zip(tables, X.T, strict=True)
            ]
            return Trial(float(np.mean(known)), 0.0, *stage.told)

        return best_of(tried, _sizes(variant), 0.0)

    return trial


_REFUSED = f"classes of fewer than {SMALLEST_CLASS} rows are refused; a class of {SMALLEST_CLASS}"


def _attack(
    name: str,
    trial: Callable[[str, int], Trial],
    uses: tuple[str, ...],
    aims_at: str,
    measure: str,
    **options: Any,
) -> Attack:
    given = {
        "method": "filter",
        "attacker": "label holder",
        "unprotected": "min_class_size=1: one row with a class of its own",
        "default": _REFUSED,
        "runs": (2, 5),
        **options,
    }
    return Attack(name=name, trial=trial, uses=uses, aims_at=aims_at, measure=measure, **given)


_VICTIM = "the values of a row that has a class of its own"
_MARKED = "the values of a row that the label marks with a number"
_BY_NUMBERS = {
    "unprotected": "min_class_size=1: a label that is 1 in one row and 0 elsewhere",
    "default": f"numbers that mark fewer than {SMALLEST_CLASS} rows are refused; "
    f"{SMALLEST_CLASS} rows are marked",
}
ON_FILTER = (
    _attack("rare-class-f", _from_f, ("SealedScores",), _VICTIM,
            "squared correlation", declared_as=("feature-scores",)),
    _attack("rare-class-gini", _from_gini("classification"), ("SealedScores",),
            "the bins of such a row", "bins right", declared_as=("feature-scores",)),
    *(
        _attack(f"rare-class-{score}", _from_counts(score), ("SealedCounts",),
                "the bins of rows that have classes of their own", "bins known beyond a guess",
                declared_as=("bin-counts",))
        for score in ("mi", "iv")
    ),
    _attack("rare-class-chi2", _from_sums("classification"), ("SealedSums", "ScaledScores"),
            _VICTIM, "values known, or squared correlation",
            declared_as=("class-sums", "feature-scores")),
    *(
        _attack(f"rare-class-pooled-{score}", _pooled(score, "classification"), ("MaskedSums",),
                _VICTIM, "values known", attacker="coordinator", declared_as=("pooled-sums",))
        for score in ("f", "chi2")
    ),
    *(
        _attack(f"rare-class-pooled-{score}", _pooled_bins(score), ("MaskedSums",),
                "the bins of rows that have classes of their own", "bins known beyond a guess",
                attacker="coordinator", declared_as=("pooled-sums",))
        for score in ("gini", "mi", "iv")
    ),
    _attack("marked-row", _from_numbers, ("NumericScores",), _MARKED, "squared correlation",
            unprotected=_BY_NUMBERS["unprotected"],
            default=f"refused where a row has more than 1/{SMALLEST_CLASS} of the variance; "
            "as much as that",
            declared_as=("numeric-scores",)),
    _attack("marked-row-gini", _from_gini("regression"), ("NumericScores",),
            "the bins of a row that the label marks with a number", "bins right",
            declared_as=("numeric-scores",), **_BY_NUMBERS),
    _attack("marked-row-chi2", _from_sums("regression"), ("NumericSums", "ScaledNumericScores"),
            _MARKED, "values known, or squared correlation", declared_as=("numeric-scores",),
            **_BY_NUMBERS),
    _attack("marked-row-pooled", _pooled("f", "regression"), ("MaskedSums",), _MARKED,
            "values known", attacker="coordinator", declared_as=("pooled-sums",), **_BY_NUMBERS),
)  # fmt: skip
ON_INTERACTION = (
    _attack("rare-class-interaction", _from_relevance, ("SealedRelevance",), _VICTIM,
            "squared correlation", method="interaction", attacker="label owner",
            declared_as=("relevance",)),
    _attack("marked-column", _from_weights, ("SealedWeights",),
            "the values of a row that an own column of the label owner marks",
            "squared correlation", method="interaction", attacker="label owner",
            unprotected="min_class_size=1: a column that is 1 in one row",
            default=f"columns that mark fewer than {SMALLEST_CLASS} rows are refused; "
            f"{SMALLEST_CLASS} rows are marked",
            declared_as=("interaction-weights",)),
)  # fmt: skip
