# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Selectors of other packages on pooled data: the reference that needs no privacy.

scikit-learn's filters are always there. The others are looked for when they are named: Boruta,
LassoNet and Feature-engine (for mRMR) come with ``pip install 'fedsift[peers]'``; ``stg`` needs
``pip install --no-deps stg six`` and old names put back, which is done here; ``mrmr_selection``
calls itself GPL in its metadata and MIT in its licence file, so no extra has it.
"""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import importlib
import io
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.config.toml import did_you_mean
from fedsift.errors import MissingPackage, ParameterError
from fedsift.lab.compare.cases import Floats, Mask, PooledData
from fedsift.lab.compare.judge import filled, fit_quietly

_EPOCHS = 100
_CLIP = 5.0


@dataclass(frozen=True)
class TrainingRows:
    """What a peer is given.

    Parameters
    ----------
    X : ndarray
        Columns as :func:`filled` leaves them.
    y : ndarray
        Codes of classes, or numbers.
    is_classes : bool
    seed : int
    wanted : int
        Columns that will be kept; a ranking need not go further.
    """

    X: Floats
    y: npt.NDArray[Any]
    is_classes: bool
    seed: int
    wanted: int


@dataclass(frozen=True)
class Peer:
    """A selector of another package.

    Parameters
    ----------
    name : str
        As in compare files.
    package : str
        What to install, as PyPI calls it.
    module : str
        What to import.
    scores : callable
        From training data to one number per column, higher is better; columns that the package
        itself would leave out have ``-inf`` if it decides the number.
    counts : bool
        Whether a number of features has to be given.
    """

    name: str
    package: str
    module: str
    scores: Callable[[TrainingRows], Floats]
    counts: bool = True


def peer_named(name: str) -> Peer:
    """Look a peer up."""
    for peer in PEERS:
        if peer.name == name:
            return peer
    names = [peer.name for peer in PEERS]
    raise ParameterError(
        f"There is no peer {name!r}.",
        f"Known peers: {', '.join(names)}.",
        did_you_mean(name, names, "Choose one of these."),
    )


def need(peer: Peer) -> None:
    """Refuse a peer whose package is not there."""
    try:
        _imported(peer.module)
    except ImportError as error:
        missing = getattr(error, "name", None) or peer.module
        raise MissingPackage(
            f"The peer {peer.name!r} needs the package {peer.package}; {missing!r} is not there.",
            "Peers are optional and come with other licences.",
            f"Install it with: pip install {peer.package}",
        ) from error


def missing_package(peer: Peer) -> str:
    """What is not there, in a sentence, or nothing."""
    try:
        need(peer)
    except MissingPackage as error:
        return f"{error.found} {error.action}"
    return ""


def peer_selection(
    name: str, pooled: PooledData, rows: Any, labels: Any, wanted: int, seed: int
) -> Mask:
    """Features that a peer selects from pooled training rows.

    Parameters
    ----------
    name : str
    pooled : PooledData
    rows : ndarray of int
        Training rows.
    labels : ndarray
        Their labels, true or shuffled.
    wanted : int
        Number of features, where the peer does not decide it.
    seed : int
    """
    peer = peer_named(name)
    need(peer)
    assert pooled.target is not None  # noqa: S101 - peers are not run without labels
    is_classes = pooled.target.kind == "classes"
    training = TrainingRows(filled(pooled.X[rows]), labels, is_classes, seed, wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what others deprecate is not for our users to mend
        columns = peer.scores(training)
    scores = np.full(pooled.n_features, -np.inf)
    np.maximum.at(scores, pooled.feature_of, np.nan_to_num(columns, nan=-np.inf))
    chosen = np.argsort(-scores, kind="stable")
    limit = min(wanted, pooled.n_features) if peer.counts else int(np.isfinite(scores).sum())
    mask = np.zeros(pooled.n_features, dtype=bool)
    mask[chosen[: max(1, limit)]] = True
    return mask


def _f(given: TrainingRows) -> Floats:
    from sklearn.feature_selection import f_classif, f_regression

    return np.asarray((f_classif if given.is_classes else f_regression)(given.X, given.y)[0])


def _mi(given: TrainingRows) -> Floats:
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    measure = mutual_info_classif if given.is_classes else mutual_info_regression
    return np.asarray(measure(given.X, given.y, random_state=given.seed))


def _chi2(given: TrainingRows) -> Floats:
    from sklearn.feature_selection import chi2

    low, high = given.X.min(axis=0), given.X.max(axis=0)
    unit = (given.X - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(chi2(unit, given.y if given.is_classes else _quartiles(given.y))[0])


def _variance(given: TrainingRows) -> Floats:
    from sklearn.feature_selection import VarianceThreshold

    # Columns come scaled, so only constant ones differ; ranges tell the others apart.
    threshold = VarianceThreshold().fit(given.X / np.maximum(np.ptp(given.X, axis=0), 1e-12))
    return np.asarray(threshold.variances_)


def _boruta(given: TrainingRows) -> Floats:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    boruta, seed = _imported("boruta"), given.seed
    forest = RandomForestClassifier if given.is_classes else RandomForestRegressor
    judge = forest(max_depth=5, random_state=seed)
    search = boruta.BorutaPy(judge, n_estimators=50, max_iter=25, random_state=seed)
    # Confirmed features have rank 1, tentative ones 2; the rest is rejected.
    ranks = np.asarray(search.fit(given.X, given.y).ranking_, dtype=np.float64)
    return np.where(ranks <= 2, -ranks, -np.inf)


def _mrmr(given: TrainingRows) -> Floats:
    """Feature-engine says which columns it chose, not in which order; relevance orders the rest."""
    frame, places = _moving(given.X)
    scores = np.full(given.X.shape[1], -np.inf)
    if len(places) < 2:
        scores[places] = 0.0
        return scores
    search = _imported("feature_engine.selection").MRMR(
        method="FCQ",
        max_features=max(1, min(given.wanted, len(places) - 1)),
        regression=not given.is_classes,
    )
    search.fit(frame, given.y)
    dropped = set(search.features_to_drop_)
    chosen = np.array([name not in dropped for name in frame])
    # Relevance is an F statistic, which a perfect column makes infinite.
    order = np.argsort(np.argsort(search.relevance_, kind="stable"), kind="stable")
    scores[places] = order + len(places) * chosen
    return scores


def _mrmr_selection(given: TrainingRows) -> Floats:
    import pandas as pd

    mrmr = _imported("mrmr")
    measure = mrmr.mrmr_classif if given.is_classes else mrmr.mrmr_regression
    frame, places = _moving(given.X)
    most = min(given.wanted, len(places))
    order = measure(frame, pd.Series(given.y), K=most, n_jobs=1, show_progress=False)
    scores = np.full(given.X.shape[1], -np.inf)
    for place, column in enumerate(order):
        scores[int(column[1:])] = -place
    return scores


def _moving(X: Floats) -> tuple[Any, npt.NDArray[np.intp]]:
    """Columns that vary, as a frame, and their places; both packages divide by the spread."""
    import pandas as pd

    places = np.flatnonzero(np.ptp(X, axis=0) > 0)
    return pd.DataFrame(X[:, places], columns=[f"x{i}" for i in places]), places


def _lassonet(given: TrainingRows) -> Floats:
    lassonet = _imported("lassonet")
    kind = lassonet.LassoNetClassifier if given.is_classes else lassonet.LassoNetRegressor
    # A coarse path: the order in which features leave it is all that counts.
    model = kind(
        hidden_dims=(32,),
        n_iters=(_EPOCHS, 5),
        path_multiplier=1.2,
        random_state=given.seed,
        torch_seed=given.seed,
        verbose=0,
    )
    y = given.y if given.is_classes else given.y.astype(np.float32)
    model.path(given.X.astype(np.float32), y)
    return np.asarray(model.feature_importances_.numpy(), dtype=np.float64)


def _stg(given: TrainingRows) -> Floats:
    import torch

    seed, is_classes = given.seed, given.is_classes
    torch.manual_seed(seed)
    # The package draws from numpy's global generator.
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    rows = np.random.default_rng(seed).permutation(len(given.X))
    check, fit = rows[: len(rows) // 5], rows[len(rows) // 5 :]
    X = np.clip(given.X, -_CLIP, _CLIP).astype(np.float32)
    # Numbers as a column: against a flat vector its loss would compare every row with every other.
    y = given.y.astype(np.int64) if is_classes else given.y.astype(np.float32)[:, None]
    model = _imported("stg").STG(
        task_type="classification" if is_classes else "regression",
        input_dim=X.shape[1],
        output_dim=int(y.max()) + 1 if is_classes else 1,
        hidden_dims=[64, 16],
        activation="relu",
        optimizer="Adam",
        learning_rate=1e-2,
        batch_size=128,
        feature_selection=True,
        sigma=0.5,
        lam=1.0,
        random_state=seed,
        device="cpu",
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            model.fit(
                X[fit],
                y[fit],
                nr_epochs=_EPOCHS,
                valid_X=X[check],
                valid_y=y[check],
                print_interval=_EPOCHS,
            )
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return np.asarray(model.get_gates(mode="raw"), dtype=np.float64)


def _forest(given: TrainingRows) -> Floats:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    forest = RandomForestClassifier if given.is_classes else RandomForestRegressor
    fitted = fit_quietly(forest(random_state=given.seed), given.X, given.y)
    return np.asarray(fitted.feature_importances_)


def _quartiles(y: Any) -> Any:
    return np.searchsorted(np.quantile(y, (0.25, 0.5, 0.75)), y)


def _imported(module: str) -> Any:
    if module == "stg":
        return _old_stg()
    return importlib.import_module(module)


def _old_stg() -> Any:
    """``stg`` with the names it misses put back, and its optional imports left out."""
    gone = ("Sequence", "Mapping", "Set", "Iterable", "MutableMapping")
    for name in gone:
        if not hasattr(collections, name):
            # It imports from ``collections`` what moved to ``collections.abc`` in Python 3.10.
            setattr(collections, name, getattr(collections.abc, name))
    for missing in ("h5py", "lifelines", "lifelines.utils"):
        # Imported for survival analysis and for files, neither of which is used here.
        with contextlib.suppress(ImportError):
            importlib.import_module(missing)
            continue
        sys.modules.setdefault(missing, types.ModuleType(missing))
    if not hasattr(sys.modules["lifelines.utils"], "concordance_index"):
        sys.modules["lifelines.utils"].__dict__["concordance_index"] = None
    return importlib.import_module("stg")


PEERS = (
    Peer("sklearn-f", "scikit-learn", "sklearn", _f),
    Peer("sklearn-mi", "scikit-learn", "sklearn", _mi),
    Peer("sklearn-chi2", "scikit-learn", "sklearn", _chi2),
    Peer("sklearn-variance", "scikit-learn", "sklearn", _variance),
    Peer("sklearn-forest", "scikit-learn", "sklearn", _forest),
    Peer("stg", "stg", "stg", _stg),
    Peer("lassonet", "lassonet", "lassonet", _lassonet),
    Peer("boruta", "Boruta", "boruta", _boruta, counts=False),
    Peer("mrmr", "feature-engine", "feature_engine.selection", _mrmr),
    Peer("mrmr-selection", "mrmr_selection", "mrmr", _mrmr_selection),
)
