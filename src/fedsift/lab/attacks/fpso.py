# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on FPSO-FS: class mixes from accuracies, useful columns from subsets.

A party's class mix
Method    fpso with ``aggregation="third-party"`` (paper 004 as printed).
Leak      A sees each party's accuracy on every subset that was tried, measured on its own few rows.
          With rows of its own (a public sample of the same kind) A makes up parties of known class
          mixes, tries the very same subsets on them (:func:`make_shadows`), and learns how a mix
          shows in the accuracies (:func:`guess_from_accuracies`).
Fix       ``aggregation="masked"``: A learns mean accuracies only, in which all parties look alike.
Remains   The mean tells about the mix of all parties together.

Which columns matter at which party
Method    fpso (paper 004).
Leak      In every round a party sends the third party the subset that serves it best. Over the
          rounds its useful columns stay and the others come and go (:func:`from_own_subsets`).
          The other participants see the same subsets without their owners.
Fix       ``aggregation="masked"``: the third party reads all subsets from masked sums, not whose
          they are. Subsets of several rounds may look alike (:func:`linked`), which puts them down
          to somebody, but not to a party.
Remains   With two parties the subset that is not one's own is the other's. With
          ``mode="federated-fitness"`` the third party moves one swarm by pooled accuracies, and no
          subset is anybody's (:func:`from_common_subsets`).

What is unusual about a row that has a class of its own
Method    fpso with one neighbour; all rows but one are of the same class.
Leak      Only rows whose nearest neighbour is that one are put into the wrong class: none where it
          is far out. Mean accuracies tell in which columns that is so (:func:`_unusual`).
Fix       ``min_class_size``: a party with a smaller class refuses.
Remains   The same about several rows together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.masking import from_limbs
from fedsift.data import split_horizontal
from fedsift.lab.attacks.attack import OPTION, UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.rare_class import alike, best_of
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage, recorded_fit
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso import votes as fpso_votes
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.messages import (
    MESSAGES,
    Accuracies,
    Candidates,
    LocalSubset,
    Particles,
    UnnamedSubset,
)
from fedsift.methods.fpso.selector import FPSOSelector
from fedsift.methods.fpso.subset_fitness import KnnFitness, stratified_folds
from fedsift.methods.fpso.third_party import Answer, Subset, ThirdParty
from fedsift.methods.fpso.unnamed import subsets_in
from fedsift.protocol import Network, Policy
from fedsift.protocol.policy import SMALLEST_CLASS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.bool_]

ALLOWING = Policy(may_reveal=tuple({m.declaration.kind for m in MESSAGES}), min_security_bits=0)
"""Lets a run be as its settings want it, the paper's included."""

_RIDGE = 0.1
"""Penalty, as a share of the number of made-up parties."""

_SHADOWS = 150
"""Made-up parties."""


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

    def _read(self, replies: Sequence[Subset], n_features: int) -> Masks:
        subsets = super()._read(replies, n_features)
        openly = [r.mask.array().astype(bool) for r in replies if isinstance(r, LocalSubset)]
        if not self._params.protected and not openly:
            # Without masks every part is a sum over one party, as often as there are parties.
            parts = [r.summands.array() for r in replies if isinstance(r, UnnamedSubset)]
            openly = [_alone(from_limbs(part), n_features) for part in parts]
        self.names_known = bool(openly)
        self._proposed.append(np.stack(openly) if openly else subsets)
        return subsets

    def seen(self, at_most: int = 60) -> View:
        """Subsets of the run, each once; evenly spread ones if there are many."""
        masks = np.concatenate([view.masks for view in self._views])
        accuracies = np.concatenate([view.accuracies for view in self._views], axis=1)
        _, first = np.unique(masks, axis=0, return_index=True)
        first = np.sort(first)[:: -(-len(first) // at_most)]
        return View(masks[first], accuracies[:, first])

    def own_subsets(self) -> list[Masks]:
        """What the parties proposed, round by round; shape (n_parties, n_features) each.

        By party if ``names_known``, and else in the order in which they were read.
        """
        return list(self._proposed)

    def proposed(self, masks: Masks) -> Masks:
        """Which of these subsets each party proposed; shape (n_parties, n_subsets)."""
        rounds = np.stack(self._proposed)
        return np.asarray((rounds[:, :, None] == masks).all(axis=-1).any(axis=0))


CURIOUS = {ThirdParty: CuriousThirdParty}


def curious(stage: Stage) -> CuriousThirdParty:
    """The third party of a recorded run."""
    (role,) = stage.nodes[fpso.THIRD_PARTY]
    assert isinstance(role, CuriousThirdParty)  # noqa: S101 - recorded as one
    return role


# Class mixes


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


def _rarer_class_found(
    view: View,
    own: tuple[Floats, Integers],
    true: Floats,
    between: tuple[float, float],
    n_rows: int,
    rng: np.random.Generator,
) -> tuple[float, int]:
    """How often the third party tells who has more of the second of two classes; of how many cases.

    Parameters
    ----------
    own : tuple of X and y
        The attacker's own rows.
    true : ndarray of shape (n_parties,)
        The parties' shares of the second class.
    between : tuple of float
        Shares that it makes parties up for.
    n_rows : int
        Rows of a made-up party.
    """
    drawn = rng.uniform(*between, _SHADOWS)
    mixes = np.column_stack([1 - drawn, drawn])
    shadows = make_shadows(*own, view, mixes, n_rows, rng)
    guess = guess_from_accuracies(shadows, view.accuracies)[:, 1:]
    return order_found(true[:, None], guess)


# Useful columns


def _alone(summands: Sequence[int], n_features: int) -> Masks:
    """One party's subset, from what it adds."""
    subsets = subsets_in([summands[0], summands[len(summands) // 2]], n_features)
    return np.asarray(subsets[0])


def linked(rounds: Sequence[Masks]) -> list[Masks]:
    """Rounds of unnamed subsets with the most alike of every round in the same places."""
    from scipy.optimize import linear_sum_assignment

    found = [np.asarray(rounds[0])]
    for subsets in rounds[1:]:
        seen = from_own_subsets(found)
        _, places = linear_sum_assignment(np.abs(seen[:, None] - subsets).sum(axis=-1))
        found.append(subsets[places])
    return found


def from_own_subsets(subsets: Sequence[Masks]) -> Floats:
    """How much each column seems to matter at each party: its share of the party's subsets.

    Parameters
    ----------
    subsets : sequence of ndarray of shape (n_parties, n_features)
        One per round.
    """
    return np.asarray(np.mean(np.stack(subsets), axis=0), dtype=np.float64)


def from_common_subsets(masks: Masks, values: Floats, n_parties: int) -> Floats:
    """The same from pooled values of subsets that are nobody's: one guess for all parties."""
    used, unused = masks.sum(axis=0), (~masks).sum(axis=0)
    with_it = (masks * values[:, None]).sum(axis=0) / np.maximum(used, 1)
    without = (~masks * values[:, None]).sum(axis=0) / np.maximum(unused, 1)
    return np.tile(with_it - without, (n_parties, 1))


def told_apart(importance: Floats, owners: npt.NDArray[np.int64]) -> float:
    """How often a column that matters at one party only is put down to that party.

    For each such column and each other party the importance at the two is compared; equal counts
    as half.

    Parameters
    ----------
    importance : ndarray of shape (n_parties, n_features)
    owners : ndarray of shape (n_features,)
        The party at which a column matters; -1 for columns that matter nowhere.

    Examples
    --------
    >>> told_apart(np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0, 1]))
    0.75
    """
    points = []
    for feature in np.flatnonzero(owners >= 0):
        own = importance[owners[feature], feature]
        others = np.delete(importance[:, feature], owners[feature])
        points += np.where(others == own, 0.5, others < own).tolist()
    return float(np.mean(points))


# A job's own run


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """The third party profiles class mixes and keeps subsets."""
    if stage.roles(fpso_votes.Voter):
        run.notes.append("Blocks of rows voted with noise: no accuracy and no subset was sent.")
        return
    third = curious(stage)
    mixes = _job_class_mixes(run, third)
    if mixes is not None:
        yield "accuracy-inference", fpso.THIRD_PARTY, Trial(mixes, 0.5, *stage.told)
    rounds = third.own_subsets()
    if not rounds:
        run.notes.append("No party's subset was sent, so there was no subset to keep.")
        return
    best = np.array([role._swarm.best.mask for role in stage.roles(fpso.Participant).values()])
    right = (rounds[-1][:, None] == best).all(axis=-1)
    # Without names every order of the parties explains the run as well as any other.
    guess = float(right.mean())
    found = float(np.diag(right).mean()) if third.names_known else guess
    trial = Trial(found, guess, *stage.told, measure="subsets put down to the right party")
    yield "mask-inference", fpso.THIRD_PARTY, trial


def _job_class_mixes(run: JobRun, third: CuriousThirdParty) -> float | None:
    """For its benefit the third party is given everybody's rows as a population to practise on."""
    names = np.unique(np.concatenate(list(run.labels.values())))
    if len(names) != 2:
        run.notes.append("Class mixes are guessed for two classes only.")
        return None
    codes = {party: (run.labels[party] == names[1]).astype(np.int64) for party in run.tables}
    X = np.concatenate([table.numeric_matrix() for table in run.tables.values()])
    y = np.concatenate(list(codes.values()))
    n_rows = max(10, min(len(c) for c in codes.values()))
    least, most = np.bincount(y, minlength=2) / n_rows
    low, high = sorted((max(0.02, 1 - least), min(0.98, most)))
    true = np.array([own.mean() for own in codes.values()])
    rng = np.random.default_rng(0)
    right, cases = _rarer_class_found(third.seen(), (X, y), true, (low, high), n_rows, rng)
    if not cases:
        run.notes.append("All parties have the same class mix: there is nothing to tell apart.")
        return None
    return right / cases


# Generated data

_PARTIES, _ROWS = 4, 80
_LEAST, _MOST = 0.075, 0.5
"""Shares of the rarer class; even the smallest is large enough for the defaults."""


def _recorded(X: Floats, y: Integers, owners: Integers, variant: str, seed: int) -> Stage:
    """A run of the paper, of our default, or of the mode that shows no party's subset."""
    settings: dict[str, Any] = {"n_iterations": 5, "n_particles": 20, "n_rounds": 4}
    if variant == UNPROTECTED:
        settings |= {"aggregation": "third-party", "security": "plain", "policy": ALLOWING}
    if variant == OPTION:
        settings["mode"] = "federated-fitness"
    federation = split_horizontal(X, y, owners, task="classification")
    return recorded_fit(FPSOSelector(random_state=seed, **settings), federation, CURIOUS)


def _class_mixes(variant: str, seed: int) -> Trial:
    """Every party has its own share of the rarer class; the attacker owns rows of the same kind."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(len(y), 12))
    X[:, :3] += np.array([1.0, 0.8, -0.6]) * y[:, None]
    own = rng.random(len(y)) < 0.5
    shares = rng.uniform(_LEAST, _MOST, _PARTIES)
    rows = [
        np.flatnonzero(~own)[rows_with_mix(y[~own], np.array([1 - s, s]), _ROWS, rng)]
        for s in shares
    ]
    joined, owners = np.concatenate(rows), np.repeat(np.arange(_PARTIES), _ROWS)
    stage = _recorded(X[joined], y[joined], owners, variant, seed)
    view, true = curious(stage).seen(), np.array([y[part].mean() for part in rows])
    right, cases = _rarer_class_found(view, (X[own], y[own]), true, (_LEAST, _MOST), _ROWS, rng)
    return Trial(right / cases, 0.5, *stage.told)


@lru_cache(maxsize=2)
def _useful_columns(seed: int) -> tuple[Floats, Integers, Integers, Integers]:
    """Rows and owners; three columns matter at each party, and at no other."""
    rng = np.random.default_rng((seed, 7))
    n_rows, n_columns = 60 * _PARTIES, 3 * _PARTIES
    owners = np.repeat(np.arange(_PARTIES), 60)
    useful = rng.permutation(np.repeat(np.arange(_PARTIES), 3))
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X += 1.5 * (useful == owners[:, None]) * y[:, None]
    return X, y, owners, useful


def _useful_masks(variant: str, seed: int) -> Trial:
    X, y, owners, useful = _useful_columns(seed)
    stage = _recorded(X, y, owners, variant, seed)
    third = curious(stage)
    rounds = third.own_subsets()
    if rounds:
        importance = from_own_subsets(rounds if third.names_known else linked(rounds))
    else:
        view = third.seen()
        importance = from_common_subsets(view.masks, view.accuracies.mean(axis=0), _PARTIES)
    return Trial(told_apart(importance, useful), 0.5, *stage.told)


def _unusual(variant: str, seed: int) -> Trial:
    """Squared values of the only row of a class, at a party of few rows; others have one class."""
    X = np.random.default_rng((seed, 9)).normal(size=(_PARTIES * 20, 30))
    owners = np.repeat(np.arange(_PARTIES), 20)
    least = 1 if variant == UNPROTECTED else SMALLEST_CLASS

    def tried(n_marked: int) -> Trial:
        selector = FPSOSelector(
            k=1, n_particles=200, n_iterations=2, n_rounds=1, mode="federated-fitness",
            policy=Policy(min_class_size=least), random_state=seed,
        )  # fmt: skip
        y = (np.arange(len(X)) < n_marked).astype(np.int64)
        federation = split_horizontal(X, y, owners, task="classification")
        stage = recorded_fit(selector, federation, CURIOUS)
        view = curious(stage).seen(at_most=400)
        design = np.column_stack([view.masks, np.ones(len(view.masks))])
        found = np.linalg.lstsq(design, view.accuracies.mean(axis=0), rcond=None)[0][:-1]
        own = X[owners == 0]
        true = ((own[0] - own.mean(axis=0)) / own.std(axis=0)) ** 2
        return Trial(alike(found, true), 0.0, *stage.told)

    return best_of(tried, (1, SMALLEST_CLASS), 0.0)


ATTACKS = (
    Attack(
        name="accuracy-inference",
        method="fpso",
        attacker="third party",
        uses=("Accuracies", "MaskedAccuracies"),
        aims_at="which of two parties has more rows of a class",
        measure="pairs in the right order",
        unprotected="aggregation='third-party' (the paper): every party's accuracies",
        default="aggregation='masked': mean accuracies",
        trial=_class_mixes,
        runs=(3, 10),
        declared_as=("accuracies",),
    ),
    Attack(
        name="mask-inference",
        method="fpso",
        attacker="third party",
        uses=("LocalSubset", "UnnamedSubset", "MaskedAccuracies"),
        aims_at="which columns matter at which party",
        measure="columns put down to the right party",
        unprotected="aggregation='third-party' (the paper), subsets by party",
        default="aggregation='masked': subsets without their owners, linked over the rounds",
        option="mode='federated-fitness': one common swarm",
        trial=_useful_masks,
        runs=(10, 30),
        declared_as=("local-subset",),
    ),
    Attack(
        name="rare-class-fpso",
        method="fpso",
        attacker="third party",
        uses=("MaskedAccuracies",),
        aims_at="in which columns a row that has a class of its own is far out",
        measure="squared correlation",
        unprotected="min_class_size=1: one row with a class of its own",
        default=f"classes of fewer than {SMALLEST_CLASS} rows are refused; a class of "
        f"{SMALLEST_CLASS}",
        trial=_unusual,
        runs=(3, 10),
        declared_as=("pooled-accuracy",),
    ),
)
