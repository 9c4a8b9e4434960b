# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A filter with differential privacy: the draw of its selection, and what tells of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedsift.data import Federation, Target
from fedsift.errors import ParameterError
from fedsift.methods.execution import with_prices, with_release
from fedsift.methods.filter.ranking import Params, Ranking
from fedsift.methods.filter.scores import LOWER_IS_BETTER, gini_error_bound
from fedsift.privacy import release
from fedsift.privacy.mechanisms import Accountant
from fedsift.result import SelectionResult


def refuse_numbers(federation: Federation) -> None:
    """Refuse a numeric target: its classes would be quantiles, which depend on the rows."""
    targets: list[Target | None] = [federation.target, *federation.targets.values()]
    if any(target is not None and target.kind == "numbers" for target in targets):
        raise ParameterError(
            "The label is a number.",
            "With a budget of privacy the label needs classes that are known without the data.",
            "Cut the label into classes before, or leave the epsilon out.",
        )


def noise_notes(params: Params) -> tuple[str, ...]:
    """For the plan."""
    if not params.noisy:
        return ()
    delta = f" and delta {params.delta:g}" if params.delta else ""
    return (
        f"Differential privacy: every party adds noise to its own counts before anybody sees them, "
        f"with epsilon {params.epsilon:g}{delta} for the values of one row.",
    )


def with_spent(result: SelectionResult, federation: Federation, params: Params) -> SelectionResult:
    """The result with the budget that every party has spent, in its parameters and ledger."""
    spent, noise = {}, {}
    holder = federation.label_holder
    for party, table in federation.tables.items():
        if federation.setting == "vertical" and party == holder:
            continue  # nobody but this party itself sees its counts
        own = params.noise(table.n_columns)
        account = Accountant(own.epsilon, own.delta)
        own.spend(account, "counts")
        spent[party] = round(account.total, 9)
        noise[party] = own.spread
    any_noise = params.noise(max((t.n_columns for t in federation.tables.values()), default=1))
    changed = "the values" if federation.setting == "vertical" else "the values and the label"
    privacy: dict[str, Any] = {
        "epsilon": params.epsilon,
        "delta": params.delta,
        "mechanism": any_noise.mechanism,
        "neighbours": f"tables that differ in {changed} of one row",
        "spent": spent,
        "noise": noise,
    }
    parameters = {**result.parameters, "privacy": privacy}
    return msgspec.structs.replace(
        result,
        parameters=parameters,
        disclosures=with_prices(result.disclosures, parameters),
    )


def check_filter(params: Params, setting: str) -> None:
    """Refuse settings under which one row could change the selection by more than is promised."""
    if params.score not in SCORES:
        raise ParameterError(
            f"release_epsilon with score={params.score!r}.",
            "One row can change this score by an amount without a useful bound.",
            f"Use {' or '.join(SCORES)}, or no release_epsilon.",
        )
    if params.noisy and setting == "horizontal":
        raise ParameterError(
            "epsilon together with release_epsilon, and parties with different rows.",
            "Noise in the counts covers labels and everything that follows from them here.",
            "Leave release_epsilon out.",
        )
    if params.noisy and params.score != "gini":
        raise ParameterError(
            f"epsilon together with release_epsilon, and score={params.score!r}.",
            "Noisy counts may add up to any number of rows; of the scores only gini stays bounded.",
            "Use score='gini', or one of the two budgets.",
        )


def with_selection_spent(result: SelectionResult, params: Params) -> SelectionResult:
    """The result with the budget that its selection has spent."""
    budget, n_choices = budget_of(params), params.n_features_to_select
    account, prices = budget.account(), budget.prices([1.0] * n_choices)
    budget.spend(account, "the selection", prices)
    return with_release(
        result, budget, account, "exponential mechanism", choices=n_choices, each=prices[0]
    )


Floats = npt.NDArray[np.float64]

SCORES = ("gini", "mi")
"""Scores that one row cannot change by more than a small known amount."""


def budget_of(params: Params) -> release.Release:
    """What the selection may spend."""
    assert params.release_epsilon is not None  # noqa: S101 - asked only if there is a budget
    return release.Release(params.release_epsilon, params.release_delta)


def sensitivity(params: Params, n_rows: int, n_classes: int) -> float:
    """How far one row can move any score of this run."""
    if params.score == "mi":
        return release.mutual_information_sensitivity(n_rows, n_classes)
    if params.noisy:
        return release.gini_gain_sensitivity(n_rows)
    # Weights in fixed point round every impurity, and neighbours differently.
    return release.gini_sensitivity(n_rows) + 2 * gini_error_bound(n_rows, fine=True)


def chosen(
    results: Mapping[str, Floats], params: Params, reach: float, account: Accountant
) -> Ranking:
    """Draw the features to select; ranks are the order of the draws, all others share a place.

    Parameters
    ----------
    results : mapping of party to ndarray
        Scores in the order of each party's features.
    reach : float
        Sensitivity of every score.
    account : Accountant
        Refuses a second selection.
    """
    values = np.concatenate(list(results.values()))
    utilities = -values if params.score in LOWER_IS_BETTER else values
    budget, n_select = budget_of(params), params.n_features_to_select
    budget.spend(account, "the selection", budget.prices([reach] * n_select))
    order = budget.top(utilities, reach, n_select, params.noise_source("selection"))
    ranks = np.full(len(values), n_select + 1, dtype=np.int64)
    ranks[order] = np.arange(1, n_select + 1)
    ends = np.cumsum([len(own) for own in results.values()])[:-1]
    by_party = dict(zip(results, np.split(ranks, ends), strict=True))
    return Ranking(
        scores={},
        selected={
            p: tuple(np.flatnonzero(own <= n_select).tolist()) for p, own in by_party.items()
        },
        ranks=by_party,
    )
