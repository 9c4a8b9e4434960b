# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Exact numbers of features on ISOLET: the gates' choice, and an elimination of spare columns.

``python -m benchmarks.suites.fedsdg.exact --part PART`` (with ``FEDSIFT_DATA``) makes one part of
``benchmarks/fedsdg_exact.json``; all features are trained in the same run. Most parts have a layer
as narrow as data with few classes has, which the suite ``fedsdg`` no longer takes for ISOLET:

    rows    splits that were not looked at while the elimination was made
    inside  a fifth of the training rows of other splits, where choices are made
    wide    the same with the layer's default width
    many    the gates' choice on twenty more splits, since one split moves by about two points with
            the start of the networks
    before  the first five splits of the suite, which missed the bar with this layer

Runs are plain: encryption changes no number of them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.runner import use_one_thread_each
from benchmarks.store import machine_facts
from benchmarks.suites.fedsdg.accuracy import one_split, summarise
from benchmarks.suites.fedsdg.bars import judge_exact
from benchmarks.suites.fedsdg.suite import FIRST_SEED

DATA = "isolet"
SEEDS = (20, 21, 22, 23, 24)
INSIDE_SEEDS = tuple(range(100, 110))
BEFORE_SEEDS = tuple(range(FIRST_SEED, FIRST_SEED + 5))
MANY_SEEDS = tuple(range(30, 50))
"""Named before one of them was looked at, and the method was not changed afterwards."""

NARROW = {"outputs": 16}
"""As many outputs of the layer as data with few classes has, and as many embedding columns."""

DEFAULT = ("all", "fedsdg 15 %", "fedsdg 40 %")
METHODS = (
    *DEFAULT,
    "fedsdg elimination 15 %",
    "fedsdg elimination 40 %",
)

PARTS: dict[str, dict[str, Any]] = {
    "rows": {"seeds": SEEDS, "methods": METHODS, "settings": NARROW},
    "inside": {"seeds": INSIDE_SEEDS, "methods": METHODS, "settings": NARROW, "inside": True},
    "wide": {"seeds": INSIDE_SEEDS, "methods": DEFAULT, "settings": {}, "inside": True},
    "many": {"seeds": MANY_SEEDS, "methods": DEFAULT, "settings": NARROW},
    "before": {"seeds": BEFORE_SEEDS, "methods": DEFAULT, "settings": NARROW},
}


def measure(
    echo: Callable[[str], None],
    *,
    data: str = DATA,
    seeds: Sequence[int] = SEEDS,
    methods: Sequence[str] = METHODS,
    inside: bool = False,
    settings: dict[str, Any] | None = None,
    workers: int = 2,
) -> dict[str, Any]:
    """Every method on every split, and what the bars say."""
    use_one_thread_each()
    same = {"data": data, "inside": inside, "settings": settings or {}}
    jobs = [{**same, "seed": seed, "methods": [method]} for method in methods for seed in seeds]
    found: dict[int, dict[str, Any]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = [pool.submit(one_split, job) for job in jobs]
        for number, future in enumerate(as_completed(running), start=1):
            split = future.result()
            found.setdefault(split["seed"], {**split, "methods": {}})["methods"].update(
                split["methods"]
            )
            name, result = next(iter(split["methods"].items()))
            echo(f"{number}/{len(jobs)} seed {split['seed']} {name}: {result['score']:.3f}")
    splits = [
        {**found[seed], "methods": {name: found[seed]["methods"][name] for name in methods}}
        for seed in seeds
    ]
    rows = list(summarise(splits))
    return {"rows": rows, "bars": judge_exact(rows)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write; the other parts are kept from the file, if it has them."""
    parser = argparse.ArgumentParser(description="Exact numbers of features with FedSDG-FS.")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/fedsdg_exact.json"))
    parser.add_argument("--part", choices=PARTS, default="rows")
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args(arguments)

    def echo(line: str) -> None:
        print(line, flush=True)

    found = measure(echo, **PARTS[chosen.part], workers=chosen.workers)
    whole: dict[str, Any] = {"machine": machine_facts()}
    if chosen.out.exists():
        whole |= json.loads(chosen.out.read_text(encoding="utf-8"))
    if chosen.part == "rows":
        whole |= found
    elif chosen.part == "many":
        whole["many"] = {"machine": machine_facts(), **found}
    else:
        whole[chosen.part] = found["rows"]
    for name, bar in found["bars"].items():
        echo(f"{'ok    ' if bar['met'] else 'MISSED'} {name}: {bar['found']}")
    chosen.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
