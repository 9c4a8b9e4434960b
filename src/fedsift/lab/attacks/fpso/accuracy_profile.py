# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS: what a curious third party reads about a party's class mix from accuracies.

Method   fpso with ``aggregation="third-party"`` (paper 004 as printed).
Leak     A sees each party's accuracy on every subset that was tried, measured on its own few rows.
         With rows of its own (a public sample of the same kind) A makes up parties of known class
         mixes, tries the very same subsets on them, and learns how a mix shows in the accuracies.
Fix      ``aggregation="masked"``: A learns mean accuracies only, in which all parties look alike.
Remains  The mean tells about the mix of all parties together, and which subset is whose may
         still say a little (:func:`guess_from_preferences` tries); ``mode="federated-fitness"``
         shows no party's subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.messages import Accuracies, Candidates, Particles
from fedsift.methods.fpso.subset_fitness import KnnFitness, stratified_folds
from fedsift.methods.fpso.third_party import Answer, ThirdParty
from fedsift.protocol import Network

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

_RIDGE = 0.1
"""Penalty, as a share of the number of made-up parties."""

_NEAREST = 0.1
"""Share of made-up parties that count as like the real one."""


@dataclass(frozen=True, eq=False)
class View:
    """What the third party has seen: subsets, and each party's accuracy on them as far as known.

    In masked runs all parties have the same row: the mean.
    """

    masks: Masks
    accuracies: Floats


class CuriousThirdParty(ThirdParty):
    """Follows the protocol and keeps all it sees."""

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.watch()

    def watch(self) -> None:
        """Start keeping notes."""
        self._views: list[View] = []
        self._proposed: list[Masks] = []

    async def _values(self, ask: Candidates | Particles, net: Network) -> Floats:
        self._asked: Masks = ask.masks.array().astype(bool)
        return await super()._values(ask, net)

    def _together(self, replies: Sequence[Answer]) -> Floats:
        pooled = super()._together(replies)
        single = [r.accuracies.array() for r in replies if isinstance(r, Accuracies)]
        rows = np.stack(single) if single else np.tile(pooled, (len(replies), 1))
        self._views.append(View(self._asked, rows))
        return pooled

    async def _compare(
        self, subsets: Sequence[Masks], step: int, net: Network
    ) -> tuple[int, float]:
        self._proposed.append(np.stack(subsets))
        return await super()._compare(subsets, step, net)

    def seen(self, at_most: int = 60) -> View:
        """Subsets of the run, each once; evenly spread ones if there are many."""
        masks = np.concatenate([view.masks for view in self._views])
        accuracies = np.concatenate([view.accuracies for view in self._views], axis=1)
        _, first = np.unique(masks, axis=0, return_index=True)
        first = np.sort(first)[:: -(-len(first) // at_most)]
        return View(masks[first], accuracies[:, first])

    def own_subsets(self) -> list[Masks]:
        """What the parties proposed, round by round; shape (n_parties, n_features) each."""
        return list(self._proposed)

    def proposed(self, masks: Masks) -> Masks:
        """Which of these subsets each party proposed; shape (n_parties, n_subsets)."""
        rounds = np.stack(self._proposed)
        return np.asarray((rounds[:, :, None] == masks).all(axis=-1).any(axis=0))


@dataclass(frozen=True, eq=False)
class Shadows:
    """Made-up parties: their class mixes and their accuracies on the subsets of a run."""

    mixes: Floats
    accuracies: Floats


def rows_with_mix(y: Integers, mix: Floats, n_rows: int, rng: np.random.Generator) -> Integers:
    """Rows drawn so that the classes have these shares, as nearly as whole numbers allow."""
    counts = np.floor(mix * n_rows).astype(np.int64)
    counts[np.argsort(counts - mix * n_rows)[: n_rows - counts.sum()]] += 1
    members = [np.flatnonzero(y == label) for label in range(len(mix))]
    drawn = [rng.permutation(m)[:n] for m, n in zip(members, counts, strict=True)]
    return np.concatenate(drawn)


def make_shadows(
    X: Floats,
    y: Integers,
    view: View,
    mixes: Floats,
    n_rows: int,
    rng: np.random.Generator,
    k: int = 3,
    n_folds: int = 5,
) -> Shadows:
    """Parties of these class mixes, drawn from the attacker's own rows, on the subsets it saw."""
    accuracies = []
    for mix in mixes:
        rows = rows_with_mix(y, mix, n_rows, rng)
        fitness = KnnFitness(X[rows], y[rows], stratified_folds(y[rows], n_folds, rng), k)
        accuracies.append(fitness.correct(view.masks) / len(rows))
    return Shadows(mixes, np.array(accuracies))


def guess_from_accuracies(shadows: Shadows, accuracies: Floats) -> Floats:
    """Class mix of every party by ridge regression of mixes on accuracies and their squares."""
    mean, spread = shadows.accuracies.mean(axis=0), shadows.accuracies.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)

    def design(values: Floats) -> Floats:
        z = (values - mean) / spread
        return np.concatenate([z, z**2], axis=1)

    D = design(shadows.accuracies)
    centre, target = D.mean(axis=0), shadows.mixes.mean(axis=0)
    gram = (D - centre).T @ (D - centre) + _RIDGE * len(D) * np.eye(D.shape[1])
    weights = np.linalg.solve(gram, (D - centre).T @ (shadows.mixes - target))
    guess = np.clip(target + (design(accuracies) - centre) @ weights, 1e-6, None)
    return np.asarray(guess / guess.sum(axis=1, keepdims=True))


def guess_from_preferences(shadows: Shadows, own: Masks) -> Floats:
    """Class mix of every party by made-up parties that like the same subsets best.

    Parameters
    ----------
    own : ndarray of bool of shape (n_parties, n_subsets)
        Which of the subsets each party proposed.
    """
    guesses = []
    for mine in own:
        if mine.all() or not mine.any():
            guesses.append(shadows.mixes.mean(axis=0))
            continue
        margin = shadows.accuracies[:, mine].mean(axis=1) - shadows.accuracies[:, ~mine].mean(
            axis=1
        )
        alike = np.argsort(-margin)[: max(1, round(_NEAREST * len(margin)))]
        guesses.append(shadows.mixes[alike].mean(axis=0))
    return np.array(guesses)


def order_found(true: Floats, guess: Floats) -> tuple[float, int]:
    """For two parties and a class: how often A tells who has more of it; and of how many cases.

    Equal guesses count as half; equal truths do not count.
    """
    points, cases = 0.0, 0
    for a in range(len(true)):
        for b in range(a):
            for label in range(true.shape[1]):
                real, said = true[a, label] - true[b, label], guess[a, label] - guess[b, label]
                if real != 0:
                    points += 0.5 if said == 0 else float((said > 0) == (real > 0))
                    cases += 1
    return points, cases
