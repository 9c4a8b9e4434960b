# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suite ``dp``: what differential privacy costs in accuracy, promise by promise.

``counts`` are noisy counts of a filter (``epsilon``), ``selection`` is drawn by a filter's scores
(``release_epsilon``), ``votes`` are those of blocks of rows in FPSO-FS. ``interactions`` compare a
filter with features drawn by ``miw`` on open data, as :mod:`benchmarks.suites.dp.bounds` would
need it: an option that does not exist, for the reason that the figures show.

Every run is repeated with several seeds for data, split and noise. Runs are without encryption,
which changes no number: counts are exact under all schemes, and noise follows the seed of the run.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.suites.dp.limits import drawn_by_interactions, limits, selected_by_interactions
from benchmarks.suites.dp.rows import DATA, DELTAS, EPSILONS, LARGE, N_SELECTED, Mask, Sample, row
from fedsift.data import split_horizontal, split_vertical
from fedsift.methods.filter.selector import FilterSelector
from fedsift.methods.fpso.selector import FPSOSelector

_SEEDS = {"smoke": 2, "regular": 10, "paper": 30}
_NO_NOISE = 999_999.0
"""No draw of such small noise is ever different from zero."""

Echo = Callable[[str], None]
Select = Callable[[Sample, dict[str, Any], int], Mask]


def run(profile: str, echo: Echo) -> dict[str, Any]:
    """All data sets, promises, settings and budgets."""
    n_seeds = _SEEDS[profile]
    rows = []
    for name, make in DATA.items():
        samples = [make(seed) for seed in range(n_seeds)]
        few = samples[: max(2, n_seeds // 2)]
        for job, select, some, deltas in (
            (_job("counts", name, "vertical", "mi"), _noisy, samples, DELTAS),
            (_job("counts", name, "horizontal", "mi"), _noisy, samples, DELTAS),
            (_job("selection", name, "vertical", "gini"), _drawn, samples, DELTAS),
            (_job("selection", name, "vertical", "mi"), _drawn, samples, DELTAS),
            (_job("votes", name, "horizontal", "k nearest"), _voted, few, DELTAS[:1]),
        ):
            rows += _course(job, select, some, deltas, echo)
        if name == "breast_cancer":  # the other set is too large to search in again and again
            rows += _course(_job("rounds", name, "horizontal", "k nearest"), _rounds, few, (), echo)
    for name, make in LARGE.items():
        samples = [make(seed) for seed in range(n_seeds)]
        for job, select in (
            (_job("interactions", name, "vertical", "gini"), _drawn),
            (_job("interactions", name, "vertical", "miw"), _interacting),
        ):
            rows += _course(job, select, samples, DELTAS[:1], echo)
    return {"rows": rows, "n_selected": N_SELECTED, "limits": limits()}


def _job(promise: str, name: str, setting: str, score: str) -> dict[str, Any]:
    return {"promise": promise, "data": name, "setting": setting, "score": score}


def _course(
    job: dict[str, Any],
    select: Select,
    samples: list[Sample],
    deltas: Iterable[float],
    echo: Echo,
) -> list[dict[str, Any]]:
    """Without noise, then with every budget."""
    budgets = [(None, 0.0), *((epsilon, delta) for delta in deltas for epsilon in EPSILONS)]
    rows: list[dict[str, Any]] = []
    exact: list[Mask] = []
    for epsilon, delta in budgets:
        start = time.perf_counter()
        own = {**job, "epsilon": epsilon, "delta": delta}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            chosen = [select(data, own, seed) for seed, data in enumerate(samples)]
        exact = exact or chosen
        rows.append(row(own, samples, exact, chosen) | {"seconds": time.perf_counter() - start})
        echo(f"{rows[-1]['case']}: overlap {rows[-1]['overlap']['mean']:.2f}")
    return rows


def _noisy(data: Sample, job: dict[str, Any], seed: int) -> Mask:
    """A filter whose counts carry noise."""
    split = split_vertical if job["setting"] == "vertical" else split_horizontal
    noise = {"epsilon": job["epsilon"], "delta": job["delta"]}
    return _filtered(data, job, split(data.X, data.y, 3, random_state=seed), noise, seed)


def _drawn(data: Sample, job: dict[str, Any], seed: int) -> Mask:
    """A filter whose selection is drawn; who holds which rows or columns changes nothing in it."""
    noise = {"release_epsilon": job["epsilon"], "release_delta": job["delta"]}
    federation = split_vertical(data.X, data.y, 3, random_state=seed)
    return _filtered(data, job, federation, noise, seed)


def _filtered(
    data: Sample, job: dict[str, Any], federation: Any, noise: dict[str, Any], seed: int
) -> Mask:
    selector = FilterSelector(
        job["score"],
        n_features_to_select=N_SELECTED,
        bins=data.edges,
        min_bin_size=1,
        security="plain",
        random_state=seed,
        **noise,
    )
    support: Mask = selector.fit(federation).get_support()
    return support


def _voted(data: Sample, job: dict[str, Any], seed: int) -> Mask:
    """FPSO-FS whose blocks of rows vote."""
    return _searched(data, {"epsilon": job["epsilon"] or _NO_NOISE}, seed)


def _rounds(data: Sample, job: dict[str, Any], seed: int) -> Mask:  # noqa: ARG001
    """FPSO-FS as it is without a budget."""
    return _searched(data, {}, seed)


def _searched(data: Sample, noise: dict[str, Any], seed: int) -> Mask:
    selector = FPSOSelector(
        n_features_to_select=N_SELECTED, security="plain", random_state=seed, **noise
    )
    federation = split_horizontal(data.X, data.y, 3, random_state=seed)
    support: Mask = selector.fit(federation).get_support()
    return support


def _interacting(data: Sample, job: dict[str, Any], seed: int) -> Mask:
    if job["epsilon"] is None:
        return selected_by_interactions(data)
    return drawn_by_interactions(data, job["epsilon"], seed)
