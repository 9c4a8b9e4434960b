# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The blind protocol on one split, with the integers of the protocol in one place.

Shares add up to the numbers of :class:`OpenLayer`, to one unit per shortened number (tests of the
protocol show it); so what is selected can be measured without shares, many times as fast. Every
client encodes and scales its own columns, as in the protocol.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.baselines.fedsdg import PAPER
from benchmarks.runner import use_one_thread_each
from benchmarks.store import machine_facts, write
from benchmarks.suites.fedsdg.accuracy import load, rows_inside, rows_of, split
from fedsift.data import Federation
from fedsift.data.table import PartyTable
from fedsift.engine import run_local
from fedsift.errors import FedsiftError
from fedsift.methods.fedsdg.blind import label_holder as blind
from fedsift.methods.fedsdg.blind.numbers import input_integers, input_scale, secret_factors
from fedsift.methods.fedsdg.blind.open_layer import OpenLayer
from fedsift.methods.fedsdg.blind.settings import blind_params_for
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.selector import FedSDGSelector

JUDGES = ("5-NN", "logistic", "trees")
_MOST_CLASSES = 4


class OpenHolder(blind.BlindLabelHolder):
    """A label holder with everybody's columns, each client's encoded and scaled apart."""

    def __init__(self, federation: Federation, params: Any) -> None:
        self._clients = list(federation.tables.values())
        columns = tuple(column for table in self._clients for column in table.columns)
        whole = PartyTable(federation.label_holder, columns)
        n_parties = len(self._clients)
        super().__init__(federation.label_holder, whole, federation.target, params, n_parties)

    def _prepare_own(self) -> None:
        encoders = [InputEncoder.fit(table, self._train_rows) for table in self._clients]
        self._scales = []
        parts = []
        for encoder, table in zip(encoders, self._clients, strict=True):
            inputs = encoder.transform(table)
            self._scales.append(
                input_scale(inputs[self._train_rows], self._n_parties, self._params.batch_size)
            )
            parts.append(input_integers(inputs, self._scales[-1]))
        self._encoders = encoders
        self._own_encoder = InputEncoder(tuple(r for one in encoders for r in one._recipes))
        self._own_inputs = np.concatenate(parts, axis=1)

    def _alone(self, widths: Mapping[str, Any]) -> OpenLayer:
        """The layer, whose sums have secret factors as those of several parties have."""
        layer = super()._alone(widths)
        openings = itertools.count(1)

        def factors(n_features: int) -> np.ndarray:
            drawn = secret_factors(self._params.seed, "all", next(openings), n_features)
            return drawn.astype(np.float64)

        layer.factors = factors
        return layer

    def predict(self, federation: Federation) -> np.ndarray:
        """Outputs for new rows, (n_outputs, n_rows)."""
        layer, phase = self._layer, self._training_phase
        assert isinstance(layer, OpenLayer)
        parts = [
            input_integers(encoder.transform(federation.tables[table.name]), scale)
            for encoder, table, scale in zip(
                self._encoders, self._clients, self._scales, strict=True
            )
        ]
        layer._inputs = np.concatenate(parts, axis=1).astype(np.float64)
        rows = np.arange(len(layer._inputs))
        outputs = layer.outputs(rows, phase.final_gates())
        outputs = outputs / 2.0**self._params.scales.outputs
        found = outputs * np.array(self._spread)[:, None] + np.array(self._mean)[:, None]
        if len(found) == 1 and self._target.kind == "classes":
            found = np.concatenate([1.0 - found, found])
        weights = self._class_weights()
        return found * np.array(weights)[:, None] if weights else found


def train_openly(federation: Federation, settings: Mapping[str, Any]) -> OpenHolder:
    """One training, with its selection."""
    selector = FedSDGSelector(protocol="blind", security="plain", **settings)
    holder = OpenHolder(federation, blind_params_for(selector, federation, simulated=True))
    run_local(blind.PROTOCOL, {federation.label_holder: (holder,)}, protected=False)
    return holder


def one_split(job: Mapping[str, Any]) -> dict[str, Any]:
    """Selections on one split, judged on its test rows by classifiers that see nothing else."""
    X, y, informative = load(job["data"])
    inside = job.get("inside", False)
    train, test = rows_inside(y, job["seed"]) if inside else rows_of(y, job["seed"])
    found: dict[str, Any] = {}
    for name, settings in job["methods"].items():
        settings = dict(settings)
        training, testing = split(X, y, job["seed"], settings.pop("clients", 2), inside=inside)
        settings["random_state"] = job["seed"]
        start = time.perf_counter()
        run = _in_paper if settings.pop("protocol", "blind") == "paper" else _openly
        chosen, network, opening = run(training, testing, settings)
        found[name] = {
            "network": network,
            "n_features": len(chosen),
            "seconds": time.perf_counter() - start,
            "opening": opening,
            **judge(X[:, chosen], y, train, test, _affordable(y, job.get("judges", JUDGES))),
        }
        if informative is not None:
            hits = np.isin(chosen, informative)
            found[name]["precision"] = float(hits.mean())
            found[name]["found"] = int(hits.sum())
    if job.get("all", False):
        # Trees on thousands of columns take longer than everything else together.
        quick = tuple(name for name in job.get("judges", JUDGES) if name != "trees")
        found["all"] = {"n_features": X.shape[1], **judge(X, y, train, test, quick)}
    return {"data": job["data"], "seed": job["seed"], "shape": list(X.shape), "methods": found}


def _openly(
    training: Federation, testing: Federation, settings: Mapping[str, Any]
) -> tuple[Any, float, int]:
    """Selected columns, the network's score, and the opening that was chosen."""
    holder = train_openly(training, settings)
    chosen = np.flatnonzero(training.original_support(_by_party(holder, training)))
    state = holder._training_phase.chosen
    return chosen, _network_score(holder, testing), -1 if state is None else state.number


def _in_paper(
    training: Federation, testing: Federation, settings: Mapping[str, Any]
) -> tuple[Any, float, int]:
    """The same of the protocol of the paper."""
    selector = FedSDGSelector(**PAPER | {"security": "plain", **settings}).fit(training)
    return np.flatnonzero(selector.support_), float(selector.score(testing)), -1


def _affordable(y: Any, judges: tuple[str, ...]) -> tuple[str, ...]:
    """Without trees where many classes make them take longer than everything else together."""
    many = y.dtype.kind != "f" and len(np.unique(y)) > _MOST_CLASSES
    return tuple(name for name in judges if name != "trees" or not many)


def judge(
    X: Any, y: Any, train: Any, test: Any, judges: tuple[str, ...] = JUDGES
) -> dict[str, float]:
    """Scores on test rows of classifiers fitted on training rows with these columns."""
    return {
        name: float(_judge(name, y).fit(X[train], y[train]).score(X[test], y[test]))
        for name in judges
    }


def _judge(name: str, y: Any) -> Any:
    numeric = y.dtype.kind == "f"
    if name == "5-NN":
        model = KNeighborsRegressor(5) if numeric else KNeighborsClassifier(5)
        return make_pipeline(StandardScaler(), model)
    if name == "logistic":
        model = Ridge() if numeric else LogisticRegression(max_iter=1000)
        return make_pipeline(StandardScaler(), model)
    few = {"random_state": 0, "max_iter": 30}
    return (
        HistGradientBoostingRegressor(**few) if numeric else HistGradientBoostingClassifier(**few)
    )


def _by_party(holder: OpenHolder, federation: Federation) -> dict[str, list[str]]:
    chosen = set(holder.facts()["selected"])
    return {
        party: [name for name in table.feature_names if name in chosen]
        for party, table in federation.tables.items()
    }


def _network_score(holder: OpenHolder, federation: Federation) -> float:
    outputs = holder.predict(federation)
    target = federation.target
    if target.kind != "classes":
        y = np.asarray(target.values, dtype=np.float64)
        return float(1.0 - ((outputs[0] - y) ** 2).mean() / y.var())
    return float((outputs.argmax(axis=0) == target.codes).mean())


FIRST_SEED = 10
LAST_SEED = 60
"""Splits that were run once, after everything was chosen."""

_SETS = ("madelon", "friedman", "coil20", "isolet", "arcene", "pcmac", "relathe", "basehock")
_ALSO = {
    "madelon": {"5 clients": {"clients": 5}},
    "isolet": {
        "10 %": {"n_features_to_select": 61},
        "40 %": {"n_features_to_select": 246},
    },
    "coil20": {"10 %": {"n_features_to_select": 102}},
    "arcene": {"10 %": {"n_features_to_select": 1000}},
}
_VARIED = {
    "constant start": {"init": "constant"},
    "sigma 0.25": {"sigma": 0.25},
    "sigma 1": {"sigma": 1.0},
    "half the rate": {"layer_learning_rate": 0.15},
    "twice the rate": {"layer_learning_rate": 0.6},
    "16 units": {"outputs": 16},
    "64 units": {"outputs": 64},
}
_ABLATION = {
    "blind, gini start": {},
    "blind, constant start": {"init": "constant"},
    "blind, no gates": {"gates": "none"},
    "paper, gini start, two gates": {"protocol": "paper"},
    "paper, gini start, one gate": {"protocol": "paper", "gates": "input"},
    "paper, constant start, two gates": {"protocol": "paper", "init": "constant"},
    "paper, constant start, one gate": {"protocol": "paper", "init": "constant", "gates": "input"},
    "paper, no gates": {"protocol": "paper", "gates": "none"},
}
"""Start of the gates, gates and protocol."""

_VARIED_SETS = ("madelon", "isolet", "coil20", "arcene")


def jobs(part: str, n_splits: int, sets: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Splits of a part: ``suite``, ``last`` (new splits, defaults alone), ``varied``, ``ablation``."""
    first = LAST_SEED if part == "last" else FIRST_SEED
    for seed in range(first, first + n_splits):
        for data in sets:
            methods = {"blind": {}}
            if part == "suite":
                methods |= {"one-se": {"choose": "one-se"}} | _ALSO.get(data, {})
            elif part != "last":
                methods = dict(_VARIED if part == "varied" else _ABLATION)
            yield {
                "part": part,
                "data": data,
                "seed": seed,
                "methods": methods,
                "all": part in ("suite", "last"),
                "judges": JUDGES if part == "suite" else JUDGES[:2],
            }


def summarise(splits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means and standard errors over splits, a row for each part, data set and method."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in splits:
        for method, found in one["methods"].items():
            group = groups.setdefault((one["part"], one["data"], method), [])
            group.append({**found, "seed": one["seed"], "shape": one["shape"]})
    rows = []
    for (part, data, method), group in groups.items():
        row: dict[str, Any] = {"case": f"{part} {data} {method}", "part": part, "data": data}
        row |= {"method": method, "shape": group[0]["shape"], "seeds": [g["seed"] for g in group]}
        for name in ("network", *JUDGES, "n_features", "precision", "found", "seconds"):
            values = [g[name] for g in group if name in g]
            if values:
                spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
                error = spread / len(values) ** 0.5
                row[name] = {"mean": float(np.mean(values)), "error": error, "values": values}
        rows.append(row)
    return rows


def main() -> None:
    """Run one part; splits that are in the file already are kept."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("suite", "last", "varied", "ablation"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/fedsdg_blind.json"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=None)
    asked = parser.parse_args()
    sets = tuple(asked.sets or (_SETS if asked.part in ("suite", "last") else _VARIED_SETS))
    use_one_thread_each()
    splits = json.loads(asked.out.read_text())["splits"] if asked.out.exists() else []
    known = {(one["part"], one["data"], one["seed"]) for one in splits}
    for job in jobs(asked.part, asked.splits, sets):
        if (job["part"], job["data"], job["seed"]) in known:
            continue
        try:
            splits.append({"part": job["part"], **one_split(job)})
        except FedsiftError as error:
            print(f"{job['part']} {job['data']} {job['seed']}: {error}", flush=True)
            continue
        shown = splits[-1]["methods"]
        print(job["part"], job["data"], job["seed"], shown, flush=True)
        results = {"suite": "fedsdg_blind", "machine": machine_facts()}
        write(asked.out, {**results, "rows": summarise(splits), "splits": splits})


if __name__ == "__main__":
    main()
