# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Paper 004, FPSO-FS: Tables 1 to 3, figures 2 and 3.

Means over many runs come from the suite ``fpso`` (15 runs of a double cross-validation); what it
does not keep, accuracies by party and the course of a search, is run here in the same way: outer
folds first, then the rows are dealt out, searches see training rows only. Runs of the protocol are
secure (masked sums).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.reproduce.experiments import (
    Cells,
    Job,
    Runs,
    binomial_error,
    mean_and_error,
    resolve,
    shape_of,
)

PAPER = "004"
SETS = {
    "Wine": "wine",
    "Vowel": "vowel",
    "Vehicle": "vehicle",
    "Segmentation": "segmentation",
    "Ionosphere": "ionosphere",
    "Satellite*": "satellite",
    "Sonar": "sonar",
    "Hill_valley": "hill_valley",
    "MUSK1*": "musk1",
    "DNA*": "dna",
    "LSVT*": "lsvt",
    "CNAE3": "cnae9",
    "CNAE1": "cnae9",
    "Yale64": "yale",
    "ORL32": "orl",
}
TABLE_2 = (
    "Wine",
    "Vowel",
    "Vehicle",
    "Segmentation",
    "Ionosphere",
    "Sonar",
    "MUSK1*",
    "DNA*",
    "Yale64",
)
TABLE_3 = {"Wine": 3, "Vowel": 3, "Vehicle": 3, "Sonar": 3, "DNA": 1}
"""Sets and how often their five outer folds are drawn."""
COURSES = {"Vowel": "vowel", "Yale": "yale", "Vehicle": "vehicle", "Sonar": "sonar"}
STEADY = 5.0
"""Points within which a curve "hardly changes"."""
CLOSE = 2.0
"""Points within which a number of parties "matters little"."""


def split_of(name: str) -> str:
    """Stars in the paper's tables mark sets that are dealt out by clusters."""
    return "kmeans" if name.endswith("*") or name == "DNA" else "random"


def jobs() -> Iterator[Job]:
    for name in COURSES:
        yield {"experiment": "course", "data": COURSES[name], "split": "random", "seed": 0}
    for name, repeats in TABLE_3.items():
        for seed in range(repeats):
            data = name.lower()
            yield {"experiment": "parties", "data": data, "split": split_of(name), "seed": seed}


def run(job: Job) -> dict[str, Any]:
    return course(job) if job["experiment"] == "course" else parties(job)


class Fold:
    """Three parties, their training rows, and the searches on them."""

    def __init__(self, job: Job, fold: int) -> None:
        from benchmarks.suites.fpso.runs import N_FOLDS, load, owners_of
        from fedsift.data import split_horizontal
        from fedsift.methods.fpso.local_search import LocalSearch, Params, classes_of
        from fedsift.methods.fpso.subset_fitness import stratified_folds

        self.X, self.y = load(job["data"])
        repeat = job["seed"]
        self.train = stratified_folds(self.y, N_FOLDS, np.random.default_rng(repeat)) != fold
        self.owners = owners_of(self.X, self.y, job["split"], 3, repeat)
        self.params = Params(seed=N_FOLDS * repeat + fold)
        self.names = [f"party-{number + 1}" for number in range(3)]
        self.federation = split_horizontal(
            self.X[self.train],
            self.y[self.train],
            self.owners[self.train],
            names=self.names,
            task="classification",
        )
        self.searches = {
            party: LocalSearch.over(table, classes_of(party, self.federation.targets), self.params)
            for party, table in self.federation.tables.items()
        }

    def local(self) -> dict[str, Any]:
        """Every party alone, with as many steps as all rounds together."""
        return {party: s.run_alone(self.params).mask for party, s in self.searches.items()}

    def federated(self) -> tuple[Any, dict[str, list[float]]]:
        """The common subset, and every party's best accuracy by step of its own search."""
        from fedsift.engine import run_local
        from fedsift.methods.fpso import third_party as fpso

        known = {party: search.fitness for party, search in self.searches.items()}
        tables, targets = self.federation.tables, self.federation.targets
        nodes = fpso.build_nodes(tables, targets, self.params, known)
        outcome = run_local(fpso.PROTOCOL, nodes, timeout_seconds=3600.0)
        curves = {
            party: [round(100 * point["accuracy"], 2) for point in nodes[party][0].history]
            for party in self.names
        }
        return outcome.value.mask, curves

    def accuracies(self, masks: dict[str, Any]) -> list[float | None]:
        """By party: its own training rows classify its own test rows; none without test rows."""
        from benchmarks.baselines.oracles import knn_predict

        found: list[float | None] = []
        for number, party in enumerate(self.names):
            known = (self.owners == number) & self.train
            new = (self.owners == number) & ~self.train
            if not new.any():
                found.append(None)
                continue
            (predicted,) = knn_predict(
                self.X[known], self.y[known], self.X[new], [masks[party]], self.params.k
            )
            found.append(round(100 * float((predicted == self.y[new]).mean()), 3))
        return found


def parties(job: Job) -> dict[str, Any]:
    """Test accuracy of every party in every outer fold, alone and with the common subset."""
    result: dict[str, Any] = {"local": [], "fpso": []}
    for number in range(5):
        fold = Fold(job, number)
        result["local"].append(fold.accuracies(fold.local()))
        common, _ = fold.federated()
        result["fpso"].append(fold.accuracies(dict.fromkeys(fold.names, common)))
    return result


def course(job: Job) -> dict[str, Any]:
    """Best inner cross-validation accuracy by step, one curve per party."""
    fold = Fold(job, 0)
    _, curves = fold.federated()
    sizes = [int(((fold.owners == n) & fold.train).sum()) for n in range(3)]
    return {"curves": list(curves.values()), "rows": sizes}


def cells(runs: Runs, answers: Cells) -> None:
    for item, names in (("table-1", tuple(SETS)), ("table-2-data", TABLE_2)):
        for name in names:
            rows, features, classes = shape_of(SETS[name])
            answers.put(item, name, "# of Samples", ours=rows)
            answers.put(item, name, "# of Classes", ours=classes)
            answers.put(item, name, "# of Features", ours=features)
    for name in TABLE_2:
        where = ["fpso.json", "rows", {"case": f"{SETS[name]} {split_of(name)} M=3"}]
        error = [*where[1:], "standard_error", "fpso"]
        answers.borrow("table-2", name, "# ACC", [*where, "accuracy", "fpso"], error)
    _table_3(runs, answers)
    _figure_2(answers)
    _figure_3(runs, answers)


def _table_3(runs: Runs, answers: Cells) -> None:
    for name in TABLE_3:
        data, split = name.lower(), split_of(name)
        where = ["fpso.json", "rows", {"case": f"{data} {split} M=3"}]
        found = [r for _, r in runs.of(experiment="parties", data=data, split=split)]
        for title, method in (("FPSO-FS/FL", "local"), ("FPSO-FS", "fpso")):
            error = [*where[1:], "standard_error", method]
            answers.borrow("table-3", name, f"{title}, Avg.", [*where, "accuracy", method], error)
            for party in range(3):
                values = [f[party] for r in found for f in r[method] if f[party] is not None]
                if values:
                    ours, spread = mean_and_error(values)
                    answers.put(
                        "table-3",
                        name,
                        f"{title}, B{party + 1}",
                        ours=ours,
                        error=spread,
                        n=len(values),
                    )


def _figure_2(answers: Cells) -> None:
    rows = resolve(["fpso.json", "rows"])
    by_set = {
        name: {
            row["parties"]: row["accuracy"]["fpso"]
            for row in rows
            if (row["data"], row["split"]) == (SETS[name], split_of(name))
        }
        for name in TABLE_2
    }
    most = len(by_set) / 2
    first = [name for name, by in by_set.items() if max(by, key=lambda m: by[m]) == 2]
    falls = [name for name, by in by_set.items() if by[5] < by[2]]
    others = {name: abs(by[5] - by[2]) for name, by in by_set.items() if name not in falls}
    claims = {
        "two parties are most accurate on most sets": (
            len(first) > most,
            f"{len(first)} of {len(by_set)} sets",
        ),
        "accuracy falls with more parties on most sets": (
            len(falls) > most,
            f"five parties below two on {len(falls)} of {len(by_set)} sets",
        ),
        "on other sets the number of parties matters little": (
            all(change <= CLOSE for change in others.values()),
            ", ".join(f"{name} {change:.1f} points" for name, change in others.items())
            or "no other sets",
        ),
    }
    for row, (holds, shown) in claims.items():
        answers.put("figure-2", row, "claim", holds=holds, shown=shown)
    for n_parties in (2, 3, 5):
        where = ["fpso.json", "rows", {"case": f"yale random M={n_parties}"}]
        error = [*where[1:], "standard_error", "fpso"]
        source = [*where, "accuracy", "fpso"]
        answers.borrow("figure-2-numbers", "Yale64", f"M={n_parties}", source, error)


def _figure_3(runs: Runs, answers: Cells) -> None:
    for name, data in COURSES.items():
        found = runs.one(experiment="course", data=data)
        if found is None:
            continue
        for number, curve in enumerate(found["curves"]):
            error = 100 * binomial_error(curve[-1] / 100, found["rows"][number])
            column = f"participant {number + 1}"
            answers.put("figure-3", name, column, ours=curve[-1], error=error, n=1)
        changes = [curve[-1] - curve[0] for curve in found["curves"]]
        shown = "from the first step to the last: " + ", ".join(f"{c:+.1f}" for c in changes)
        if name == "Vowel":
            answers.put(
                "figure-3-course",
                "Vowel: hardly changes during the search",
                "claim",
                holds=max(map(abs, changes)) <= STEADY,
                shown=shown,
            )
        if name == "Sonar":
            answers.put(
                "figure-3-course",
                "Sonar: rises during the search for all three",
                "claim",
                holds=min(changes) > 0,
                shown=shown,
            )
