# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What the suites of the five papers share: jobs, finished runs, and cells for the page.

A suite is a module with ``PAPER``, ``jobs()``, ``run(job)`` and ``cells(runs, cells)``. Its result
file ``results_<paper>.json`` keeps every finished run and is written after each of them, so that an
interrupted reproduction goes on where it stopped.
"""

import json
import math
import statistics
import time
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.store import key_of, machine_facts
from fedsift.result import write_atomically

HERE = Path(__file__).resolve().parent
BENCHMARKS = HERE.parent
Job = dict[str, Any]


class Runs:
    """Finished runs of one paper's suite, in the order in which they were made."""

    def __init__(self, paper: str, *, fresh: bool = False) -> None:
        self.path = HERE / f"results_{paper}.json"
        self.paper = paper
        self._found: dict[str, dict[str, Any]] = {}
        if self.path.is_file() and not fresh:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            self._found = {key_of(run["job"]): run for run in kept["runs"]}

    def __contains__(self, job: Job) -> bool:
        return key_of(job) in self._found

    def add(self, job: Job, result: dict[str, Any], seconds: float) -> None:
        """Keep one run, with the processor time it took."""
        run = {"job": job, "processor_seconds": round(seconds, 2), "result": result}
        self._found[key_of(job)] = run

    def of(self, **wanted: Any) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Runs whose job has all these values."""
        for run in self._found.values():
            if all(run["job"].get(name) == value for name, value in wanted.items()):
                yield run["job"], run["result"]

    def one(self, **wanted: Any) -> dict[str, Any] | None:
        """The result of the only run that fits, if there is one."""
        return next((result for _, result in self.of(**wanted)), None)

    def values(self, name: str, **wanted: Any) -> list[float]:
        """One number of every run that fits."""
        return [result[name] for _, result in self.of(**wanted)]

    def write(self, cells: dict[str, Any]) -> None:
        """The result file: machine, seeds, all runs, and what they say about the paper."""
        runs = list(self._found.values())
        seeds = sorted({run["job"]["seed"] for run in runs if "seed" in run["job"]})
        machine = machine_facts()
        machine["versions"] |= {name: metadata.version(name) for name in ("torch", "scipy")}
        content = {
            "paper": self.paper,
            "machine": machine,
            "seeds": seeds,
            "processor_seconds": round(sum(run["processor_seconds"] for run in runs), 1),
            "cells": cells,
        }
        # One line per run: a change of one run is a change of one line.
        lines = ",\n".join(json.dumps(run) for run in runs)
        text = json.dumps(content, indent=1).removesuffix("\n}")
        write_atomically(self.path, f'{text},\n "runs": [\n{lines}\n]}}\n')


def answers_of(suite: Any, runs: Runs) -> dict[str, Any]:
    """What the runs so far say about the cells of the paper."""
    answers = Cells()
    suite.cells(runs, answers)
    return answers.found


def make(suite: Any, runs: Runs, echo: Any) -> None:
    """Do the jobs that are missing, one after the other."""
    wanted = [job for job in suite.jobs() if job not in runs]
    for number, job in enumerate(wanted, start=1):
        start = time.process_time()
        result = suite.run(job)
        runs.add(job, result, time.process_time() - start)
        runs.write(answers_of(suite, runs))
        echo(f"{suite.PAPER} {number}/{len(wanted)} {key_of(job)}")


class Cells:
    """Answers to the cells of a paper: item, row and column as in ``paper_<number>.toml``."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, dict[str, Any]]] = {}

    def put(self, item: str, row: str, column: str, **answer: Any) -> None:
        """One answer: ``ours`` with ``error`` (a standard error), or ``holds`` for a statement.

        ``shown`` says in words what a statement rests on, ``source`` where a number was taken from,
        ``stand_in`` that the data are not the paper's.
        """
        kept = {name: value for name, value in answer.items() if value is not None}
        self.found.setdefault(item, {}).setdefault(row, {})[column] = kept

    def borrow(
        self,
        item: str,
        row: str,
        column: str,
        source: list[Any],
        error: Any = None,
        times: float = 1,
        stand_in: bool | None = None,
    ) -> None:
        """A number of a committed benchmark result: file name, then the way to the value."""
        value = resolve(source)
        spread = None if error is None else times * resolve([source[0], *error])
        self.put(
            item,
            row,
            column,
            ours=times * value,
            error=spread,
            source={"path": source, "times": times},
            stand_in=stand_in,
        )


def resolve(source: list[Any]) -> Any:
    """Follow a path into a result file: names, numbers, or the fields by which to find a row."""
    found: Any = json.loads((BENCHMARKS / source[0]).read_text(encoding="utf-8"))
    for step in source[1:]:
        if isinstance(step, dict):
            found = next(
                one for one in found if all(one.get(name) == value for name, value in step.items())
            )
        else:
            found = found[step]
    return found


def printed_rows(paper: str, item: str) -> dict[str, list[Any]]:
    """Rows of a table as the paper prints them."""
    text = (HERE / f"paper_{paper}.toml").read_text(encoding="utf-8")
    (found,) = [one for one in tomllib.loads(text)["item"] if one["id"] == item]
    return {row: values for row, *values in found["rows"]}


def shape_of(data: str) -> tuple[int, int, int]:
    """Rows, features and classes of the public set, as in the catalogue."""
    from fedsift.data import catalog

    facts = catalog.info(data)
    return facts.n_rows, facts.n_features, facts.n_classes


def mean_and_error(values: list[float]) -> tuple[float, float | None]:
    """Mean, and its standard error if there is more than one value."""
    if len(values) < 2:
        return float(values[0]), None
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def binomial_error(share: float, n_rows: int) -> float:
    """Standard error of an accuracy on so many test rows, where there is a single run."""
    return math.sqrt(max(share * (1 - share), 1 / n_rows) / n_rows)
