# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Votes of blocks of rows for features: one row changes few of them, whatever a search does.

Accuracies have no useful bound on what one row changes, since a row may be everybody's neighbour.
Votes of disjoint blocks have one (*sample and aggregate*): rows are divided into blocks, every
block searches for itself and votes for a few features, and only sums of votes are told.

Sensitivity. Which rows make up a block, and what a block draws at random, follows from the number
of rows and a seed, not from what is in the rows. So two tables that differ in the values of one
row have the same blocks but for one, and all others vote alike. Let that one vote for the features
S with one table and T with the other, at most v each. The sum changes by one for each feature
that is in S or in T but not in both. Those are at most |S| + |T| <= 2 v, and at most all d
features. So the sums change by at most ``min(2 v, d)`` in absolute differences, and by the square
root of that in length. Nothing is asked of the search.

Votes. The best subset of a swarm on few rows is best by chance. What the search met on its way
tells more: a block votes for the features with the highest *effect*, by how many rows more are
right with the feature than without it, on all subsets that were tried (a ridge regression). Many
particles and few steps show that best, as the subsets of a swarm that has converged are all alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedsift.methods.fpso import swarm
from fedsift.methods.fpso.subset_fitness import SubsetFitness

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

N_PARTICLES, N_STEPS = 100, 3
"""Of the swarm in a block; larger ones vote no better."""

_PENALTY = 1.0
_NO_EFFECT = 1e-9


def most_changed(n_votes: int, n_features: int) -> int:
    """Features whose votes one row can change, each by one."""
    return min(2 * n_votes, n_features)


def divide(
    n_rows: int, n_blocks: int, seed: Sequence[int] | None
) -> list[tuple[Integers, np.random.Generator]]:
    """Rows of every block, in sizes that differ by one at most, and its own randomness.

    Blocks share no stream of random numbers: what one draws must not depend on rows of another.
    """
    first, *others = np.random.SeedSequence(seed).spawn(n_blocks + 1)
    order = np.random.default_rng(first).permutation(n_rows)
    parts = np.array_split(order, n_blocks)
    return [(part, np.random.default_rng(own)) for part, own in zip(parts, others, strict=True)]


def block_vote(
    fitness: SubsetFitness, n_features: int, n_votes: int, rng: np.random.Generator
) -> Masks:
    """The features a block votes for: at most ``n_votes``, and none that do not help."""
    particles = swarm.Swarm(n_features, N_PARTICLES, rng)
    swarm.search(particles, fitness.correct, N_STEPS)
    tried = fitness.to_plain()
    masks = np.unpackbits(tried["bits"], axis=1)[:, :n_features].astype(np.float64)
    effects = feature_effects(masks, tried["counts"].astype(np.float64))
    vote = np.zeros(n_features, dtype=bool)
    vote[np.argsort(-effects, kind="stable")[:n_votes]] = True
    return np.asarray(vote & (effects > _NO_EFFECT))


def feature_effects(masks: Floats, correct: Floats) -> Floats:
    """What each feature adds to the rows that are right, by ridge regression on subsets."""
    design, wanted = masks - masks.mean(axis=0), correct - correct.mean()
    n_subsets, n_features = design.shape
    if n_features <= n_subsets:
        gram = design.T @ design + _PENALTY * np.eye(n_features)
        return np.asarray(np.linalg.solve(gram, design.T @ wanted))
    # The same numbers from the smaller system.
    gram = design @ design.T + _PENALTY * np.eye(n_subsets)
    return np.asarray(design.T @ np.linalg.solve(gram, wanted))


def chosen(votes: Integers, n_features_to_select: int | None) -> Masks:
    """The features with most votes, or all with more than an equal share of the votes.

    Ties go to the earlier feature. There is always one.
    """
    if n_features_to_select is None:
        more = votes * len(votes) > votes.sum()
        if more.any():
            return np.asarray(more)
        n_features_to_select = 1
    mask = np.zeros(len(votes), dtype=bool)
    mask[np.argsort(-votes, kind="stable")[:n_features_to_select]] = True
    return mask
