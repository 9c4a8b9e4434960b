"""Paper 000, FedSDG-FS: Tables I to IV, figures 1 and 3 to 8.

Trainings are plain (``security="plain"``): encrypted ones are the same to the last bit, which
``tests/methods/test_fedsdg.py`` and the suite ``fedsdg`` show. Splits are those of that suite: a
fifth of the rows is set aside before anything else and looked at once. Rounds are epochs here, and
where a figure follows the training round by round, validation rows taken from the training rows
stand for the paper's test rows.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from experiments import (
    BENCHMARKS,
    Cells,
    Job,
    Runs,
    binomial_error,
    mean_and_error,
    printed_rows,
    resolve,
    shape_of,
)

PAPER = "000"
SEED = 10
"""The first split of the suite ``fedsdg`` that nobody looked at while defaults were chosen."""

SETS = {
    "MADELON": "madelon",
    "ARCENE": "arcene",
    "BASEHOCK": "basehock",
    "RELATHE": "relathe",
    "PCMAC": "pcmac",
    "GISETTE": "gisette_like",
    "COIL20": "coil20",
    "ISOLET": "isolet",
}
STAND_IN = "GISETTE"
"""The one set of which only something alike could be obtained."""
METHODS = {
    "allFeatures": "all",
    "SFFS": "sffs 50 %",
    "MS-GINI": "ms-gini 50 %",
    "VFLFS": "vflfs 50 %",
    "original-Gate": "original-gate",
    "FedSDG-FS": "fedsdg",
}
COURSE = {"patience": 80}
"""Trainings that are followed round by round go on to the end."""
FILTERED = ("sffs 50 %", "ms-gini 50 %", "vflfs 50 %")
STOPPING = {"min_epochs": 10, "patience": 10}
"""Networks without gates: nothing has to settle before an epoch may be chosen."""
MANY_CLIENTS = ("arcene", "relathe")
STRONG, FAR = 10.0, 5.0
"""Points of accuracy that make a statement about a strong fall or a large lead true."""
FIGURE_4_SIZES = (20, 250)
FIGURE_5_SHARES = (0.1, 0.5)
FIGURE_1A_SIZES = (100, 1000, 9900)
FIGURE_1B_SIZES = (10, 100, 490)
OVERLAP_EPOCHS = (5, 20)


def network(data: str, method: str, clients: int = 2, **more: Any) -> Job:
    return {
        "experiment": "network",
        "data": data,
        "method": method,
        "clients": clients,
        "seed": SEED,
        **more,
    }


def jobs() -> Iterator[Job]:
    """All trainings, those that most of the page rests on first."""
    if not (BENCHMARKS / "fedsdg.json").is_file():  # else better: several splits
        for data in SETS.values():
            shown = METHODS.values() if data == "madelon" else ("all", "fedsdg")
            yield from (network(data, method) for method in shown)
    for data in SETS.values():
        if data != "madelon":
            yield from (network(data, m, settings=STOPPING) for m in FILTERED)
    for size in FIGURE_1B_SIZES:
        yield growing_job("madelon", 10, size)
    for size in FIGURE_1A_SIZES:
        yield growing_job("arcene", 100, size)
    yield {"experiment": "precision", "data": "madelon", "seed": SEED}
    for epochs in OVERLAP_EPOCHS:
        yield {"experiment": "overlap", "data": "madelon", "epochs": epochs, "seed": SEED}
    for method in ("original-gate", "fedsdg"):
        yield network("arcene", method, settings=COURSE)
    for data in SETS.values():
        if data not in ("madelon", "arcene"):
            yield network(data, "original-gate")
    for method in ("original-gate", "gini-gate"):
        yield network("madelon", method, settings=COURSE)
    for data in ("madelon", "friedman"):
        yield network(data, "all", settings=STOPPING)
        for size in FIGURE_4_SIZES:
            for method in ("ms-gini", "sffs", "random"):
                yield network(data, f"{method}, same number", features=size, settings=STOPPING)
    for share in FIGURE_5_SHARES:
        for method in ("fedsdg", "original-gate", "sffs"):
            settings = {"max_epochs": 20, "min_epochs": 10}
            yield network("arcene", method, share=share, settings=settings)
    for clients in (5, 10):
        for data in MANY_CLIENTS:
            yield network(data, "all", clients, settings=STOPPING)
            yield from (network(data, m, clients, settings=STOPPING) for m in FILTERED)
            yield network(data, "fedsdg", clients)
            yield network(data, "original-gate", clients)


def growing_job(data: str, first: int, second: int) -> Job:
    return {"experiment": "growing", "data": data, "first": first, "second": second, "seed": SEED}


def run(job: Job) -> dict[str, Any]:
    experiments = {
        "network": train,
        "growing": growing,
        "overlap": overlap,
        "precision": filter_precision,
    }
    return experiments[job["experiment"]](job)


def train(job: Job) -> dict[str, Any]:
    """One network on one split: test score, what was selected, and the course of the training."""
    from fedsift.bench.fedsdg_accuracy import load, split

    X, y, informative = load(job["data"])
    training, test = split(X, y, job["seed"], job["clients"])
    estimator = estimator_of(job, X.shape[1]).fit(training)
    chosen = np.flatnonzero(estimator.support_)
    result = {
        "score": float(estimator.score(test)),
        "n_test": test.n_rows,
        "n_features": len(chosen),
        "share": len(chosen) / X.shape[1],
    }
    if hasattr(estimator, "prediction_traffic_"):
        result["prediction_bytes"] = estimator.prediction_traffic_.n_bytes
    if job.get("settings") == COURSE:
        result["course"] = [
            {
                "open": entry["open_features"],
                "embeddings": entry["open_embeddings"],
                "score": round(float(entry["validation_score"]), 4),
            }
            for entry in estimator.history_
        ]
    if informative is not None:
        result["precision"] = float(np.isin(chosen, informative).mean())
    return result


def estimator_of(job: Job, n_features: int) -> Any:
    from fedsift.bench.fedsdg_accuracy import make
    from fedsift.selectors.fedsdg import FedSDGSelector
    from fedsift.selectors.fedsdg_baselines import fedsdg_baseline

    settings = {"security": "plain", "random_state": job["seed"], **job.get("settings", {})}
    method = job["method"]
    if method == "gini-gate":
        return FedSDGSelector(gates="input", init="gini", **settings)
    if "share" not in job:
        return make(method, job.get("features", 1), settings, n_features)
    if method == "fedsdg":
        return FedSDGSelector(n_features_to_select=job["share"], **settings)
    if method == "original-gate":
        gates = {"gates": "input", "init": "constant"}
        return FedSDGSelector(n_features_to_select=job["share"], **gates, **settings)
    return fedsdg_baseline(method, n_features_to_select=job["share"], **settings)


def growing(job: Job) -> dict[str, Any]:
    """All features of two clients, the first with few, the second with more and more of them.

    MADELON: three true features at the first client and two at the second, the rest noise.
    """
    from fedsift.bench.fedsdg_accuracy import load, rows_of
    from fedsift.data import split_vertical
    from fedsift.selectors.fedsdg_baselines import fedsdg_baseline

    X, y, informative = load(job["data"])
    rng = np.random.default_rng(job["seed"])
    columns = rng.permutation(X.shape[1])
    first, second = job["first"], job["second"]
    if informative is None:
        parts = [columns[:first], columns[first : first + second]]
    else:
        true = rng.permutation(informative)[:5]
        noise = columns[~np.isin(columns, informative)]
        parts = [
            np.concatenate([true[:3], noise[: first - 3]]),
            np.concatenate([true[3:], noise[first - 3 : first + second - 5]]),
        ]
    kept = np.concatenate(parts)
    places = [list(range(len(parts[0]))), list(range(len(parts[0]), len(kept)))]
    train_rows, test_rows = rows_of(y, job["seed"])
    halves = [
        split_vertical(X[rows][:, kept], y[rows], places, label_holder=None)
        for rows in (train_rows, test_rows)
    ]
    model = fedsdg_baseline("all", security="plain", random_state=job["seed"], **STOPPING).fit(
        halves[0]
    )
    return {
        "score": float(model.score(halves[1])),
        "n_test": len(test_rows),
        "n_features": len(kept),
        "parameters": parameters_of(len(kept), len(np.unique(y))),
    }


def parameters_of(n_features: int, n_outputs: int) -> int:
    """Weights of the network that the paper's Table II describes, counted by PyTorch.

    Two clients with a hidden layer and an embedding of 100 each, an interactive layer of 50, and
    one output per class.
    """
    from torch import nn

    half = n_features // 2
    layers = [
        layer
        for width in (half, n_features - half)
        for layer in (nn.Linear(width, 100), nn.Linear(100, 100))
    ]
    layers += [nn.Linear(200, 50), nn.Linear(50, n_outputs)]
    return sum(weights.numel() for layer in layers for weights in layer.parameters())


def overlap(job: Job) -> dict[str, Any]:
    """Share of the features open after so many epochs that Gini impurity would choose as well."""
    from fedsift.bench.fedsdg_accuracy import load, split
    from fedsift.selectors.fedsdg import FedSDGSelector
    from fedsift.selectors.filter import FilterSelector

    X, y, _ = load(job["data"])
    training, _ = split(X, y, job["seed"])
    epochs = job["epochs"]
    gates = FedSDGSelector(
        gates="input",
        init="constant",
        security="plain",
        max_epochs=epochs,
        min_epochs=epochs,
        random_state=job["seed"],
    ).fit(training)
    n_open = int(gates.support_.sum())
    gini = FilterSelector(
        "gini", n_features_to_select=n_open, security="plain", random_state=job["seed"]
    ).fit(training)
    return {"open": n_open, "same": int((gates.support_ & gini.support_).sum())}


def filter_precision(job: Job) -> dict[str, Any]:
    """Share of MADELON's true features among the first k of two filters."""
    from fedsift.bench.fedsdg_accuracy import load, split
    from fedsift.selectors.filter import FilterSelector

    X, y, informative = load(job["data"])
    training, _ = split(X, y, job["seed"])
    found: dict[str, dict[str, float]] = {}
    for name, score in (("SFFS", "f"), ("MS-GINI", "gini")):
        found[name] = {}
        for size in (5, 10, 20, 50, 100, 250):
            filtered = FilterSelector(
                score, n_features_to_select=size, security="plain", random_state=job["seed"]
            ).fit(training)
            chosen = np.flatnonzero(filtered.support_)
            found[name][str(size)] = float(np.isin(chosen, informative).mean())
    return found


def cells(runs: Runs, answers: Cells) -> None:
    _data(answers)
    _table_3(runs, answers)
    _table_4(runs, answers)
    _figure_1(runs, answers)
    _figure_3(runs, answers)
    _figure_4(runs, answers)
    _figure_5(runs, answers)
    _figure_6(runs, answers)
    _figure_7(runs, answers)
    _figure_8(runs, answers)


def _data(answers: Cells) -> None:
    sizes = printed_rows(PAPER, "table-1")
    for name, data in {"FRIEDMAN": "friedman", **SETS}.items():
        rows, features, classes = shape_of(data)
        outputs = 1 if name == "FRIEDMAN" else classes
        model = "VFLLR" if name == "FRIEDMAN" else "VFLNN"
        answers.put(
            "table-2", f"{model}-{name}", "# of parameters", ours=parameters_of(features, outputs)
        )
        if name == STAND_IN:
            continue  # only a stand-in is public
        answers.put("table-1", name, "Features", ours=features)
        answers.put("table-1", name, "Classes", ours=classes)
        train, test = sizes[name][1:3]
        for column in ("Train size", "Test size"):
            answers.put(
                "table-1",
                name,
                column,
                holds=train + test == rows,
                shown=f"{train + test:,} printed in all, {rows:,} public",
            )


def _measured(runs: Runs, data: str, method: str, clients: int = 2) -> dict[str, Any] | None:
    """Score in per cent and share of features: of the suite ``fedsdg`` where it has them."""
    suite = BENCHMARKS / "fedsdg.json"
    if clients == 2 and suite.is_file():
        where = ["fedsdg.json", "rows", {"data": data, "method": method}]
        with contextlib.suppress(StopIteration):
            row = resolve(where)
            return {
                "ours": 100 * row["mean"],
                "error": 100 * row["standard_error"],
                "share": row["share"],
                "n": len(row["scores"]),
                "source": {"path": [*where, "mean"], "times": 100},
                "share_source": {"path": [*where, "share"], "times": 1},
            }
    alike = {"experiment": "network", "data": data, "method": method, "clients": clients}
    every = [
        (job, result)
        for job, result in runs.of(**alike)
        if "share" not in job and "features" not in job
    ]
    default = [result for job, result in every if "settings" not in job]
    found = default or [result for _, result in every[:1]]
    if not found:
        return None
    ours, error = mean_and_error([result["score"] for result in found])
    if error is None:
        error = binomial_error(ours, found[0]["n_test"])
    share, share_error = mean_and_error([result["share"] for result in found])
    measured = {"ours": 100 * ours, "error": 100 * error, "share": share, "n": len(found)}
    return {**measured, "share_error": share_error}


def _table_3(runs: Runs, answers: Cells) -> None:
    for name, data in SETS.items():
        for column, method in METHODS.items():
            _answer("table-3", name, column, _measured(runs, data, method), answers)
    ours = _measured(runs, "madelon", "fedsdg")
    filters = [_measured(runs, "madelon", method) for method in FILTERED]
    if ours and all(filters):
        best = max(found["ours"] for found in filters if found)
        row = "points of accuracy ahead"
        answers.put("text-madelon", row, "printed", ours=ours["ours"] - best, error=ours["error"])
        row = "points of the features fewer"
        answers.put("text-madelon", row, "printed", ours=100 * (0.5 - ours["share"]))


def _answer(
    table: str, row: str, column: str, found: dict[str, Any] | None, answers: Cells
) -> None:
    if found is None:
        if column not in ("original-Gate", "FedSDG-FS"):  # a setting, not a finding
            share = 1.0 if column == "allFeatures" else 0.5
            answers.put(f"{table}-share", row, column, ours=share)
        return
    kept = {name: found.get(name) for name in ("ours", "error", "n", "source")}
    stand_in = row == STAND_IN or None
    answers.put(f"{table}-accuracy", row, column, **kept, stand_in=stand_in)
    answers.put(
        f"{table}-share",
        row,
        column,
        ours=found["share"],
        error=found.get("share_error"),
        n=found["n"],
        source=found.get("share_source"),
        stand_in=stand_in,
    )


def _table_4(runs: Runs, answers: Cells) -> None:
    for clients in (5, 10):
        for name in ("ARCENE", "RELATHE"):
            for column, method in METHODS.items():
                found = _measured(runs, SETS[name], method, clients)
                _answer("table-4", f"{name}, {clients} clients", column, found, answers)


def _figure_1(runs: Runs, answers: Cells) -> None:
    found = {
        data: {job["second"]: result for job, result in runs.of(experiment="growing", data=data)}
        for data in ("arcene", "madelon")
    }
    for item, data, limit in (("figure-1a", "arcene", 10.0), ("figure-1b", "madelon", None)):
        sizes = sorted(found[data])
        if len(sizes) < 2:
            continue
        scores = {size: 100 * found[data][size]["score"] for size in sizes}
        drop = scores[sizes[0]] - scores[sizes[-1]]
        shown = ", ".join(f"{size}: {score:.1f}" for size, score in scores.items())
        if item == "figure-1b":
            row, holds = "accuracy falls strongly with more noise features", drop > STRONG
        else:
            row = "accuracy falls slightly with more redundant features"
            holds = 0 < drop <= limit
        answers.put(item, row, "claim", holds=holds, shown=f"per cent by features added: {shown}")
    if len(found["arcene"]) > 1:
        sizes = sorted(found["arcene"])
        grown = [found["arcene"][size]["parameters"] for size in sizes]
        answers.put(
            "figure-1a",
            "the model grows fast with them",
            "claim",
            holds=grown[-1] >= 5 * grown[0],
            shown=f"from {grown[0]:,} to {grown[-1]:,} parameters",
        )
    ends = {"few noise features": FIGURE_1B_SIZES[0], "many noise features": FIGURE_1B_SIZES[-1]}
    for row, size in ends.items():
        if size in found["madelon"]:
            score, n_test = (found["madelon"][size][name] for name in ("score", "n_test"))
            error = 100 * binomial_error(score, n_test)
            answers.put("figure-1b-numbers", row, "printed", ours=100 * score, error=error, n=1)


def _course(runs: Runs, data: str, method: str) -> list[dict[str, Any]] | None:
    for _, result in runs.of(experiment="network", data=data, method=method, clients=2):
        if "course" in result:
            return result["course"]
    return None


def _settled(course: list[dict[str, Any]]) -> int:
    """The first round from which on the number of open gates stays near its last value."""
    last = course[-1]["open"]
    away = [n for n, entry in enumerate(course) if abs(entry["open"] - last) > 0.25 * max(last, 1)]
    return away[-1] + 2 if away else 1


def _figure_3(runs: Runs, answers: Cells) -> None:
    found = {job["epochs"]: result for job, result in runs.of(experiment="overlap")}
    if found:
        few = {e: r["same"] / r["open"] for e, r in found.items() if 0 < r["open"] <= 250}
        shown = ", ".join(
            f"round {e}: {r['same']} of {r['open']}" for e, r in sorted(found.items())
        )
        answers.put(
            "figure-3",
            "a: in some rounds, gates and Gini impurity choose much the same features",
            "claim",
            holds=bool(few) and max(few.values()) >= 0.5,
            shown=shown,
        )
    plain, started = (_course(runs, "madelon", m) for m in ("original-gate", "gini-gate"))
    if plain and started:
        answers.put(
            "figure-3",
            "b: gates that start from Gini impurity settle sooner",
            "claim",
            holds=_settled(started) < _settled(plain),
            shown=f"settled in round {_settled(started)} with Gini impurity, "
            f"in round {_settled(plain)} without",
        )


def _figure_4(runs: Runs, answers: Cells) -> None:
    for row, data in (("MADELON", "madelon"), ("FRIEDMAN", "friedman")):
        alike = {"experiment": "network", "data": data, "settings": STOPPING}
        every = runs.one(**alike, method="all")
        means: dict[str, float] = {}
        for method in ("ms-gini", "sffs", "random"):
            scores = runs.values("score", **alike, method=f"{method}, same number")
            if len(scores) == len(FIGURE_4_SIZES):
                means[method] = 100 * float(np.mean(scores))
        if every is None or len(means) < 3:
            continue
        means["all"] = 100 * every["score"]
        for column, method in (("random", "random"), ("allFeatures", "all"), ("SFFS", "sffs")):
            answers.put("figure-4", row, column, ours=means["ms-gini"] - means[method], n=1)


def _figure_5(runs: Runs, answers: Cells) -> None:
    found: dict[str, list[float]] = {}
    for method in ("fedsdg", "original-gate", "sffs"):
        for share in FIGURE_5_SHARES:
            result = runs.one(experiment="network", data="arcene", method=method, share=share)
            if result is None:
                return
            found.setdefault(method, []).append(100 * result["score"])
    texts = {m: " / ".join(f"{s:.1f}" for s in scores) for m, scores in found.items()}
    shares = " / ".join(f"{100 * share:.0f}" for share in FIGURE_5_SHARES)
    for method, name in (("fedsdg", "FedSDG-FS"), ("original-gate", "the original gate")):
        lead = float(np.mean(found[method]) - np.mean(found["sffs"]))
        answers.put(
            "figure-5",
            f"{name} is far more accurate than SFFS",
            "ARCENE",
            holds=lead > FAR,
            shown=f"{texts[method]} against {texts['sffs']} with {shares} % of the features",
        )
    spread = max(found["fedsdg"]) - min(found["fedsdg"])
    answers.put(
        "figure-5",
        "FedSDG-FS hardly varies with the number of features",
        "ARCENE",
        holds=spread <= FAR,
        shown=f"by {spread:.1f} points",
    )


def _figure_6(runs: Runs, answers: Cells) -> None:
    names = ("FedSDG-FS", "original-Gate")
    courses = {name: _course(runs, "arcene", METHODS[name]) for name in names}
    if not all(courses.values()):
        return
    half_of_all = shape_of("arcene")[1] / 2
    highest, lost, half = {}, {}, {}
    for name, course in courses.items():
        scores = [100 * entry["score"] for entry in course]
        highest[name], lost[name] = max(scores), max(scores) - scores[-1]
        few = [n for n, entry in enumerate(course, start=1) if entry["open"] < half_of_all]
        half[name] = few[0] if few else len(course) + 1
    ours, original = names
    answers.put(
        "figure-6ab",
        "FedSDG-FS and the original gate come to similar accuracies",
        "ARCENE",
        holds=abs(highest[ours] - highest[original]) <= FAR,
        shown=f"highest on validation rows: {highest[ours]:.1f} and {highest[original]:.1f}",
    )
    answers.put(
        "figure-6ab",
        "FedSDG-FS loses less until round 80 than the original gate",
        "ARCENE",
        holds=lost[ours] < lost[original],
        shown=f"points lost: {lost[ours]:.1f} and {lost[original]:.1f}",
    )
    answers.put(
        "figure-6cd",
        "with the initialisation, features are filtered out sooner",
        "ARCENE",
        holds=half[ours] < half[original],
        shown=f"less than half of the features from round {half[ours]} and {half[original]}",
    )
    for name in names:
        answers.put("figure-6ab-numbers", "drop", name, ours=lost[name], n=1)


def _figure_7(runs: Runs, answers: Cells) -> None:
    filters = runs.one(experiment="precision")
    ours, gate = (_precision(runs, method) for method in ("fedsdg", "original-gate"))
    if filters is None or ours is None or gate is None:
        return
    means = {name: float(np.mean(list(by.values()))) for name, by in filters.items()}
    others = {"original gate": gate, **means}
    shown = ", ".join(f"{name} {value:.2f}" for name, value in others.items())
    answers.put(
        "figure-7",
        "FedSDG-FS has the highest precision",
        "claim",
        holds=ours >= max(others.values()),
        shown=f"FedSDG-FS {ours:.2f}, {shown}",
    )
    ends = {name: (by["5"], by["250"]) for name, by in filters.items()}
    answers.put(
        "figure-7",
        "precision of SFFS and MS-GINI falls strongly with the number of features",
        "claim",
        holds=all(first - last > 0.1 for first, last in ends.values()),
        shown="; ".join(f"{n}: {a:.2f} with 5, {b:.2f} with 250" for n, (a, b) in ends.items()),
    )
    row = "FedSDG-FS ahead by"
    answers.put("figure-7-numbers", row, "original-Gate", ours=100 * (ours - gate))
    answers.put("figure-7-numbers", row, "SFFS", ours=100 * (ours - means["SFFS"]))


def _precision(runs: Runs, method: str) -> float | None:
    """Mean precision on MADELON over the splits of the suite, or of the runs here."""
    if (BENCHMARKS / "fedsdg.json").is_file():
        row = resolve(["fedsdg.json", "rows", {"data": "madelon", "method": method}])
        return float(np.mean(row["precision"]))
    found = [
        result["precision"]
        for job, result in runs.of(experiment="network", data="madelon", method=method, clients=2)
        if "features" not in job
    ]
    return float(np.mean(found)) if found else None


def _figure_8(runs: Runs, answers: Cells) -> None:
    alike = {"experiment": "network", "data": "arcene", "settings": COURSE}
    sizes = [runs.one(**alike, method=method) for method in ("fedsdg", "original-gate")]
    if all(sizes):
        gated, every = (found["prediction_bytes"] for found in sizes if found)
        answers.put("figure-8", "ARCENE", "printed", ours=100 * (1 - gated / every), n=1)
