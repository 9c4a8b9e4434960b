# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Cost of the steps of a chained job, each on what the one before it will probably leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fedsift.costs.counts import Counts
from fedsift.costs.estimate import Estimate, estimate
from fedsift.costs.rates import Rates
from fedsift.data import Federation
from fedsift.data.remote_table import JointFederation
from fedsift.jobs.chain import survivors
from fedsift.methods.base import number_to_select

_ASSUMED = "Steps after a selection are priced as if every party kept the same share of features."
_NO_PREDICTION = "The prediction at the end is not part of the cost."

Around = Callable[[int, Federation, Any], Counts | None]
"""From a step's number, federation and selector to what comes before and after the method."""


def estimate_steps(
    selectors: Sequence[Any],
    federation: Federation,
    rates: Rates,
    around: Around | None = None,
    *,
    predicts: bool = False,
) -> Estimate | None:
    """Predict the cost of all steps; None if that of one cannot be told."""
    found: list[Estimate] = []
    for number, selector in enumerate(selectors, start=1):
        beside = None if around is None else around(number, federation, selector)
        one = estimate(selector, federation, rates, beside)
        if one is None:
            return None
        found.append(one)
        federation = _probably_left(federation, selector)
    remarks = dict.fromkeys(remark for one in found for remark in one.remarks)
    own = [*([_ASSUMED] if len(found) > 1 else []), *([_NO_PREDICTION] if predicts else [])]
    return Estimate(
        sum(one.seconds for one in found),
        sum(one.cpu_seconds for one in found),
        _added([one.phases for one in found]),
        sum(one.rounds for one in found),
        sum(one.messages for one in found),
        sum(one.n_bytes for one in found),
        sum(one.ciphertexts for one in found),
        _ends(found, [one.lowest for one in found]),
        _ends(found, [one.highest for one in found]),
        (*remarks, *own),
    )


def _probably_left(federation: Federation, selector: Any) -> Federation:
    """The same federation with as many participants or features as a step keeps."""
    settings = selector.get_params(deep=False)
    parties, kept_by_all = list(federation.tables), federation.setting == "horizontal"
    wanted = settings.get("n_participants")
    names = {party: list(table.feature_names) for party, table in federation.tables.items()}
    if wanted is not None:
        n_parties = int(wanted) if wanted >= 1 else max(1, round(wanted * len(parties)))
        names = {party: own for party, own in names.items() if party in parties[:n_parties]}
    elif isinstance(settings["n_features_to_select"], str):
        return federation  # it keeps all, or the data decides
    else:
        kept = number_to_select(settings["n_features_to_select"], federation.n_features)
        share = kept / federation.n_features
        names = {party: own[: max(1, round(share * len(own)))] for party, own in names.items()}
    left = survivors(federation, names)
    if isinstance(left, JointFederation):
        counts = [len(own) for own in names.values()]
        return replace(left, total_features=counts[0] if kept_by_all else sum(counts))
    return left


def _added(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for part in parts:
        for name, amount in part.items():
            totals[name] = totals.get(name, 0.0) + amount
    return totals


def _ends(found: Sequence[Estimate], ends: Sequence[dict[str, float]]) -> dict[str, float]:
    """The range of all steps, if the data decides in one of them."""
    if not any(ends):
        return {}
    fixed = [{"seconds": one.seconds, "bytes": float(one.n_bytes)} for one in found]
    return _added([end or own for end, own in zip(ends, fixed, strict=True)])
