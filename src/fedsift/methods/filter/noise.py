# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a filter with differential privacy tells about its budget."""

from __future__ import annotations

from typing import Any

import msgspec

from fedsift.data import Federation, Target
from fedsift.errors import ParameterError
from fedsift.methods.filter import release as filter_release
from fedsift.methods.filter.ranking import Params
from fedsift.methods.release import with_prices, with_release
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
    if params.score not in filter_release.SCORES:
        raise ParameterError(
            f"release_epsilon with score={params.score!r}.",
            "One row can change this score by an amount without a useful bound.",
            f"Use {' or '.join(filter_release.SCORES)}, or no release_epsilon.",
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
    budget, n_choices = filter_release.budget_of(params), params.n_features_to_select
    account, prices = budget.account(), budget.prices([1.0] * n_choices)
    budget.spend(account, "the selection", prices)
    return with_release(
        result, budget, account, "exponential mechanism", choices=n_choices, each=prices[0]
    )
