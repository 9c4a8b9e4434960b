# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What one party of FPSO-FS does on its own rows: checks, folds, fitness and swarm."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import ColumnError, ParameterError, ProtocolError, ValueProblem
from fedsift.methods.fpso import block_votes, subset_fitness, swarm
from fedsift.methods.fpso.messages import Greeting
from fedsift.privacy.mechanisms import CELLS_CHANGED, CountNoise

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ACCURACY_STEPS = 1024
"""Accuracies leave a party in these steps: finer than chance on a few thousand rows."""


@dataclass(frozen=True)
class Params:
    """Settings of one run, the same at every party; parameters of the selector, and these.

    Parameters
    ----------
    max_features : int, optional
        Largest subset; any size if missing.
    n_folds : int
        Inner folds of the fitness.
    protected : bool
        False sends sums without masks (``security="plain"``).
    noise_seed : int, optional
        Makes the noise repeatable, in tests only: whoever knows it can take the noise off.
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
    epsilon: float | None = None
    delta: float = 0.0
    n_blocks: int | None = None
    n_votes: int | None = None
    noise_seed: int | None = None

    @property
    def noisy(self) -> bool:
        """Whether blocks vote, with noise."""
        return self.epsilon is not None

    def votes(self, n_features: int) -> int:
        """Features that a block votes for at most.

        About the square root of the number to select: what a block likes best it knows best, and
        more votes need more noise. A free number counts as a quarter of all features.
        """
        wanted = self.max_features or max(1, n_features // 4)
        return min(n_features, self.n_votes or max(1, round(wanted**0.5)))

    def noise(self, n_features: int) -> CountNoise:
        """Noise for the votes of one party."""
        assert self.epsilon is not None  # noqa: S101 - asked only if there is a budget
        changed = block_votes.most_changed(self.votes(n_features), n_features)
        return CountNoise(self.epsilon, self.delta, -(-changed // CELLS_CHANGED))

    def noise_source(self, party: str) -> list[int] | None:
        """Seed of a party's noise; None takes the operating system's randomness."""
        return None if self.noise_seed is None else [self.noise_seed, *party.encode()]


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
        fitness = fitness_over(X, y, params, rng, known)
        particles = swarm.Swarm(
            X.shape[1], params.n_particles, rng, params.max_features, params.decoding
        )
        return cls(fitness, particles, len(X))

    def run_alone(self, params: Params) -> swarm.Best:
        """As many steps as all rounds have together, without any exchange."""
        n_steps = params.n_rounds * params.n_iterations
        return swarm.search(self.particles, self.fitness.correct, n_steps)[-1]


def fitness_over(
    X: Floats,
    y: Integers,
    params: Params,
    rng: np.random.Generator,
    known: subset_fitness.SubsetFitness | None = None,
) -> subset_fitness.SubsetFitness:
    """What subsets are judged by on these rows; draws folds even if the answer is known."""
    folds = subset_fitness.stratified_folds(y, params.n_folds, rng)
    return fitness_with(X, y, params, folds) if known is None else known


def fitness_with(
    X: Floats, y: Integers, params: Params, folds: Integers
) -> subset_fitness.SubsetFitness:
    """As :func:`fitness_over`, with folds that were drawn before."""
    if params.classifier is None:
        return subset_fitness.KnnFitness(X, y, folds, params.k)
    return subset_fitness.ClassifierFitness(X, y, folds, params.classifier)


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


def same_columns(greetings: Sequence[Greeting]) -> int:
    """The number of columns that all participants report."""
    n_features = greetings[0].n_features
    if {greeting.n_features for greeting in greetings} != {n_features}:
        raise ProtocolError(
            "Participants report different numbers of columns.",
            "All parties need the same columns in the same order.",
            "Agree on the columns, then start again.",
        )
    return n_features


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


def digest_of(told: npt.NDArray[Any] | None) -> str:
    """What the third party told: masks of this context cancel if it told everybody the same."""
    return "nothing" if told is None else hashlib.sha256(told.tobytes()).hexdigest()


def shortfalls_of(steps: Integers) -> Integers:
    """For every subset and level zero, or a random number where the level is missed.

    The sum over all parties is zero up to the smallest accuracy and random above it, however
    many parties stay below: who and how many they are does not show. A last zero shows that the
    masks cancel.
    """
    missed = steps[:, None] < np.arange(1, ACCURACY_STEPS + 1)
    noise = np.frombuffer(secrets.token_bytes(8 * missed.size), dtype=np.int64).reshape(
        missed.shape
    )
    return np.append(np.where(missed, noise, 0), 0)
