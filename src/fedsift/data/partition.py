# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Making a federation out of one table, by columns or by rows, to try things out.

Rows are dealt out evenly, by cluster, or by class mixture.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsift.config.job import OWN_PARTY, DataEntry
from fedsift.data.federation import Federation
from fedsift.data.ids import check_names, unknown_party
from fedsift.data.sources import is_missing, missing_column, plain_text
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import AlignmentError, ParameterError, PartyError

_CONCENTRATION = 0.5
_QUANTILE_GROUPS = 4


_LABEL_HOLDER = "label-holder"
_WHOLE = "data"


def split_vertical(
    X: Any,
    y: Any = None,
    parties: int | Sequence[Sequence[int | str]] = 2,
    *,
    random_state: Any = None,
    label_holder: int | str | None = 0,
    names: Sequence[str] | None = None,
    task: str = "auto",
    categorical: Sequence[str] = (),
) -> Federation:
    """Split the columns of one table among several parties.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        An array, a data frame, or anything else `PartyTable.from_any` takes.
    y : array-like of shape (n_rows,), optional
        Labels.
    parties : int or list of column lists
        How many parties, or which columns (numbers or names) each of them gets. Every column must
        belong to exactly one party.
    random_state : int, Generator or None
        Seed for assigning columns at random; with None each party gets a block of neighbours.
    label_holder : int, str or None
        Number (from 0) or name of the party that also holds the labels; None for a party of its
        own called ``label-holder``.
    names : list of str, optional
        Party names; ``party-1``, ``party-2``, ... by default.
    task : {"auto", "classification", "regression", "survival"}
        What the labels are.
    categorical : list of str
        Columns that hold categories although they look like numbers.

    Returns
    -------
    federation : Federation
        Vertical; every party keeps the columns in their original order.

    Examples
    --------
    >>> fed = split_vertical(np.eye(4), [0, 1, 0, 1], parties=2)
    >>> fed.column_order
    {'party-1': (0, 1), 'party-2': (2, 3)}
    """
    table = PartyTable.from_any(_as_source(X), name=_WHOLE, categorical=categorical)
    shares = _column_shares(table, parties, random_state)
    party_names = _party_names(names, len(shares))
    target = _target(y, task, table.n_rows)
    holder = None if target is None else _label_holder(label_holder, party_names)
    everyone = party_names
    if holder is not None and holder not in party_names:
        everyone = (*party_names, holder)
        check_names(everyone)
    order = dict(zip(party_names, shares, strict=True))
    return Federation(
        setting="vertical",
        tables={name: _columns_for(table, name, share) for name, share in order.items()},
        parties=everyone,
        label_holder=holder,
        target=target,
        column_order=order,
    )


def split_horizontal(
    X: Any,
    y: Any = None,
    parties: Any = 3,
    *,
    skew: str | None = None,
    random_state: Any = None,
    names: Sequence[str] | None = None,
    task: str = "auto",
    categorical: Sequence[str] = (),
) -> Federation:
    """Split the rows of one table among several parties.

    Parameters
    ----------
    X, y : array-like
        Features and labels, as for :func:`split_vertical`.
    parties : int or array-like of shape (n_rows,)
        How many parties, or the owner of every row (numbers or names).
    skew : {None, "kmeans", "dirichlet"}
        None splits rows evenly at random; ``"kmeans"`` gives every party one cluster of
        similar rows; ``"dirichlet"`` gives every party its own mixture of classes.
    random_state : int, Generator or None
        Seed.
    names, task, categorical
        As for :func:`split_vertical`.

    Returns
    -------
    federation : Federation
        Horizontal; ``row_order`` has the original rows of every party, in rising order.
    """
    table = PartyTable.from_any(_as_source(X), name=_WHOLE, categorical=categorical)
    target = _target(y, task, table.n_rows)
    if isinstance(parties, int | np.integer):
        _check_skew(skew)
        _check_number_of_parties(int(parties), table.n_rows, "rows")
        rng = as_generator(random_state)
        owners = owners_by_skew(table.numeric_matrix, target, int(parties), skew, rng, table.n_rows)
        party_names = _party_names(names, int(parties))
    else:
        owners, found_names = _explicit_owners(parties, skew, table.n_rows)
        party_names = _party_names(names or found_names, int(owners.max()) + 1)
    order = {name: np.flatnonzero(owners == number) for number, name in enumerate(party_names)}
    return Federation(
        setting="horizontal",
        tables={name: replace(table.take(rows), name=name) for name, rows in order.items()},
        parties=party_names,
        targets={n: None if target is None else target.take(rows) for n, rows in order.items()},
        row_order=order,
    )


def split_as_described(X: Any, y: Any, data: DataEntry, seed: int | None) -> Federation:
    """Split one table as the ``[data]`` of a file says."""
    counted = isinstance(data.parties, int)
    shared: dict[str, Any] = {
        "random_state": seed,
        "names": None if counted else data.parties,
        "task": data.task,
        "categorical": data.categorical,
    }
    n_parties = data.parties if isinstance(data.parties, int) else len(data.parties)
    if data.setting == "horizontal":
        return split_horizontal(X, y, n_parties, skew=data.skew, **shared)
    holder: int | str | None = data.label_holder or 0
    if holder == OWN_PARTY:
        holder = None
    return split_vertical(X, y, n_parties, label_holder=holder, **shared)


def _as_source(X: Any) -> Any:
    return np.asarray(X) if isinstance(X, list) else X


def _target(y: Any, task: str, n_rows: int) -> Target | None:
    if y is None:
        return None
    target = Target.from_values(y, task)
    if target.n_rows != n_rows:
        raise AlignmentError(
            f"X has {n_rows} rows but y has {target.n_rows}.",
            "Every row needs one label.",
            "Pass X and y of the same length.",
        )
    return target


def _party_names(names: Sequence[str] | None, n_parties: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"party-{number}" for number in range(1, n_parties + 1))
    if len(names) != n_parties:
        raise ParameterError(
            f"There are {len(names)} names for {n_parties} parties.",
            "Every party needs one name.",
            "Pass as many names as parties.",
        )
    check_names(names)
    return tuple(names)


def _check_number_of_parties(n_parties: int, n_shares: int, what: str) -> None:
    if not 1 <= n_parties <= n_shares:
        raise ParameterError(
            f"parties={n_parties} with {n_shares} {what}.",
            f"There must be at least one party, and at least one of the {what} for each.",
            f"Choose a number from 1 to {n_shares}.",
        )


def _label_holder(label_holder: int | str | None, names: tuple[str, ...]) -> str:
    if label_holder is None:
        return _LABEL_HOLDER
    if isinstance(label_holder, str):
        if label_holder not in names:
            raise unknown_party(label_holder, names)
        return label_holder
    if not 0 <= label_holder < len(names):
        raise ParameterError(
            f"label_holder={label_holder} with {len(names)} parties.",
            f"It must be a number from 0 to {len(names) - 1}, a party name, or None.",
            "Choose one of these.",
        )
    return names[label_holder]


def _columns_for(table: PartyTable, name: str, share: tuple[int, ...]) -> PartyTable:
    return replace(table, name=name, columns=tuple(table.columns[position] for position in share))


def _column_shares(
    table: PartyTable, parties: int | Sequence[Sequence[int | str]], random_state: Any
) -> list[tuple[int, ...]]:
    """Return for every party the numbers of its columns, in rising order."""
    if isinstance(parties, int | np.integer):
        _check_number_of_parties(int(parties), table.n_columns, "columns")
        order = np.arange(table.n_columns)
        if random_state is not None:
            order = as_generator(random_state).permutation(table.n_columns)
        return [tuple(sorted(part.tolist())) for part in np.array_split(order, int(parties))]
    _check_column_lists(parties)
    known = {name: position for position, name in enumerate(table.feature_names)}
    shares = [[_position(known, column) for column in columns] for columns in parties]
    _check_shares(shares, table.n_columns)
    return [tuple(sorted(share)) for share in shares]


def _check_column_lists(parties: Any) -> None:
    is_list = hasattr(parties, "__iter__") and not isinstance(parties, str)
    if is_list and all(hasattr(c, "__iter__") and not isinstance(c, str) for c in parties):
        return
    raise ParameterError(
        f"parties is a {type(parties).__name__} that is no list of column lists.",
        "It must be a number, or one list of column numbers or names for every party.",
        "For example parties=[[0, 1], [2, 3]].",
    )


def _position(known: dict[str, int], column: int | str) -> int:
    if isinstance(column, str):
        if column not in known:
            raise missing_column(column, tuple(known), _WHOLE)
        return known[column]
    if not 0 <= column < len(known):
        raise ParameterError(
            f"Column number {int(column)} with {len(known)} columns.",
            f"Column numbers go from 0 to {len(known) - 1}.",
            "Check the column lists in `parties`.",
        )
    return int(column)


def _check_shares(shares: list[list[int]], n_columns: int) -> None:
    if not shares or not all(shares):
        n_empty = sum(not share for share in shares)
        raise PartyError(
            f"{n_empty} of {len(shares)} column lists are empty.",
            "There must be a party, and every party needs at least one column.",
            "Leave such parties out of `parties`.",
        )
    dealt = [position for share in shares for position in share]
    n_repeated = len(dealt) - len(set(dealt))
    if n_repeated:
        raise ParameterError(
            f"{n_repeated} column(s) are named more than once in `parties`.",
            "Every column belongs to one party.",
            "Remove the repetitions.",
        )
    if len(dealt) < n_columns:
        raise ParameterError(
            f"{n_columns - len(dealt)} of {n_columns} columns belong to no party.",
            "Every column must be in one of the lists.",
            "Add the missing columns to a party, or remove them from X.",
        )


def _check_skew(skew: str | None) -> None:
    if skew not in SKEWS:
        raise ParameterError(
            f"skew={skew!r} is not known.",
            f"It must be one of {', '.join(map(repr, SKEWS))}.",
            "Choose one of these.",
        )


def _explicit_owners(
    parties: Any, skew: str | None, n_rows: int
) -> tuple[NDArray[np.int64], list[str] | None]:
    """Return owner numbers, and their names if the owners were given by name."""
    given = np.asarray(parties)
    if skew is not None:
        raise ParameterError(
            f"Both skew={skew!r} and an owner for every row were given.",
            "Rows are split either by a rule or by a list of owners.",
            "Leave out one of the two.",
        )
    if given.shape != (n_rows,):
        raise ParameterError(
            f"The row owners have the shape {given.shape} with {n_rows} rows.",
            "There must be one owner for every row.",
            "Pass the number of parties, or an array with one entry per row.",
        )
    if is_missing(given).any():
        raise ParameterError(
            f"{int(is_missing(given).sum())} of {n_rows} rows have no owner.",
            "There must be one owner for every row.",
            "Fill in the owners, or leave those rows out.",
        )
    by_name = given.dtype.kind in "UO"
    if by_name:
        given = np.array([plain_text(owner) for owner in given])
    distinct, owners = np.unique(given, return_inverse=True)
    found_names = [str(name) for name in distinct] if by_name else None
    return owners.astype(np.int64), found_names


RandomState = int | np.random.Generator | None
LARGEST_SEED = (1 << 64) - 1
"""Results are JSON, whose readers take no longer numbers."""


def check_seed(seed: int) -> int:
    """Refuse a number that no result could be written with."""
    if not 0 <= seed <= LARGEST_SEED:
        raise ParameterError(
            f"random_state is {'negative' if seed < 0 else 'a number of more than 64 bits'}.",
            "A seed is an integer from 0 to 2**64 - 1.",
            "Give another number, or None for a different draw every time.",
        )
    return seed


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator for a seed, a Generator, an old RandomState, or None (unpredictable)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, int | np.integer):
        return np.random.default_rng(check_seed(int(random_state)))
    raise ParameterError(
        f"random_state is a {type(random_state).__name__} that is no seed.",
        "It must be None, an integer from 0 to 2**64 - 1, or a numpy Generator.",
        "Pass for example random_state=0.",
    )


SKEWS: tuple[str | None, ...] = (None, "kmeans", "dirichlet")

Owners = NDArray[np.int64]


def owners_by_skew(
    matrix: Callable[[], NDArray[np.float64]],
    target: Target | None,
    n_parties: int,
    skew: str | None,
    rng: np.random.Generator,
    n_rows: int,
) -> Owners:
    """Return the party number of every row.

    Parameters
    ----------
    matrix : callable
        Gives the features as numbers; called only if the rule looks at them.
    target : Target or None
        Labels, needed for ``"dirichlet"``.
    n_parties : int
        Number of parties, at most the number of rows.
    skew : {None, "kmeans", "dirichlet"}
        The rule.
    rng : Generator
        Source of randomness.
    n_rows : int
        Number of rows.

    Returns
    -------
    owners : ndarray of int64 of shape (n_rows,)
        Every party from 0 to ``n_parties - 1`` occurs.
    """
    if skew == "kmeans":
        return by_cluster(matrix(), n_parties, rng)
    if skew == "dirichlet":
        return by_class_mixture(target, n_parties, rng)
    return evenly(n_rows, n_parties, rng)


def evenly(n_rows: int, n_parties: int, rng: np.random.Generator) -> Owners:
    """Deal the rows out at random; sizes differ by one at most."""
    owners = np.empty(n_rows, dtype=np.int64)
    for party, rows in enumerate(np.array_split(rng.permutation(n_rows), n_parties)):
        owners[rows] = party
    return owners


def by_cluster(matrix: NDArray[np.float64], n_parties: int, rng: np.random.Generator) -> Owners:
    """Give every party one k-means cluster of the standardised rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    clusters = KMeans(n_parties, n_init=3, random_state=int(rng.integers(2**31 - 1)))
    with warnings.catch_warnings():
        # Fewer distinct rows than parties is fine here: empty shares are filled up below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        owners = clusters.fit_predict(_standardised(matrix)).astype(np.int64)
    return _fill_up(owners, n_parties, 1, rng)


def by_class_mixture(target: Target | None, n_parties: int, rng: np.random.Generator) -> Owners:
    """Split every class by proportions of its own, drawn from a Dirichlet distribution."""
    if target is None:
        raise ParameterError(
            "skew='dirichlet' was asked for without labels.",
            "This rule splits the rows class by class.",
            "Pass y, or use skew=None or 'kmeans'.",
        )
    least = max(2, target.n_rows // (10 * n_parties))
    if least * n_parties > target.n_rows:
        raise ParameterError(
            f"parties={n_parties} with {target.n_rows} rows.",
            f"skew='dirichlet' gives every party at least {least} rows.",
            "Choose fewer parties.",
        )
    owners = np.empty(target.n_rows, dtype=np.int64)
    groups = _groups(target)
    for group in range(int(groups.max()) + 1):
        rows = rng.permutation(np.flatnonzero(groups == group))
        shares = rng.dirichlet(np.full(n_parties, _CONCENTRATION))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for party, part in enumerate(np.split(rows, cuts)):
            owners[part] = party
    return _fill_up(owners, n_parties, least, rng)


def _groups(target: Target) -> NDArray[np.int64]:
    """Return class codes, or the quartile of a numeric target."""
    if target.kind == "classes":
        return target.codes
    inner = np.linspace(0, 1, _QUANTILE_GROUPS + 1)[1:-1]
    return np.searchsorted(np.quantile(target.values, inner), target.values).astype(np.int64)


def _standardised(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns of mean 0 and spread 1, with the mean in place of missing values."""
    centred = np.nan_to_num(matrix - np.nanmean(matrix, axis=0))
    spread = centred.std(axis=0)
    scaled: NDArray[np.float64] = centred / np.where(spread > 0, spread, 1.0)
    return scaled


def _fill_up(owners: Owners, n_parties: int, least: int, rng: np.random.Generator) -> Owners:
    """Move rows from the largest shares to those that have fewer than ``least``."""
    owners = owners.copy()
    sizes = np.bincount(owners, minlength=n_parties)
    while sizes.min() < least:
        poor, rich = int(sizes.argmin()), int(sizes.argmax())
        n_moved = min(least - sizes[poor], sizes[rich] - least)
        moved = rng.choice(np.flatnonzero(owners == rich), size=n_moved, replace=False)
        owners[moved] = poor
        sizes = np.bincount(owners, minlength=n_parties)
    return owners
