# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a party's policy allows what a method reveals, before the party has said anything.

What a method reveals depends on its settings and on the parties' data. A party knows the job and
its own part, and vertically how many rows and classes the coordinator has; the rest is guessed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from fedsift.errors import PolicyViolation
from fedsift.jobs.setup_terms import Agreed
from fedsift.methods.checks import SetupNeeds


def refuse_missing_kinds(
    known: Agreed,
    others: Collection[str],
    needs: SetupNeeds,
    review: Callable[[Agreed], object],
) -> None:
    """Refuse a job whose method needs kinds that a policy does not name, whatever others allow.

    Parameters
    ----------
    known : Agreed
        What the party knows at first, and guesses of the rest.
    others : collection of str
        Parties at other sites.
    needs : SetupNeeds
        With the choices that decide settings.
    review : callable
        Looks at a whole job by lists of kinds alone; raises to refuse.
    """
    refused: PolicyViolation | None = None
    choices = tuple(dict.fromkeys(cls.declaration.kind for cls in needs.choices))
    for allowed in (choices, ()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                review(replace(known, allowed=dict.fromkeys(others, allowed)))
            return
        except PolicyViolation as error:
            refused = refused or error
        except Exception:  # the guess may be wrong in anything else: nothing is known then
            if refused is None:
                return
    if refused is not None:
        raise refused


def with_room(known: Agreed, settings: Iterable[Mapping[str, Any]]) -> Agreed:
    """The same, with as many features as the steps of a job select, where others may have some."""
    if known.columns:
        return known
    asked = (step.get("n_features_to_select") for step in settings)
    most = max((number for number in asked if isinstance(number, int)), default=0)
    return replace(known, n_features=known.n_features + most + len(known.features))
