"""The centralised peer of FedSDG-FS on MADELON: the package ``stg``, all columns in one place.

``stg`` is not a dependency and does not run on Python 3.10 or later as it is: it imports names that
moved from ``collections`` to ``collections.abc``. Install it beside fedsift and run

    pip install --no-deps stg six
    python -m benchmarks.suites.fedsdg.stg --out benchmarks/fedsdg_stg.json

Same test rows as ``fedsift bench fedsdg``; penalty and learning rate are chosen on validation rows
taken from the training rows. Results are written after every seed.
"""

import argparse
import collections
import collections.abc
import contextlib
import io
import json
import sys
import time
import types
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from benchmarks.store import machine_facts
from benchmarks.suites.fedsdg.accuracy import load
from benchmarks.suites.fedsdg.suite import FIRST_SEED

GRID = [(lam, 1e-2) for lam in (1.0, 3.0)]
EPOCHS = 100


def import_stg():
    """``stg`` with the names it misses put back, and its optional imports left out."""
    for name in ("Sequence", "Mapping", "Set", "Iterable", "MutableMapping"):
        setattr(collections, name, getattr(collections.abc, name))
    # Imported for survival analysis and for files, neither of which is used here.
    for missing in ("h5py", "lifelines", "lifelines.utils"):
        sys.modules.setdefault(missing, types.ModuleType(missing))
    sys.modules["lifelines.utils"].concordance_index = None
    from stg import STG

    return STG


def fitted(stg, X, y, validation, lam, rate, seed):
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the package draws from the global generator
    model = stg(
        task_type="classification",
        input_dim=X.shape[1],
        output_dim=2,
        hidden_dims=[100, 16],
        activation="relu",
        optimizer="Adam",
        learning_rate=rate,
        batch_size=128,
        feature_selection=True,
        sigma=0.5,
        lam=lam,
        random_state=seed,
        device="cpu",
    )
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit(
            X,
            y,
            nr_epochs=EPOCHS,
            valid_X=validation[0],
            valid_y=validation[1],
            print_interval=EPOCHS,
        )
    return model


def accuracy(model, X, y):
    return float((np.asarray(model.predict(X)) == y).mean())


def one_seed(stg, seed, quick):
    X, y, informative = load("madelon")
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y)
    fit, check = train_test_split(train, test_size=0.2, random_state=seed, stratify=y[train])
    mean, spread = X[fit].mean(axis=0), X[fit].std(axis=0)
    Z = np.clip((X - mean) / spread, -5, 5).astype(np.float32)
    start, best = time.perf_counter(), None
    for lam, rate in GRID[-1:] if quick else GRID:
        model = fitted(stg, Z[fit], y[fit], (Z[check], y[check]), lam, rate, seed)
        judged = accuracy(model, Z[check], y[check])
        if best is None or judged > best[0]:
            best = judged, lam, rate, model
    judged, lam, rate, model = best
    chosen = np.flatnonzero(np.asarray(model.get_gates(mode="raw")) > -0.5)
    return {
        "seed": seed,
        "lam": lam,
        "learning_rate": rate,
        "validation": judged,
        "score": accuracy(model, Z[test], y[test]),
        "n_features": len(chosen),
        "found": int(np.isin(chosen, informative).sum()),
        "seconds": time.perf_counter() - start,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one setting only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    peer = import_stg()
    seeds = []
    for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
        seeds.append(one_seed(peer, seed, options.quick))
        print(seeds[-1], flush=True)
        scores = [s["score"] for s in seeds]
        error = float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else 0.0
        outcome = {
            "version": metadata.version("stg"),
            "data": "madelon",
            "grid": GRID,
            "epochs": EPOCHS,
            "seeds": seeds,
            "mean": float(np.mean(scores)),
            "standard_error": error,
            "machine": machine_facts(),
        }
        options.out.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
