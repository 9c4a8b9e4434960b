# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a filter with differential privacy tells about its budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fedsift.data import Federation, Target
from fedsift.errors import ParameterError
from fedsift.maths.privacy import Accountant
from fedsift.methods.filter_scores import Params
from fedsift.result import Disclosure, SelectionResult

_NOISY_MESSAGES = ("NoisyCounts", "MaskedSums")


def refuse_numbers(federation: Federation) -> None:
    """Refuse a numeric target: its classes would be quantiles, which depend on the rows."""
    targets: list[Target | None] = [federation.target, *federation.targets.values()]
    if any(target is not None and target.kind == "numbers" for target in targets):
        raise ParameterError(
            "The label is a number.",
            "With an epsilon the label needs classes that are known without the data.",
            "Cut the label into classes before, or leave epsilon out.",
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
    privacy: dict[str, Any] = {
        "epsilon": params.epsilon,
        "delta": params.delta,
        "mechanism": any_noise.mechanism,
        "neighbours": "tables that differ in the values of one row",
        "spent": spent,
        "noise": noise,
    }
    parameters = {**result.parameters, "privacy": privacy}
    return msgspec.structs.replace(
        result,
        parameters=parameters,
        disclosures=with_prices(result.disclosures, parameters),
    )


def with_prices(
    rows: Iterable[Disclosure], parameters: Mapping[str, Any]
) -> tuple[Disclosure, ...]:
    """Rows of a ledger; those that carry noise say which budget they spent."""
    privacy = parameters.get("privacy")
    if not privacy:
        return tuple(rows)
    budget = f"epsilon {privacy['epsilon']:g}"
    if privacy["delta"]:
        budget += f", delta {privacy['delta']:g}"
    return tuple(
        msgspec.structs.replace(row, what=f"{row.what}; with noise, spent {budget}")
        if row.message in _NOISY_MESSAGES
        else row
        for row in rows
    )
