# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What curious parties of FedSDG-FS work out, with protections and without: measured, not argued.

``python -m benchmarks.suites.fedsdg.leaks --out FILE`` writes everything to a JSON file as it comes;
``fedsift bench fedsdg`` runs the same. Runs are plain: encryption changes no number of them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.store import machine_facts
from benchmarks.suites.fedsdg import blind_leaks
from benchmarks.suites.fedsdg.small_factors import exact_columns
from fedsift.data import Federation, catalog, split_vertical
from fedsift.errors import FedsiftError
from fedsift.lab.attacks.fedsdg import techniques
from fedsift.lab.attacks.fedsdg.views import Recording, Weakness, record
from fedsift.methods.fedsdg.messages import Params

Integers = npt.NDArray[np.int64]
Echo = Callable[[str], None]

PROTECTIONS: dict[str, dict[str, float]] = {
    "none": {},
    "label_noise 1": {"label_noise": 1.0},
    "label_noise 3": {"label_noise": 3.0},
    "label_noise 10": {"label_noise": 10.0},
    "label_noise 20": {"label_noise": 20.0},
}
DATA_SETS = {
    "smoke": ("breast_cancer",),
    "regular": ("breast_cancer", "wine", "madelon"),
}
PARTS = ("embedding", "weights", "labels", *blind_leaks.PARTS)
SEEDS = {"smoke": 2, "regular": 5}
_FEWER_SEEDS = {"madelon": 2}
"""Larger data: the label attacks need whole trainings."""

EPOCHS = {"smoke": 4, "regular": 80}
_SMOKE_PROTECTIONS = ("none", "label_noise 10")
_KNOWN_ROWS = (8, 15, 16, 24, 48)
_VICTIM = "party-1"
_KNOWN_PER_CLASS = 5
_KNOWN_DRAWS = 5


def measure(
    profile: str,
    echo: Echo,
    keep: Callable[[dict[str, Any]], None] | None = None,
    parts: Sequence[str] = PARTS,
    only: str = "",
) -> dict[str, Any]:
    """All attacks, or some parts of them; ``keep`` gets what there is after every step.

    Of parts that have cases, ``only`` mounts those whose text has this in it.
    """
    # Beyond "smoke" the profiles of other suites are one here.
    profile = "smoke" if profile == "smoke" else "regular"
    found: dict[str, Any] = {"seeds": SEEDS[profile], "epochs": EPOCHS[profile]}
    keep = keep or found.update
    if "embedding" in parts:
        found["embedding"] = _embedding_rows(SEEDS[profile], echo)
        keep(found)
    if "weights" in parts:
        found["weights"] = _weight_rows(SEEDS[profile], echo)
        keep(found)
    for part in (name for name in blind_leaks.PARTS if name in parts):
        _measure_cases(part, profile, found, echo, keep, only)
    if "labels" not in parts:
        return found
    found["labels"] = []
    for name in DATA_SETS[profile]:
        if not catalog.is_available(name):
            echo(f"{name}: not here (set FEDSIFT_DATA)")
            continue
        for protection in _SMOKE_PROTECTIONS if profile == "smoke" else PROTECTIONS:
            n_seeds = min(SEEDS[profile], _FEWER_SEEDS.get(name, SEEDS[profile]))
            row = _label_row(name, protection, n_seeds, EPOCHS[profile])
            found["labels"].append(row)
            echo(_label_line(row))
            keep(found)
    return found


def _measure_cases(
    part: str,
    profile: str,
    found: dict[str, Any],
    echo: Echo,
    keep: Callable[[dict[str, Any]], None],
    only: str,
) -> None:
    """One row for each case, with the mean over seeds of all that it measures."""
    found[part] = []
    for case, run, most in blind_leaks.PARTS[part](profile):
        if only not in case:
            continue
        values: dict[str, list[float]] = {}
        n_seeds = min(SEEDS[profile], most)
        for seed in range(n_seeds):
            for key, value in run(seed).items():
                values.setdefault(key, []).append(value)
        row = {key: summary(numbers) for key, numbers in values.items()}
        found[part].append({"case": case, "seeds": n_seeds, "found": row})
        shown = "  ".join(f"{k} {v['mean']:.3f}+-{v['se']:.3f}" for k, v in row.items())
        echo(f"{part:14} {case:72} {shown}")
        keep(found)


# Attack a: the label holder and an embedding


def _embedding_rows(n_seeds: int, echo: Echo) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(case: str, values: Sequence[float], what: str) -> None:
        rows.append({"case": case, "what": what, **summary(values)})
        echo(f"embedding  {case:48} {what:14} {rows[-1]['mean']:8.3f} +- {rows[-1]['se']:.3f}")

    for weakness in (Weakness.NO_WEIGHT_NOISE, Weakness.NONE):
        shown = "no noise on the weights" if weakness is not Weakness.NONE else "as it is"
        runs = [_short(seed, 1, weakness) for seed in range(n_seeds)]
        add(f"{shown}, first batch", [_solved(run, 0) for run in runs], "r2")
        add(f"{shown}, last batch", [_solved(run, -1) for run in runs], "r2")
    for n_holders in (1, 2, 3):
        runs = [_short(seed, n_holders) for seed in range(n_seeds)]
        for known in _KNOWN_ROWS:
            found = [_fitted(run, known) for run in runs]
            add(f"{n_holders} feature holder(s), {known} rows known", found, "r2")
    for n_holders in (1, 2, 3, 4):
        for weakness in (Weakness.EXACT_OUTPUTS, Weakness.NONE):
            shown = "exact outputs" if weakness is not Weakness.NONE else "as it is"
            runs = [_short(s, n_holders, weakness, embedding=1) for s in range(n_seeds)]
            case = f"one embedding column, {n_holders} feature holder(s), {shown}"
            add(case, [_exact_share(run) for run in runs], "exact columns")
    return rows


def _solved(run: Recording, batch: int) -> float:
    start = run.labels[0].shares[_VICTIM]
    guesses = list(techniques.follow_embeddings(start, run.labels))
    truth = run.features[_VICTIM][batch].embedding
    return techniques.explained(guesses[batch], truth, by_column=True)


def _fitted(run: Recording, known: int) -> float:
    """The better of two ways to fit the map, for the attacker's benefit."""
    outputs, truth = run.labels[0].outputs, run.features[_VICTIM][0].embedding
    others = slice(max(_KNOWN_ROWS), None)
    guesses = [
        techniques.fit_map(truth[:known], outputs[:known], outputs[others], penalised=penalised)
        for penalised in (False, True)
    ]
    return max(techniques.explained(guess, truth[others], by_column=True) for guess in guesses)


def _exact_share(run: Recording) -> float:
    n_holders = len(run.features)
    n_rows, hits = max(6, 3 * n_holders), []
    for j in range(run.params.outputs):
        found = exact_columns(run.labels[0].outputs[:, j], n_holders, n_rows)
        for seen in run.features.values():
            truth = np.abs(seen[0].embedding[:n_rows, 0])
            hits.append(any(bool((np.abs(c) == truth).all()) for c in found or []))
    return float(np.mean(hits))


# Attack b: a feature holder and the weights


def _weight_rows(n_seeds: int, echo: Echo) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(case: str, values: Sequence[float], what: str) -> None:
        rows.append({"case": case, "what": what, **summary(values)})
        echo(f"weights    {case:48} {what:14} {rows[-1]['mean']:8.3f} +- {rows[-1]['se']:.3f}")

    for weakness, shown in (
        (Weakness.NO_MASKS, "without masks"),
        (Weakness.OWN_START, "start drawn by the feature holder"),
        (Weakness.NONE, "as it is"),
    ):
        runs = [_short(seed, 2, weakness) for seed in range(n_seeds)]
        add(f"{shown}: share of the weights solved", [_share_solved(r) for r in runs], "share")
        add(f"{shown}: weights followed", [_followed(r)[0] for r in runs], "r2")
        add(f"{shown}: output gradients followed", [_followed(r)[1] for r in runs], "r2")
    for noise in (0.0, 0.3, 1.0):
        runs = [_short(seed, 2, label_noise=noise, batch_size=256) for seed in range(n_seeds)]
        found = [_units(run, seed) for seed, run in enumerate(runs)]
        add(f"label_noise {noise:g}: output units isolated", found, "share")
    return rows


def _share_solved(run: Recording) -> float:
    view = run.features[_VICTIM][0]
    opened = view.masked_outputs
    assert opened is not None
    share = techniques.regress_share(view.embedding, opened, run.modulus)
    return 0.0 if share is None else float((share == run.labels[0].shares[_VICTIM]).mean())


def _followed(run: Recording) -> tuple[float, float]:
    """Of the first batch: that of later ones is not better."""
    found = techniques.follow_weights(run.their_half[_VICTIM], run.features[_VICTIM])
    weights, delta = next(found)
    truth = run.labels[run.training_batches()[0]].delta
    assert truth is not None
    return (
        techniques.explained(weights, run.weights(_VICTIM, 0)),
        techniques.explained(delta, truth),
    )


def _units(run: Recording, seed: int) -> float:
    batch = run.training_batches()[0]
    gradient, delta = run.features[_VICTIM][batch].gradient, run.labels[batch].delta
    assert gradient is not None
    assert delta is not None
    guesses = techniques.isolate_units(gradient, np.random.default_rng(seed))
    return techniques.units_found(guesses, delta)


# Attack c: a feature holder and the labels


def _label_row(name: str, protection: str, n_seeds: int, n_epochs: int) -> dict[str, Any]:
    """One protection on one data set: what the attacks find and what the model is worth."""
    found: dict[str, list[float]] = {}
    failures: list[str] = []
    for seed in range(n_seeds):
        try:
            values = _attack_labels(name, PROTECTIONS[protection], seed, n_epochs)
        except FedsiftError as error:
            failures.append(getattr(error, "cause_code", None) or error.code)
            continue
        for key, value in values.items():
            found.setdefault(key, []).append(value)
    row: dict[str, Any] = {
        "data": name,
        "protection": protection,
        "seeds": n_seeds,
        "failures": failures,
    }
    return row | {key: summary(values) for key, values in found.items()}


def _attack_labels(
    name: str, settings: dict[str, float], seed: int, n_epochs: int
) -> dict[str, float]:
    federation, codes = _federation(name, 2, seed)
    chosen: dict[str, Any] = {
        "scheme": "plain",
        "seed": seed,
        "max_epochs": n_epochs,
        "min_epochs": min(30, n_epochs - 1),
        **settings,
    }
    run = record(federation, Params(**chosen))
    gradients = techniques.gradients_of(run, _VICTIM)
    known = codes[gradients.rows]
    attacks = {
        "norm": techniques.by_norm,
        "direction": techniques.by_direction,
        "clusters": techniques.by_clusters,
        "known_labels": with_known_labels,
    }
    values = {
        key: techniques.strongest(attack, gradients, known) for key, attack in attacks.items()
    }
    own = federation.tables[_VICTIM]
    columns = np.stack([column.as_floats() for column in own.columns], axis=1)
    return values | {
        "own_columns": without_gradients(columns[gradients.rows], known, seed),
        "chance": techniques.chance_of_clusters(known, seed),
        "majority": float(np.bincount(known).max() / len(known)),
        "score": float(run.stage.outcome.value.score),
        "features": float(run.stage.outcome.value.n_open),
    }


def with_known_labels(gradients: techniques.RowGradients, codes: Integers, seed: int = 0) -> float:
    """Share of right guesses for the other rows, once the labels of a few rows are known."""
    n_classes = len(np.unique(codes))
    return without_gradients(techniques.main_directions(gradients, n_classes), codes, seed)


def without_gradients(points: npt.NDArray[np.float64], codes: Integers, seed: int = 0) -> float:
    """The same guess from the feature holder's own columns alone: what it knows anyway."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(_KNOWN_DRAWS):
        known = np.concatenate(
            [
                rng.permutation(np.flatnonzero(codes == c))[:_KNOWN_PER_CLASS]
                for c in np.unique(codes)
            ]
        )
        others = np.setdiff1d(np.arange(len(codes)), known)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        model.fit(points[known], codes[known])
        shares.append(float((model.predict(points[others]) == codes[others]).mean()))
    return float(np.mean(shares))


def _label_line(row: dict[str, Any]) -> str:
    keys = ("norm", "direction", "clusters", "known_labels", "own_columns", "score")
    shown = (f"{k} {row[k]['mean']:.3f}+-{row[k]['se']:.3f}" for k in keys if k in row)
    failed = f"  failed {len(row['failures'])}" if row["failures"] else ""
    return f"labels     {row['data']:14} {row['protection']:22} " + "  ".join(shown) + failed


def _short(
    seed: int, n_holders: int, weakness: Weakness = Weakness.NONE, **settings: Any
) -> Recording:
    """One epoch on shipped data, with the layer as it is by default."""
    federation, _ = _federation("breast_cancer", n_holders, seed)
    chosen: dict[str, Any] = {
        "scheme": "plain",
        "seed": seed,
        "max_epochs": 1,
        "min_epochs": 0,
        "batch_size": 128,
        "init": "constant",
        **settings,
    }
    return record(federation, Params(**chosen), weakness=weakness)


def _federation(name: str, n_holders: int, seed: int) -> tuple[Federation, Integers]:
    data = catalog.load(name)
    X = np.asarray(data.X, dtype=np.float64)
    codes = np.unique(np.asarray(data.y), return_inverse=True)[1]
    made = split_vertical(X, codes, n_holders, label_holder=None, random_state=seed)
    return made, codes


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean and standard error."""
    numbers = np.asarray(values, dtype=np.float64)
    error = numbers.std(ddof=1) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return {"mean": float(numbers.mean()), "se": float(error)}


def table(found: dict[str, Any]) -> str:
    """Markdown for the docs page, from the result file alone."""
    lines = ["| attack | setting | measure | found |", "|---|---|---|---|"]
    for part in ("embedding", "weights"):
        lines += [
            f"| {part} | {row['case']} | {row['what']} | {_shown(row)} |"
            for row in found.get(part, [])
        ]
    for part in blind_leaks.PARTS:
        lines += [
            f"| {part.replace('_', ' ')} | {row['case']} | {what} | {_of_runs(row, value)} |"
            for row in found.get(part, [])
            for what, value in row["found"].items()
        ]
    lines += [
        "",
        "| data | protection | seeds | by length | by direction | right class, clusters "
        "| 5 labels known | own columns, 5 labels known | validation score | features |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = ("norm", "direction", "clusters", "known_labels", "own_columns", "score")
    for row in found.get("labels", []):
        cells = [_cell(row.get(key), 3) for key in keys] + [_cell(row.get("features"), 1)]
        failed = f" ({len(row['failures'])} runs refused)" if row["failures"] else ""
        first = f"| {row['data']} | {row['protection']}{failed} | {row['seeds']} | "
        lines.append(first + " | ".join(cells) + " |")
    return "\n".join(lines)


def _of_runs(row: dict[str, Any], value: dict[str, float]) -> str:
    """One run has no standard error."""
    return _cell(value, 3) if row["seeds"] > 1 else f"{value['mean']:.3f} (one run)"


def _shown(row: dict[str, Any]) -> str:
    """Worse than the mean is worse than the mean, whatever the number."""
    return "below 0" if row["mean"] + row["se"] < 0 else _cell(row, 3)


def _cell(value: dict[str, float] | None, digits: int) -> str:
    return "-" if value is None else f"{value['mean']:.{digits}f} ± {value['se']:.{digits}f}"


def _joined(
    part: str, profile: str, old: list[dict[str, Any]], new: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of a part in the order of its cases: new ones, and old ones of cases without."""
    rows = {row["case"]: row for row in (*old, *new)}
    cases = [case for case, _, _ in blind_leaks.PARTS[part](profile)]
    return [rows[case] for case in cases if case in rows]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write; what there is stays if somebody interrupts.

    Parts and cases that are not asked for are kept from the file, if it has them.
    """
    parser = argparse.ArgumentParser(description="What curious parties of FedSDG-FS work out.")
    parser.add_argument("--profile", choices=tuple(SEEDS), default="regular")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--only", default="", help="cases whose text has this in it")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/fedsdg_leaks.json"))
    parser.add_argument("--table", action="store_true", help="only print what the file has")
    chosen = parser.parse_args(arguments)
    if chosen.table:
        print(table(json.loads(chosen.out.read_text(encoding="utf-8"))))
        return
    old: dict[str, Any] = {}
    if chosen.out.exists():
        old = json.loads(chosen.out.read_text(encoding="utf-8"))
    whole = {part: old[part] for part in PARTS if part in old and part not in chosen.parts}

    def keep(found: dict[str, Any]) -> None:
        whole.update(profile=chosen.profile, machine=machine_facts(), **found)
        for part in (name for name in blind_leaks.PARTS if name in chosen.parts):
            rows = _joined(part, chosen.profile, old.get(part, []), found.get(part, []))
            whole[part] = rows
        chosen.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    def echo(line: str) -> None:
        print(line, flush=True)

    keep(measure(chosen.profile, echo, keep, chosen.parts, chosen.only))


if __name__ == "__main__":
    main()
