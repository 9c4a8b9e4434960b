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

Trust on first use: where the catalog has no checksum of a set, the first fetch from OpenML records
one beside the cached file, and every later load must match it. Where the catalog has one, the fetch
itself must match.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.data.archive import Arrays, content_digest, read_arrays
from fedsift.data.catalog_facts import FACTS, DatasetInfo
from fedsift.data.wording import did_you_mean, in_reading_order, plain_text
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


# Per connection attempt; the fetcher makes a few attempts.
TIMEOUT_SECONDS = 5.0

_log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return ``FEDSIFT_CACHE``, or ``fedsift`` in the user's cache directory."""
    own = os.environ.get("FEDSIFT_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedsift"


def cache_path(info: DatasetInfo) -> Path:
    """Return where a fetched set is kept."""
    return cache_directory() / f"{info.name}.npz"


def from_cache(info: DatasetInfo) -> Arrays | None:
    """Return a set that was fetched before, after checking it, or None."""
    path = cache_path(info)
    if not path.is_file():
        return None
    arrays = read_arrays(path)
    recorded = _digest_path(path)
    expected = info.sha256 or (recorded.read_text().strip() if recorded.is_file() else None)
    if expected is None or content_digest(arrays) != expected:
        raise FileProblem(
            f"The cached data set {info.name!r} does not match its recorded checksum.",
            "A cached set must be what was first fetched.",
            f"Delete {path.name!r} and {recorded.name!r} in {str(path.parent)!r}, then load again.",
        )
    return arrays


def from_openml(info: DatasetInfo) -> Arrays:
    """Fetch a set, check it against the catalog, and put it into the cache.

    Parameters
    ----------
    info : DatasetInfo
        Facts with an OpenML number.

    Returns
    -------
    arrays : dict of str to ndarray
        ``X``, ``y``, ``classes`` and ``feature_names``.
    """
    arrays = _fetch(info)
    if arrays["X"].shape != (info.n_rows, info.n_features):
        raise FileProblem(
            f"OpenML's data set {info.openml_id} has the shape {arrays['X'].shape}.",
            f"{info.name!r} has the shape {(info.n_rows, info.n_features)}.",
            "Set FEDSIFT_DATA to a directory that has the right file.",
        )
    if info.sha256 is not None and content_digest(arrays) != info.sha256:
        raise FileProblem(
            f"OpenML's data set {info.openml_id} does not have the catalogued checksum.",
            f"{info.name!r} must be exactly the set the catalog describes.",
            "Set FEDSIFT_DATA to a directory that has the right file.",
        )
    _store(info, arrays)
    return arrays


def _fetch(info: DatasetInfo) -> Arrays:
    from sklearn.datasets import fetch_openml

    try:
        with _network_timeout(TIMEOUT_SECONDS), warnings.catch_warnings():
            # The fetcher warns before its one repetition; our error says all there is to say.
            warnings.simplefilter("ignore")
            bunch = fetch_openml(
                data_id=info.openml_id,
                as_frame=False,
                parser="liac-arff",
                cache=False,
                n_retries=1,
                delay=0.2,
            )
    except (OSError, ValueError) as error:
        raise FileProblem(
            f"Data set {info.name!r} could not be fetched from OpenML "
            f"(number {info.openml_id}, {type(error).__name__}).",
            f"A network connection that answers within {TIMEOUT_SECONDS:.0f} seconds is needed.",
            f"Set FEDSIFT_DATA to a directory that has {info.name}.npz, or try again.",
        ) from None
    return _arrays_of(bunch)


def _arrays_of(bunch: Any) -> Arrays:
    labels = [plain_text(label) for label in bunch.target]
    classes = in_reading_order(labels)
    code = {text: number for number, text in enumerate(classes)}
    return {
        "X": np.asarray(bunch.data, dtype=np.float64),
        "y": np.array([code[label] for label in labels], dtype=np.int16),
        "classes": np.array(classes, dtype=np.str_),
        "feature_names": np.array([str(name) for name in bunch.feature_names], dtype=np.str_),
    }


@contextmanager
def _network_timeout(seconds: float) -> Iterator[None]:
    """Limit every connection; scikit-learn's fetcher has no timeout of its own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _store(info: DatasetInfo, arrays: Arrays) -> None:
    """Write data and checksum; a cache that cannot be written is no reason to fail."""
    path = cache_path(info)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Checksum first: a file without one would be refused at the next load.
        _digest_path(path).write_text(content_digest(arrays) + "\n")
        # A finished file appears at once, so a second process never reads half of it.
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as part:
            np.savez_compressed(part, **arrays)  # type: ignore[arg-type]
        Path(part.name).replace(path)
    except OSError as error:
        _log.warning("cannot cache data set %s: %s", info.name, type(error).__name__)


def _digest_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
