# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Made-up data whose relevant features are known, to see whether a selector finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedsift.data.partition import RandomState, as_generator
from fedsift.errors import ParameterError

Floats = NDArray[np.float64]
Values = dict[str, NDArray[np.generic]]

_LOAN_RISKS = (
    "income", "debt_ratio", "late_payments", "employment", "returns_share", "basket_value",
    "yearly_spend", "channel",
)  # fmt: skip
_JOBS = ("employed", "retired", "self-employed", "student")
_CHANNELS = ("app", "store", "web")
_REGIONS = ("east", "north", "south", "west")
_MISSING_SHARE = 0.08


@dataclass(frozen=True, eq=False, repr=False)
class Synthetic:
    """A generated data set and the truth about it.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_rows, n_features)
        Features.
    y : ndarray of shape (n_rows,)
        int64 classes or float64 numbers.
    feature_names : tuple of str
        Column names.
    relevant : tuple of int
        Every column that carries information about ``y``.
    redundant : tuple of tuples of int
        Groups of relevant columns that can stand in for each other.
    task : {"classification", "regression"}
        What ``y`` is.
    description : str
        One sentence.
    owners : mapping of str to tuple of str
        Which columns belong to which party, where the data suggests it.
    """

    X: Any
    y: NDArray[Any]
    feature_names: tuple[str, ...]
    relevant: tuple[int, ...]
    redundant: tuple[tuple[int, ...], ...]
    task: Literal["classification", "regression"]
    description: str
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        shape = f"{self.X.shape[0]} x {self.X.shape[1]}"
        return f"Synthetic({self.task}, {shape}, {len(self.relevant)} relevant)"


def madelon_like(
    n_rows: int = 1000,
    *,
    n_informative: int = 5,
    n_combinations: int = 15,
    n_probes: int = 480,
    random_state: RandomState = None,
) -> Synthetic:
    """Generate clusters on the corners of a cube, labelled so that no side of the cube tells.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_informative : int
        Dimensions of the cube; corners with an odd number of ones are class 1.
    n_combinations : int
        Random linear combinations of the informative columns.
    n_probes : int
        Columns of noise.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    data : Synthetic
        Informative columns and combinations form one redundant group.
    """
    _check_counts(n_rows=n_rows, n_informative=n_informative)
    rng = as_generator(random_state)
    corners = rng.integers(0, 2, size=(n_rows, n_informative))
    informative = 2.0 * corners - 1.0 + rng.normal(0.0, 0.35, size=corners.shape)
    weights = rng.normal(size=(n_informative, n_combinations))
    combined = informative @ weights / np.sqrt(n_informative)
    probes = rng.normal(size=(n_rows, n_probes))
    n_relevant = n_informative + n_combinations
    return _shuffled(
        np.column_stack([informative, combined, probes]),
        corners.sum(axis=1) % 2,
        range(n_relevant),
        [range(n_relevant)] if n_combinations else [],
        "classification",
        "Parity of cube corners, with linear combinations and probes",
        rng,
    )


def friedman(
    n_rows: int = 1000,
    n_features: int = 20,
    *,
    noise: float = 1.0,
    random_state: RandomState = None,
) -> Synthetic:
    """Generate Friedman's first regression problem with additional columns of noise.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_features : int
        At least 5; five of them enter the target.
    noise : float
        Standard deviation of what is added to the target.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    data : Synthetic
        ``10 sin(pi a b) + 20 (c - 1/2)^2 + 10 d + 5 e`` plus noise.
    """
    _check_counts(n_rows=n_rows, n_features=n_features - 4)
    rng = as_generator(random_state)
    X = rng.uniform(size=(n_rows, n_features))
    a, b, c, d, e = X[:, :5].T
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    y += noise * rng.normal(size=n_rows)
    description = "Friedman's first regression problem with columns of noise"
    return _shuffled(X, y, range(5), [], "regression", description, rng)


def xor(
    n_rows: int = 500,
    *,
    n_pairs: int = 1,
    n_noise: int = 8,
    flip: float = 0.0,
    random_state: RandomState = None,
) -> Synthetic:
    """Generate pairs of features that say nothing alone and everything together.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_pairs : int
        The label is the sign of the sum of the products of this many pairs.
    n_noise : int
        Columns of noise.
    flip : float
        Share of labels that are turned round.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    data : Synthetic
        Two relevant columns per pair, none redundant.
    """
    _check_counts(n_rows=n_rows, n_pairs=n_pairs)
    rng = as_generator(random_state)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, 2 * n_pairs + n_noise))
    products = X[:, 0 : 2 * n_pairs : 2] * X[:, 1 : 2 * n_pairs : 2]
    y = (products.sum(axis=1) > 0).astype(np.int64)
    y = np.where(rng.uniform(size=n_rows) < flip, 1 - y, y)
    description = "The label is the sign of products of pairs"
    return _shuffled(X, y, range(2 * n_pairs), [], "classification", description, rng)


def redundant_twins(
    n_rows: int = 500,
    *,
    n_relevant: int = 4,
    n_copies: int = 1,
    n_noise: int = 12,
    jitter: float = 0.05,
    random_state: RandomState = None,
) -> Synthetic:
    """Generate relevant features that each come with near-copies of themselves.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_relevant : int
        Features whose sum decides the class.
    n_copies : int
        Near-copies of each of them.
    n_noise : int
        Columns of noise.
    jitter : float
        Standard deviation of the difference between a feature and its copy.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    data : Synthetic
        One redundant group per relevant feature; one column of each group is enough.
    """
    _check_counts(n_rows=n_rows, n_relevant=n_relevant)
    rng = as_generator(random_state)
    originals = rng.normal(size=(n_rows, n_relevant))
    copies = [originals + jitter * rng.normal(size=originals.shape) for _ in range(n_copies)]
    noise = rng.normal(size=(n_rows, n_noise))
    y = (originals.sum(axis=1) + 0.3 * rng.normal(size=n_rows) > 0).astype(np.int64)
    n_all = n_relevant * (1 + n_copies)
    groups = [range(first, n_all, n_relevant) for first in range(n_relevant)] if n_copies else []
    description = "Relevant features, each with near-copies"
    X = np.column_stack([originals, *copies, noise])
    return _shuffled(X, y, range(n_all), groups, "classification", description, rng)


def mixed_bank(n_rows: int = 1000, *, random_state: RandomState = None) -> Synthetic:
    """Generate customers of a bank and a shop, with a label whether a loan was not paid back.

    Parameters
    ----------
    n_rows : int
        Number of customers.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    data : Synthetic
        ``X`` is a data frame of numbers, categories and missing values; ``owners`` tells the
        bank's columns from the shop's; some columns of each are relevant.

    Examples
    --------
    >>> data = mixed_bank(50, random_state=0)
    >>> sorted(data.owners)
    ['bank', 'shop']
    """
    if n_rows < 2:
        raise ParameterError(
            f"n_rows={n_rows}.", "There must be at least two customers.", "Raise n_rows."
        )
    import pandas as pd

    rng = as_generator(random_state)
    bank, shop = _bank(n_rows, rng), _shop(n_rows, rng)
    y = _not_paid_back({**bank, **shop}, rng)
    frame = pd.DataFrame({**bank, **shop})
    for column in ("income", "late_payments", "basket_value", "loyalty_years"):
        frame.loc[rng.uniform(size=n_rows) < _MISSING_SHARE, column] = np.nan
    for column in ("employment", "channel"):
        frame.loc[rng.uniform(size=n_rows) < _MISSING_SHARE, column] = None
    names = tuple(frame.columns)
    return Synthetic(
        X=frame,
        y=y,
        feature_names=names,
        relevant=tuple(index for index, name in enumerate(names) if name in _LOAN_RISKS),
        redundant=((names.index("basket_value"), names.index("yearly_spend")),),
        task="classification",
        description="Customers of a bank and a shop; the label is a loan not paid back",
        owners={"bank": tuple(bank), "shop": tuple(shop)},
    )


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ParameterError(
                f"{name} is too small.", "There must be at least one.", f"Raise {name}."
            )


def _shuffled(
    X: Floats,
    y: NDArray[Any],
    relevant: Sequence[int],
    groups: Sequence[Sequence[int]],
    task: Literal["classification", "regression"],
    description: str,
    rng: np.random.Generator,
) -> Synthetic:
    """Put the columns into random order, so that no split of the table favours some of them."""
    order = rng.permutation(X.shape[1])
    new_position = np.argsort(order)

    def moved(columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(int(new_position[column]) for column in columns))

    return Synthetic(
        X=np.ascontiguousarray(X[:, order]),
        y=y,
        feature_names=tuple(f"x{index}" for index in range(X.shape[1])),
        relevant=moved(relevant),
        redundant=tuple(moved(group) for group in groups),
        task=task,
        description=description,
    )


def _bank(n_rows: int, rng: np.random.Generator) -> Values:
    return {
        "age": rng.integers(18, 85, n_rows).astype(np.float64),
        "income": np.round(rng.lognormal(7.8, 0.45, n_rows)),
        "debt_ratio": np.round(rng.beta(2.0, 5.0, n_rows), 3),
        "late_payments": rng.poisson(0.8, n_rows).astype(np.float64),
        "account_years": np.round(rng.exponential(6.0, n_rows), 1),
        "n_cards": rng.integers(0, 5, n_rows).astype(np.float64),
        "employment": _draw(_JOBS, (0.6, 0.15, 0.15, 0.1), n_rows, rng),
        "branch_region": _draw(_REGIONS, (0.25, 0.25, 0.25, 0.25), n_rows, rng),
    }


def _shop(n_rows: int, rng: np.random.Generator) -> Values:
    basket = rng.gamma(4.0, 12.0, n_rows)
    return {
        "basket_value": np.round(basket, 2),
        "yearly_spend": np.round(12.0 * basket + rng.normal(0.0, 8.0, n_rows), 2),
        "returns_share": np.round(rng.beta(1.5, 8.0, n_rows), 3),
        "visits_per_month": rng.poisson(3.0, n_rows).astype(np.float64),
        "loyalty_years": np.round(rng.exponential(3.0, n_rows), 1),
        "channel": _draw(_CHANNELS, (0.4, 0.35, 0.25), n_rows, rng),
        "newsletter": rng.integers(0, 2, n_rows).astype(bool),
        "shop_region": _draw(_REGIONS, (0.4, 0.2, 0.2, 0.2), n_rows, rng),
    }


def _draw(
    texts: tuple[str, ...], shares: tuple[float, ...], n_rows: int, rng: np.random.Generator
) -> NDArray[np.generic]:
    return np.array(texts, dtype=object)[rng.choice(len(texts), size=n_rows, p=shares)]


def _not_paid_back(known: Values, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the label from a risk that only the relevant columns enter."""
    risk = -1.2 * _scaled(np.log(known["income"].astype(np.float64)))
    risk += 1.3 * _scaled(known["debt_ratio"]) + 1.1 * _scaled(known["late_payments"])
    risk += 0.9 * _scaled(known["returns_share"]) - 0.8 * _scaled(known["basket_value"])
    risk += 1.2 * (known["employment"] == "student") - 0.8 * (known["employment"] == "retired")
    risk += 0.8 * (known["channel"] == "app")
    probability = 1.0 / (1.0 + np.exp(-(risk - np.quantile(risk, 0.65))))
    y = (rng.uniform(size=len(risk)) < probability).astype(np.int64)
    # Tiny samples must still have both classes.
    y[np.argmax(risk)], y[np.argmin(risk)] = 1, 0
    return y


def _scaled(values: NDArray[np.generic]) -> NDArray[np.float64]:
    numbers = values.astype(np.float64)
    spread = float(numbers.std())
    scaled: NDArray[np.float64] = (numbers - numbers.mean()) / (spread if spread > 0 else 1.0)
    return scaled
