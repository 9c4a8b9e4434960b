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

Sizes are those of the files fedsift reads, which sometimes differ from what a paper prints; the
``note`` says where. An OpenML number is given only where that set has the same shape.
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
from typing import Any, Literal

import numpy as np

from fedsift.config.toml import did_you_mean
from fedsift.data.archive import Arrays, content_digest, read_arrays
from fedsift.data.sources import in_reading_order, plain_text, shortened
from fedsift.errors import FileProblem, UnknownDataset

__all__ = ["Dataset", "DatasetInfo", "info", "is_available", "load", "names"]
_SHIPPED = Path(__file__).parent / "shipped"
_KNOWN_ARRAYS = ("X", "y", "classes", "feature_names")
# Per connection attempt; the fetcher makes a few attempts.
TIMEOUT_SECONDS = 5.0
_log = logging.getLogger(__name__)


FEDSDG, INTERACTION, VFPS, DCFS, FPSO = "FedSDG-FS", "Interaction FS", "VF-PS", "DCFS", "FPSO-FS"

_UCI = "CC BY 4.0"
_UNKNOWN = "not stated; research use"
_RESEARCH = "research use"
_CITE = "free with citation"
_OWN = "none needed (generated)"
_ASU = "ASU feature selection collection"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about one data set.

    Parameters
    ----------
    name : str
        Name to load it by.
    n_rows, n_features, n_classes : int
        Size.
    task : {"classification", "regression"}
        What the labels are for.
    origin : str
        Where it comes from.
    licence : str
        Terms, as far as known.
    shipped : bool
        Whether the file comes with fedsift.
    papers : tuple of str
        Methods whose papers use it.
    openml_id : int or None
        Number of the same set at OpenML; a number stands for one fixed version.
    sha256 : str or None
        Checksum of the content fetched from OpenML; None if it was never recorded.
    note : str
        What to know before comparing with a paper.
    """

    name: str
    n_rows: int
    n_features: int
    n_classes: int
    task: Literal["classification", "regression"]
    origin: str
    licence: str
    shipped: bool = False
    papers: tuple[str, ...] = ()
    openml_id: int | None = None
    sha256: str | None = None
    note: str = ""


def _set(
    name: str,
    size: tuple[int, int, int],
    origin: str,
    licence: str,
    paper: str | None,
    note: str = "",
    *,
    shipped: bool = False,
    openml_id: int | None = None,
) -> DatasetInfo:
    return DatasetInfo(
        name, *size, "classification", origin, licence, shipped,
        () if paper is None else (paper,), openml_id, None, note,
    )  # fmt: skip


_SETS = (
    _set("madelon", (2600, 500, 2), f"NIPS 2003 challenge, {_ASU}", _UCI, FEDSDG,
         "All labelled rows of the challenge; `informative` lists the 20 relevant columns.",
         openml_id=1485),
    _set("friedman", (1000, 1000, 2), "generated with Friedman's first formula", _OWN, FEDSDG,
         "Classes are target above or below its median; `target` has the numbers, "
         "`informative` the five columns."),
    _set("arcene", (200, 10000, 2), f"NIPS 2003 challenge, {_ASU}", _UCI, FEDSDG,
         "Only the 200 labelled rows are public; 39 columns are constant.", openml_id=1458),
    _set("basehock", (1993, 4862, 2), f"20 Newsgroups, {_ASU}", _UNKNOWN, FEDSDG,
         "The paper prints 7,862 features, probably a slip."),
    _set("relathe", (1427, 4322, 2), f"20 Newsgroups, {_ASU}", _UNKNOWN, FEDSDG,
         "The paper prints more rows than the public set has."),
    _set("pcmac", (1943, 3289, 2), f"20 Newsgroups, {_ASU}", _UNKNOWN, FEDSDG,
         "One row more than the paper."),
    _set("gisette_like", (1000, 5000, 2), "made from the digits 4 and 9 of mnist5k",
         "CC BY-SA 3.0 (as MNIST)", FEDSDG,
         "A stand-in, not GISETTE itself; `informative` lists the true columns."),
    _set("coil20", (1440, 1024, 20), f"Columbia object images, {_ASU}", _RESEARCH, FEDSDG),
    _set("isolet", (1560, 617, 26), f"UCI spoken letters, {_ASU}", _UCI, FEDSDG,
         "The 1,560-row part of ISOLET."),
    _set("wine_white", (4898, 11, 7), "UCI wine quality (white)", _UCI, INTERACTION,
         "The class is the quality grade from 3 to 9; the best grade has 5 rows.", shipped=True),
    _set("synthesis", (1000, 50, 2), "generated: side of a random hyperplane", _OWN, VFPS,
         "The paper gives no generator; `hyperplane` has the weights."),
    _set("g2_4", (2048, 4, 2), "two Gaussians, clustering benchmark of Gagolewski", "CC BY 4.0",
         VFPS, "The paper does not say which spread it used; this one overlaps."),
    _set("g2_128", (2048, 128, 2), "two Gaussians, clustering benchmark of Gagolewski",
         "CC BY 4.0", VFPS, "Separable, as in the paper."),
    _set("bank", (3192, 8, 2), "Delve bank-8FM, two classes", _UNKNOWN, VFPS,
         "`split` is 0, 1, 2 for the usual training, validation and test rows."),
    _set("unbalance", (6500, 2, 8), "SIPU clustering sets", _CITE, VFPS),
    _set("letter", (20000, 16, 26), "UCI letter recognition (Statlog)", _UCI, VFPS, openml_id=6),
    _set("birch1", (100000, 2, 100), "SIPU clustering sets", _CITE, VFPS),
    _set("birch2", (100000, 2, 100), "SIPU clustering sets", _CITE, VFPS),
    _set("mnist5k", (5000, 784, 10), "MNIST, 500 images of each digit", "CC BY-SA 3.0", DCFS,
         "Not necessarily the rows of the paper; 121 pixels are constant."),
    _set("colon", (62, 2000, 2), f"Alon et al. 1999, {_ASU}", _UNKNOWN, DCFS,
         "Values are in three steps."),
    _set("tox171", (171, 5748, 4), _ASU, _UNKNOWN, DCFS),
    _set("lung", (203, 1543, 5), "Bhattacharjee et al. 2001, filtered by de Souto et al. 2008",
         _UNKNOWN, DCFS, "Another gene filter than the paper's 3,312 genes."),
    _set("lymphoma", (96, 4026, 9), f"Alizadeh et al. 2000, {_ASU}", _UNKNOWN, DCFS,
         "Values are in three steps; two classes have 2 rows."),
    _set("wine", (178, 13, 3), "UCI wine", _UCI, FPSO, shipped=True, openml_id=187),
    _set("vowel", (990, 13, 11), "UCI vowel recognition with context", _UCI, FPSO,
         "The first three columns are the usual split, the speaker and the sex."),
    _set("vehicle", (846, 18, 4), "UCI vehicle silhouettes (Statlog)", _UCI, FPSO, openml_id=54),
    _set("segmentation", (2310, 19, 7), "UCI image segmentation", _UCI, FPSO,
         "One column is constant.", openml_id=36),
    _set("ionosphere", (351, 34, 2), "UCI ionosphere", _UCI, FPSO, "One column is constant.",
         openml_id=59),
    _set("satellite", (6435, 36, 6), "UCI Landsat satellite (Statlog)", _UCI, FPSO,
         "All rows; the paper uses 856."),
    _set("sonar", (208, 60, 2), "UCI sonar, mines and rocks", _UCI, FPSO, openml_id=40),
    _set("hill_valley", (606, 100, 2), "UCI hill-valley with noise", _UCI, FPSO,
         "The first 606 of 1,212 rows."),
    _set("hill_valley_clean", (606, 100, 2), "UCI hill-valley without noise", _UCI, FPSO,
         "An alternative to hill_valley."),
    _set("musk1", (476, 166, 2), "UCI musk, version 1", _UCI, FPSO),
    _set("dna", (3186, 180, 3), "UCI splice junctions (Statlog)", _UCI, FPSO,
         "All rows; the paper uses 2,000.", openml_id=40670),
    _set("lsvt", (126, 310, 2), "UCI LSVT voice rehabilitation", _UCI, FPSO, openml_id=1484),
    _set("cnae9", (1080, 856, 9), "UCI CNAE-9", _UCI, FPSO,
         "The full set; the paper uses two parts of it.", openml_id=1468),
    _set("yale", (165, 1024, 15), f"Yale faces, {_ASU}", _RESEARCH, FPSO, "Images of 32 x 32."),
    _set("orl", (400, 1024, 40), f"AT&T (ORL) faces, {_ASU}", _RESEARCH, FPSO,
         "Images of 32 x 32."),
    _set("breast_cancer", (569, 30, 2), "UCI breast cancer Wisconsin (diagnostic)", _UCI, None,
         shipped=True),
)  # fmt: skip

FACTS: dict[str, DatasetInfo] = {entry.name: entry for entry in sorted(_SETS, key=lambda s: s.name)}


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
            did_you_mean(name, names(), f"Known sets: {shortened(names())}."),
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
