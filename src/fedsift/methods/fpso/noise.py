# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What FPSO-FS with differential privacy checks before it runs, and tells about its budget."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from fedsift.data import Federation
from fedsift.data.federation import local_only
from fedsift.errors import ParameterError
from fedsift.methods.execution import with_prices
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.votes import Elected, number_of_blocks
from fedsift.privacy.mechanisms import Accountant
from fedsift.result import SelectionResult

_NOT_WITH_VOTES = {"mode": "rounds", "integration": "mean", "aggregation": "masked"}


def check_votes(settings: dict[str, Any]) -> None:
    """Refuse settings that mean nothing, or would tell more than noisy votes."""
    epsilon = settings["epsilon"]
    for name in ("n_blocks", "n_votes"):
        if settings[name] is not None and epsilon is None:
            raise ParameterError(
                f"{name}={settings[name]!r} without an epsilon.",
                "Blocks of rows vote in runs with differential privacy only.",
                f"Give an epsilon, or leave {name} out.",
            )
    if epsilon is None:
        return
    for name, usual in _NOT_WITH_VOTES.items():
        if settings[name] != usual:
            raise ParameterError(
                f"{name}={settings[name]!r} together with an epsilon.",
                "With an epsilon blocks of rows vote once, and no accuracies are compared.",
                f"Leave {name} out.",
            )
    if settings["checkpoint"] is not None:
        raise ParameterError(
            "A checkpoint together with an epsilon.",
            "A resumed run would reveal votes again, and spend the budget again.",
            "Leave the checkpoint out.",
        )


def vote_notes(federation: Federation, params: Params) -> tuple[str, ...]:
    """For the plan: the promise, and how much noise stands against how many votes."""
    if not params.noisy:
        return ()
    delta = f" and delta {params.delta:g}" if params.delta else ""
    n_features = federation.n_features
    notes = [
        "Differential privacy: blocks of rows vote for features, and every party adds noise to its "
        f"votes before anybody sees them, with epsilon {params.epsilon:g}{delta} for the values "
        f"and the label of one row. A block votes for at most {params.votes(n_features)} features.",
    ]
    spread = params.noise(n_features).spread
    for party, table in local_only(federation.tables).items():
        target = federation.targets[party]
        n_classes = 0 if target is None else len(target.classes)
        n_blocks = number_of_blocks(table.n_rows, n_classes, params, party)
        notes.append(
            f"{party}: a feature gets at most {n_blocks} votes; the noise has a standard deviation "
            f"of {spread:.1f}."
        )
    return tuple(notes)


def vote_warnings(elected: Elected, params: Params, n_parties: int) -> tuple[str, ...]:
    """Say so where the votes look like noise alone; that follows from what was told anyway."""
    expected = n_parties * params.noise(len(elected.votes)).spread ** 2
    if float(np.var(elected.votes)) > 2 * expected:
        return ()
    return (
        "The votes differ hardly more than noise alone would make them: the selection is nearly "
        "random. More rows, a larger epsilon or fewer features help.",
    )


def with_votes(result: SelectionResult, federation: Federation, params: Params) -> SelectionResult:
    """The result with the budget that every party has spent, in its parameters and ledger."""
    noise = params.noise(federation.n_features)
    account = Accountant(noise.epsilon, noise.delta)
    noise.spend(account, "votes")
    privacy = {
        "epsilon": params.epsilon,
        "delta": params.delta,
        "mechanism": noise.mechanism,
        "neighbours": "tables that differ in the values and the label of one row",
        "spent": dict.fromkeys(federation.tables, round(account.total, 9)),
        "noise": dict.fromkeys(federation.tables, noise.spread),
        "votes_of_a_block": params.votes(federation.n_features),
    }
    parameters = {**result.parameters, "privacy": privacy}
    # The noise of all parties together is known to everybody; how votes vary without it is not.
    error = float(f"{noise.spread * len(federation.tables) ** 0.5:.2g}")
    errors = {party: dict.fromkeys(votes, error) for party, votes in result.scores.items()}
    return msgspec.structs.replace(
        result,
        parameters=parameters,
        disclosures=with_prices(result.disclosures, parameters),
        history=(*result.history, {"standard_errors": errors, "errors_are": "noise"}),
    )
