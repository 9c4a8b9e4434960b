# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the interaction protocol (method ``interaction``, paper 001).

Columns at the cloud server
Leak  The paper gives every feature owner the key that decrypts all columns, so a cloud server that
      colludes with one of them reads everything.
Fix   Only the label owner has a secret key. The attacker here has everything the cloud server and
      one feature owner received, and a guess of the secret column, and looks for the guess in the
      bytes (:func:`likeness`): it succeeds without encryption and finds nothing in ciphertexts.

Counts behind released relevances
Leak  The label owner knows the labels and learns the relevance of an unnamed feature. If the
      feature has two values, the relevance is a function of one count per class, and the label
      owner can try all of them (:func:`tables_that_explain`): an exact number leaves one table (and
      its mirror image).
Fix   The server adds noise to the low bits, so that many tables explain what is released; what is
      left is the stated precision. Few rows and few classes have few tables, and no noise that
      leaves the order intact can change that: the ledger calls the released values what they are.

Multiplicative blinding
Leak  A server that cannot divide under encryption may be tempted to send numerator and denominator
      times one random factor ``r`` and let the label owner divide. Over the integers the greatest
      common divisor of the two numbers returns ``r`` (:func:`unblind`); modulo a prime, continued
      fractions return numerator and denominator from their ratio alone (:func:`reconstruct`).
Fix   The protocol never sends such a pair: every opened number is either uniform or a finished
      value with noise in its low bits (``tests/lab/attacks/test_interaction_attacks.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.wire import Ciphertexts
from fedsift.data import Federation, split_vertical
from fedsift.engine import run_local
from fedsift.lab.attacks import rare_class
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction import parties as interaction_parties
from fedsift.methods.interaction.fixed_point import LabelPlan
from fedsift.methods.interaction.measures import CLIP, standardise
from fedsift.methods.interaction.messages import MESSAGES, Params

Floats = npt.NDArray[np.float64]
Table = npt.NDArray[np.int64]
Relevance = Callable[[Table, Sequence[int]], Floats]

_MOST_TABLES = 2_000_000
_MOST_COLUMNS = 5
"""Columns of one party that are looked for in ciphertexts."""

# Columns in bytes


def likeness(blob: bytes, guess: Floats) -> float:
    """Largest absolute correlation of a guessed column with consecutive words of some bytes.

    Words are read as numbers and by whether they are above their median, so that negative numbers
    modulo a prime show too.
    """
    usable = len(blob) // 8 * 8
    best = 0.0
    for offset in (0, len(blob) - usable):
        words = np.frombuffer(blob[offset : offset + usable], dtype=np.uint64).astype(np.float64)
        if len(words) < len(guess):
            continue
        for reading in (words, np.where(words > np.median(words), -1.0, 1.0), np.sign(words)):
            best = max(best, _sliding_correlation(reading, guess))
    return best


def _sliding_correlation(words: Floats, guess: Floats) -> float:
    """Largest absolute correlation over all places, by one convolution."""
    n = len(guess)
    wanted = (guess - guess.mean()) / max(float(guess.std()), 1e-12)
    size = 1 << (len(words) + n - 1).bit_length()
    spectrum = np.fft.rfft(words, size) * np.conj(np.fft.rfft(wanted, size))
    products = np.fft.irfft(spectrum, size)[: len(words) - n + 1]
    sums, squares = (np.concatenate([[0.0], np.cumsum(v)]) for v in (words, words**2))
    mean = (sums[n:] - sums[:-n]) / n
    spread = np.sqrt(np.maximum((squares[n:] - squares[:-n]) / n - mean**2, 0.0))
    usable = spread > 1e-9 * max(1.0, float(np.abs(words).max()))
    if not usable.any():
        return 0.0
    return float(np.abs(products[usable] / (n * spread[usable])).max())


def best_likeness(sealed: Iterable[Ciphertexts], guess: Floats) -> float:
    """The best trace of a guessed column in everything a colluding group received."""
    return max((likeness(blob, guess) for part in sealed for blob in part.blobs), default=0.0)


def sealed_at(stage: Stage, *parties: str) -> list[Ciphertexts]:
    """Everything encrypted that some parties received."""
    found: list[Ciphertexts] = []
    for party in parties:
        for message in stage.received(party, *MESSAGES):
            fields = [getattr(message, name) for name in message.__struct_fields__]
            found += [value for value in fields if isinstance(value, Ciphertexts)]
    return found


def traces(sealed: list[Ciphertexts], columns: Floats, seed: int) -> tuple[float, float]:
    """Mean trace of some columns in ciphertexts, and that of columns that are pure noise."""
    rng = np.random.default_rng((seed, 3))
    noise = rng.normal(size=(columns.shape[1], len(columns)))
    found = [best_likeness(sealed, column) for column in columns.T]
    chance = [best_likeness(sealed, column) for column in noise]
    return float(np.mean(found)), float(np.mean(chance))


# Counts behind relevances


def relevance_of(ones: Table, class_sizes: Sequence[int]) -> Floats:
    """Relevance (``miw``) of two-valued features from their ones per class, last axis classes."""
    sizes = np.asarray(class_sizes, dtype=np.float64)
    n_rows = sizes.sum()
    p = ones.sum(axis=-1) / n_rows
    between = ((ones / sizes - p[..., None]) ** 2 * (sizes / n_rows)).sum(axis=-1)
    variance = p * (1 - p)
    return np.asarray(between / np.where(variance > 0, variance, 1.0))


def opened_relevance(ones: Table, class_sizes: Sequence[int]) -> Floats:
    """The same in the protocol's fixed-point numbers: what the label owner opens without noise.

    Examples
    --------
    >>> ones, sizes = np.array([3, 5, 11]), (10, 13, 17)
    >>> round(float(opened_relevance(ones, sizes)), 4), round(float(relevance_of(ones, sizes)), 4)
    (0.0918, 0.0918)
    """
    sizes = np.asarray(class_sizes)
    plan = LabelPlan("miw", sizes)
    share = np.clip(ones.sum(axis=-1) / sizes.sum(), 1e-9, 1 - 1e-9)
    spread, unit = np.sqrt(share * (1 - share)), 1 << plan.scales.value_bits
    one = np.rint(unit * np.minimum((1 - share) / spread, CLIP))[..., None]
    zero = np.rint(unit * np.maximum(-share / spread, -CLIP))[..., None]
    sums = ones * one + (sizes - ones) * zero
    sums = np.concatenate([sums, sums.sum(axis=-1, keepdims=True)], axis=-1)
    factors = plan.relevance_polynomial[2].astype(np.float64)
    return np.asarray((sums**2 * factors).sum(axis=-1) * 2.0**-plan.scales.relevance_bits)


def tables_that_explain(
    released: float,
    precision: float,
    class_sizes: Sequence[int],
    relevance: Relevance = relevance_of,
) -> Table:
    """All counts of ones per class whose relevance is within ``precision`` of the released one.

    Examples
    --------
    >>> exact = float(relevance_of(np.array([3, 5, 11]), (10, 13, 17)))
    >>> tables_that_explain(exact, 1e-12, (10, 13, 17)).tolist()
    [[3, 5, 11], [7, 8, 6]]
    """
    *most, last = class_sizes
    grid = np.stack(np.meshgrid(*[np.arange(n + 1) for n in most], indexing="ij"), axis=-1)
    grid = grid.reshape(-1, len(most))
    found = []
    # One value of the last class at a time keeps the memory small.
    for ones in range(last + 1):
        tables = np.column_stack([grid, np.full(len(grid), ones)])
        close = np.abs(relevance(tables, class_sizes) - released) <= precision
        found.append(tables[close])
    tables = np.concatenate(found)
    return np.asarray(tables[np.lexsort(tables.T[::-1])])


def chance_of_naming(
    ones: Table, class_sizes: Sequence[int], released: Floats, noise_bits: int | None
) -> float:
    """Chance of naming the table of a two-valued column, from the relevance nearest to it."""
    precision = 1e-9 if noise_bits is None else 2.0**-noise_bits
    exact = float(opened_relevance(ones, class_sizes))
    nearest = float(released[np.abs(released - exact).argmin()])
    tables = tables_that_explain(nearest, precision, class_sizes, opened_relevance)
    # A table and its mirror image cannot be told apart.
    return min(1.0, 2 / len(tables)) if ones.tolist() in tables.tolist() else 0.0


# Fractions under a common factor


def unblind(numerator: int, denominator: int) -> tuple[int, int, int]:
    """Blinding factor, numerator and denominator behind ``r * a`` and ``r * b``.

    Exact up to a common divisor of a and b, which is 1 for most counts.

    Examples
    --------
    >>> unblind(7919 * 35, 7919 * 12)
    (7919, 35, 12)
    """
    factor = math.gcd(numerator, denominator) or 1
    return factor, numerator // factor, denominator // factor


def reconstruct(ratio: int, modulus: int, bound: int) -> tuple[int, int] | None:
    """Small numerator and denominator whose quotient modulo a prime is ``ratio``, if there are any.

    Euclid's algorithm on (modulus, ratio), stopped when the remainder is at most ``bound``; the
    answer is unique if ``2 * bound**2 < modulus``.

    Examples
    --------
    >>> t = 1_000_003
    >>> reconstruct(35 * pow(12, -1, t) % t, t, 100)
    (35, 12)
    """
    left, right = (modulus, 0), (ratio % modulus, 1)
    while right[0] > bound:
        quotient = left[0] // right[0]
        left, right = right, (left[0] - quotient * right[0], left[1] - quotient * right[1])
    numerator, denominator = right
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    if denominator == 0 or denominator > bound or math.gcd(numerator, denominator) != 1:
        return None
    return numerator, denominator


# A job's own run


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Columns in the bytes at the cloud, and tables behind the relevances."""
    owners: dict[str, Any] = stage.roles(interaction_parties.FeatureOwner)
    sealed = sealed_at(stage, interaction.CLOUD)
    for name, role in owners.items():
        columns = standardise(role._table.numeric_matrix())
        columns = columns[:, columns.std(axis=0) > 0][:, :_MOST_COLUMNS]
        if columns.shape[1]:
            found, chance = traces(sealed, columns, 0)
            yield "cloud-columns", interaction.CLOUD, Trial(found, chance, *stage.told, name)
    ((party, owner),) = stage.roles(interaction.LabelOwner).items()
    codes = owner._vectors.codes
    sizes = tuple(np.bincount(codes).tolist())
    params = owner._params
    if params.measure != "miw" or math.prod(n + 1 for n in sizes) > _MOST_TABLES:
        run.notes.append(f"{party}: too many tables to try, or another measure than miw.")
        return
    released = np.asarray(stage.outcome.value.relevance, dtype=np.float64)
    chances = []
    tables = [role._table for other, role in owners.items() if other != party]
    for column in (c for table in tables for c in table.numeric_matrix().T):
        values = np.unique(column)
        if len(values) == 2 and np.isfinite(values).all():
            ones = np.bincount(codes, column == values[1], len(sizes)).astype(np.int64)
            chances.append(chance_of_naming(ones, sizes, released, params.noise_bits))
    if not chances:
        run.notes.append(f"{party}: no other party has a two-valued column to name the table of.")
        return
    yield "relevance-counts", party, Trial(max(chances), 0.0, *stage.told)


# Generated data

_CLASS_SIZES = (31, 33, 37, 41)


_ONES = (9, 23, 17, 31)
"""Ones of a two-valued column in every class."""


_OWNER = "hospital"


_FACTOR_BITS = 20
"""A common divisor of fewer bits is chance."""


def _federation(seed: int) -> tuple[Federation, Floats]:
    """Labels at 'hospital'; at 'bank' a two-valued and a numeric column, at 'shop' two."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(_CLASS_SIZES)), _CLASS_SIZES)
    two_valued = np.concatenate(
        [np.arange(n) < k for n, k in zip(_CLASS_SIZES, _ONES, strict=True)]
    )
    order = rng.permutation(len(y))
    X = rng.normal(size=(len(y), 5))
    X[:, 2] += y
    X[:, 1] = two_valued
    owned = [[0], [1, 2], [3, 4]]
    names = [_OWNER, "bank", "shop"]
    return split_vertical(X[order], y[order], owned, names=names, random_state=0), X[order]


@lru_cache(maxsize=2)
def _run(bare: bool, seed: int) -> tuple[Stage, Floats]:
    """Without encryption and without noise, or as it is by default."""
    federation, X = _federation(seed)
    assert federation.label_holder is not None  # noqa: S101 - generated with labels
    assert federation.target is not None  # noqa: S101
    changed: dict[str, Any] = {"scheme": "plain", "noise_bits": None} if bare else {}
    params = Params(n_features_to_select=2, **changed)
    nodes = interaction.build_nodes(
        federation.tables, federation.label_holder, federation.target, federation.n_rows, params
    )
    outcome = run_local(interaction.PROTOCOL, nodes, keep_frames=True, protected=not bare)
    return Stage(interaction.PROTOCOL, nodes, outcome), X


def _columns(variant: str, seed: int) -> Trial:
    stage, X = _run(variant == UNPROTECTED, seed)
    sealed = sealed_at(stage, interaction.CLOUD, "bank")
    return Trial(*traces(sealed, standardise(X[:, 3:]), seed), *stage.told)


def _counts(variant: str, seed: int) -> Trial:
    """The label owner looks for the table behind the relevance of the two-valued column."""
    stage, _ = _run(variant == UNPROTECTED, seed)
    released = np.asarray(stage.outcome.value.relevance)
    noise_bits = None if variant == UNPROTECTED else Params().noise_bits
    found = chance_of_naming(np.array(_ONES), _CLASS_SIZES, released, noise_bits)
    return Trial(found, 0.0, *stage.told)


def _fractions(variant: str, seed: int) -> Trial:
    rng = np.random.default_rng(seed)
    stage, _ = _run(False, seed)
    if variant == UNPROTECTED:
        pairs = []
        for ones, size in zip(_ONES, _CLASS_SIZES, strict=True):
            factor = int(rng.integers(1 << 40, 1 << 50))
            pairs.append((factor * ones, factor * size))
    else:
        relevance = stage.outcome.value.relevance
        pairs = list(pairwise(round(float(v) * 2**50) for v in relevance if v > 1e-6))
    found = np.mean([unblind(a, b)[0] >= 1 << _FACTOR_BITS for a, b in pairs])
    return Trial(float(found), 0.0, *stage.told)


ATTACKS = (
    Attack(
        name="cloud-columns",
        method="interaction",
        attacker="cloud server",
        uses=("EncryptedColumns", "MateColumn"),
        aims_at="a column, together with a feature owner that is in league",
        measure="best correlation with the bytes received",
        unprotected="no encryption (security='plain')",
        default="columns under the label owner's key alone",
        trial=_columns,
        runs=(1, 3),
    ),
    Attack(
        name="relevance-counts",
        method="interaction",
        attacker="label owner",
        uses=("SealedRelevance",),
        aims_at="how many rows of each class have a two-valued feature",
        measure="chance of naming the right table",
        unprotected="relevances without noise in their low bits",
        default="relevances with noise of 2^-16",
        trial=_counts,
        runs=(1, 3),
        declared_as=("relevance",),
        tolerance=0.05,
    ),
    Attack(
        name="blinded-fractions",
        method="interaction",
        attacker="label owner",
        uses=("SealedRelevance",),
        aims_at="numerators and denominators under one random factor",
        measure="fractions unblinded",
        unprotected="fractions under a random factor, as a server that cannot divide might send",
        default="finished values only",
        trial=_fractions,
        runs=(1, 3),
        tolerance=0.05,
    ),
    *rare_class.ON_INTERACTION,
)
