# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What one party of FPSO-FS does on its own rows: checks, folds, fitness and swarm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ColumnError, ParameterError, ValueProblem
from fedsift.maths import subset_fitness, swarm

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party.

    Parameters
    ----------
    max_features : int, optional
        Largest subset; any size if missing.
    n_particles, n_iterations, n_rounds : int
        Swarm size, steps per round, rounds.
    integration : {"mean", "max-min"}
    aggregation : {"masked", "third-party"}
    mode : {"rounds", "best-of-local", "federated-fitness"}
    k, n_folds : int
        Neighbours and inner folds of the fitness.
    classifier : scikit-learn classifier, optional
        Replaces the nearest neighbours, more slowly.
    decoding : {"threshold", "random"}
        How positions become subsets.
    protected : bool
        False sends sums without masks (``security="plain"``).
    """

    max_features: int | None = None
    n_particles: int = 20
    n_iterations: int = 25
    n_rounds: int = 4
    integration: str = "mean"
    aggregation: str = "masked"
    mode: str = "rounds"
    k: int = 3
    n_folds: int = 5
    classifier: Any = None
    decoding: str = "threshold"
    protected: bool = True
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class LocalSearch:
    """One party's rows, ready to be searched: fitness, swarm and number of rows.

    A seed fixes folds and particles, so two searches of the same rows start alike.
    """

    fitness: subset_fitness.SubsetFitness
    particles: swarm.Swarm
    n_rows: int

    @classmethod
    def over(
        cls,
        table: PartyTable,
        target: Target,
        params: Params,
        known: subset_fitness.SubsetFitness | None = None,
    ) -> LocalSearch:
        """Check a party's table and prepare its search.

        ``known`` is the fitness of an earlier search of the same rows with the same settings:
        what it has computed is not computed again.
        """
        X = numbers_of(table)
        _check_rows(table, params)
        return cls.over_arrays(X, target.codes, params, table.name, known)

    @classmethod
    def over_arrays(
        cls,
        X: Floats,
        y: Integers,
        params: Params,
        name: str,
        known: subset_fitness.SubsetFitness | None = None,
    ) -> LocalSearch:
        """The same for rows that were checked before."""
        rng = generator(params.seed, name)
        folds = subset_fitness.stratified_folds(y, params.n_folds, rng)
        fitness = known
        if fitness is None and params.classifier is None:
            fitness = subset_fitness.KnnFitness(X, y, folds, params.k)
        elif fitness is None:
            fitness = subset_fitness.ClassifierFitness(X, y, folds, params.classifier)
        particles = swarm.Swarm(
            X.shape[1], params.n_particles, rng, params.max_features, params.decoding
        )
        return cls(fitness, particles, len(X))

    def run_alone(self, params: Params) -> swarm.Best:
        """As many steps as all rounds have together, without any exchange."""
        n_steps = params.n_rounds * params.n_iterations
        return swarm.search(self.particles, self.fitness.correct, n_steps)[-1]


def classes_of(party: str, targets: Mapping[str, Target | None]) -> Target:
    """A party's class labels; refuses a party without."""
    target = targets.get(party)
    if target is None or target.kind != "classes":
        raise ValueProblem(
            f"Party {party!r} has {'no' if target is None else 'numeric'} labels.",
            "FPSO-FS compares subsets by classification accuracy and needs classes.",
            "Give every party class labels.",
        )
    return target


def fewest_rows(n_folds: int, k: int) -> int:
    """Rows a party needs: one for every fold, and k outside the largest fold."""
    rows = max(n_folds, k + 1)
    while rows - -(-rows // n_folds) < k:
        rows += 1
    return rows


def numbers_of(table: PartyTable) -> Floats:
    """A party's table as a matrix; refuses categories and missing values."""
    for column in table.columns:
        if column.kind != "numeric" or column.missing.any():
            problem = "categories" if column.kind != "numeric" else "missing values (NaN)"
            error = ColumnError if column.kind != "numeric" else ValueProblem
            raise error(
                f"Column {column.name!r} of party {table.name!r} has {problem}.",
                "FPSO-FS measures distances and needs complete numbers.",
                "Encode, fill or drop the column at every party.",
            )
    return table.numeric_matrix()


def _check_rows(table: PartyTable, params: Params) -> None:
    needed = fewest_rows(params.n_folds, params.k)
    if table.n_rows < needed:
        raise ParameterError(
            f"Party {table.name!r} has {table.n_rows} rows.",
            f"{params.n_folds} inner folds and {params.k} neighbours need at least {needed}.",
            "Lower k, leave the party out, or give it more rows.",
        )


def generator(seed: int | None, party: str) -> np.random.Generator:
    """Randomness of one party: other parties with the same seed draw other numbers."""
    return np.random.default_rng(None if seed is None else [seed, *party.encode()])
