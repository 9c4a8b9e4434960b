# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Named data sets: which there are, and how to load one.

`load` looks for a set in this order:

1. among the files shipped with fedsift (checked against their checksums);
2. as ``<name>.npz`` in the directory named by the environment variable ``FEDSIFT_DATA`` (checked
   against ``SHA256SUMS`` there, if it exists);
3. in the cache (``FEDSIFT_CACHE``, or ``fedsift`` in the user's cache directory);
4. at OpenML, if the catalog knows the set's number there and the network answers. The content
   must match the catalogued checksum; where none is catalogued, the first fetch records one
   (trust on first use) and later loads must match it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.data.archive import Arrays, read_arrays
from fedsift.data.catalog_facts import FACTS, DatasetInfo
from fedsift.data.openml import cache_path, from_cache, from_openml
from fedsift.data.wording import did_you_mean
from fedsift.errors import FileProblem, UnknownDataset

__all__ = ["Dataset", "DatasetInfo", "info", "is_available", "load", "names"]

_SHIPPED = Path(__file__).parent / "shipped"
_KNOWN_ARRAYS = ("X", "y", "classes", "feature_names")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A loaded data set.

    Parameters
    ----------
    X : ndarray of float64 or DataFrame of shape (n_rows, n_features)
        Features.
    y : ndarray of int64 of shape (n_rows,)
        Class codes.
    feature_names : tuple of str
        Column names; ``x0``, ``x1``, ... where the set has none.
    classes : tuple of str
        Meaning of the codes.
    extras : dict of str to ndarray
        Whatever else the file holds, e.g. the truly relevant columns.
    info : DatasetInfo
        Facts about the set.
    """

    X: Any
    y: Any
    feature_names: tuple[str, ...]
    classes: tuple[str, ...]
    extras: dict[str, Any]
    info: DatasetInfo

    def __repr__(self) -> str:
        return f"Dataset({self.info.name!r}, {self.X.shape[0]} rows x {self.X.shape[1]} features)"


def names() -> tuple[str, ...]:
    """Return the names of all known data sets, sorted."""
    return tuple(FACTS)


def info(name: str) -> DatasetInfo:
    """Return the facts about one data set."""
    if name not in FACTS:
        raise UnknownDataset(
            f"There is no data set {name!r}.",
            f"It must be one of the {len(FACTS)} sets in the catalog.",
            did_you_mean(name, names(), what="sets"),
        )
    return FACTS[name]


def is_available(name: str) -> bool:
    """Return whether there is a file of the set on this machine; its content is not checked."""
    facts = info(name)
    directory = _data_directory()
    on_disk = directory is not None and (directory / f"{name}.npz").is_file()
    return facts.shipped or on_disk or cache_path(facts).is_file()


def load(name: str, *, as_frame: bool = False) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        One of `names`.
    as_frame : bool
        Return ``X`` as a pandas data frame.

    Returns
    -------
    dataset : Dataset
        Features, labels and facts.

    Examples
    --------
    >>> load("wine")
    Dataset('wine', 178 rows x 13 features)
    """
    facts = info(name)
    arrays = _find(facts)
    X: Any = arrays["X"].astype(np.float64)
    columns = arrays.get("feature_names")
    labels = arrays.get("classes", np.unique(arrays["y"]))
    feature_names = tuple(
        str(column) for column in (columns if columns is not None else _numbered(X.shape[1]))
    )
    if as_frame:
        import pandas as pd

        X = pd.DataFrame(X, columns=list(feature_names))
    return Dataset(
        X=X,
        y=arrays["y"].astype(np.int64),
        feature_names=feature_names,
        classes=tuple(str(label) for label in labels),
        extras={k: v for k, v in arrays.items() if k not in _KNOWN_ARRAYS},
        info=facts,
    )


def _find(facts: DatasetInfo) -> Arrays:
    if facts.shipped:
        return read_arrays(_SHIPPED / f"{facts.name}.npz")
    directory = _data_directory()
    if directory is not None and (directory / f"{facts.name}.npz").exists():
        return read_arrays(directory / f"{facts.name}.npz")
    cached = from_cache(facts)
    if cached is not None:
        return cached
    if facts.openml_id is not None:
        return from_openml(facts)
    tried = "FEDSIFT_DATA is not set" if directory is None else "it is not in FEDSIFT_DATA"
    raise FileProblem(
        f"Data set {facts.name!r} does not come with fedsift, {tried}, and it is not known to be "
        "at OpenML.",
        f"A file {facts.name}.npz with the arrays X, y and classes is needed.",
        "Put it into a directory and set FEDSIFT_DATA to that directory.",
    )


def _data_directory() -> Path | None:
    given = os.environ.get("FEDSIFT_DATA")
    return Path(given).expanduser() if given else None


def _numbered(n_features: int) -> list[str]:
    return [f"x{index}" for index in range(n_features)]
