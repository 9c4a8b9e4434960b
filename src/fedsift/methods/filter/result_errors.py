# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Standard errors of a filter's scores in its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fedsift.methods.filter.ranking import Ranking
from fedsift.methods.filter.standard_errors import rounded_errors
from fedsift.result import SelectionResult


def with_errors(
    result: SelectionResult, ranking: Ranking, names: Mapping[str, Sequence[str]]
) -> SelectionResult:
    """The result with one more entry in its history, if there are errors.

    Parameters
    ----------
    names : mapping of party to feature names
        In the order of the ranking.
    """
    if not ranking.errors or not result.scores:
        return result
    by_party = {
        party: {
            name: error
            for name, error in zip(names[party], rounded_errors(ranking.errors[party]), strict=True)
            if error is not None
        }
        for party in result.scores
        if party in ranking.errors
    }
    entry = {"standard_errors": by_party, "errors_are": ranking.errors_are}
    return msgspec.structs.replace(result, history=(*result.history, entry))
