# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/evidence/vfps.md from the committed result file.

Run ``python -m benchmarks.pages vfps`` after ``fedsift bench vfps --profile regular --out
benchmarks/vfps.json``; ``make bench-check`` compares the page with the file. Own columns, the control
and secure training have files of their own (:mod:`benchmarks.suites.vfps.own_columns`, ``halves``
and ``against_training``).
"""

from benchmarks.pages.writer import Page, load, table

METHODS = (
    "group-testing", "greedy", "shapley", "individual", "brute-force", "lasso", "random", "all",
)  # fmt: skip


def cost(results: dict) -> str:
    """Ablation and large runs."""
    rows = []
    for row in results["rows"]:
        if row["job"]["part"] in ("exact", "training"):
            continue
        rows.append(
            [
                row["case"],
                f"{row['groups']} x {row['n_queries']}" if "groups" in row else "-",
                f"{row['seconds']:.1f}",
                f"{row['slots']:,}" if "slots" in row else "-",
                f"{row['ciphertexts']:,}",
                f"{row['bytes'] / 1e6:.0f}",
                f"{row['peak_memory'] / 2**20:.0f}",
            ]
        )
    both = next(row for row in results["rows"] if "slots_ratio" in row)
    return (
        table(
            ["case", "groups x queries", "seconds", "slots", "ciphertexts", "MB", "peak MiB"], rows
        )
        + f"\nBoth optimisations together: {both['slots_ratio']:.0f} times fewer slots and "
        f"{both['seconds_ratio']:.0f} times less time than neither (asked for: 10 and 5).\n"
    )


def exactness(results: dict) -> str:
    """How far federated scores are from the plaintext estimator."""
    rows = [row for row in results["rows"] if "largest_error" in row]
    small = [row for row in rows if row["job"]["part"] == "exact"]
    sizes = sorted({row["job"]["parties"] for row in small})
    claims = results["claims"]
    return (
        f"{len(small)} runs with {', '.join(map(str, sizes))} participants, Fagin and batching on "
        "and off, shared and separate queries: largest difference from the floating-point "
        f"estimator {max(row['largest_error'] for row in small):.1g} nats. Large runs (letter, "
        f"birch1): {max(row['largest_error'] for row in rows):.1g} nats. "
        f"{claims['secure_runs']} encrypted runs of all strategies on "
        f"{len({row['data'] for row in results['secure']})} data sets against the same search on "
        "pooled fixed-point columns: same groups, same scores, same selection in "
        f"{sum(row['same_selection'] and row['largest_difference'] < 1e-12 for row in results['secure'])}"
        " of them.\n"
    )


def _value(values: dict, key: str) -> str:
    if key not in values:
        return "-"
    return f"{100 * values[key]:.1f} ± {100 * values[f'{key}_split_error']:.1f}"


def _places(results: dict) -> list[tuple[str, dict]]:
    return [
        (f"{row['data']} {row['wanted']} of {row['n_participants']}", row["methods"])
        for row in results["table"]
    ]


def information(results: dict) -> str:
    """Mutual information of what was selected."""
    rows = [
        [
            place,
            *(f"{methods[m]['mi']:.3f} ± {methods[m]['mi_split_error']:.3f}" for m in METHODS[:5]),
        ]
        for place, methods in _places(results)
    ]
    return table(["selected", *METHODS[:5]], rows)


def accuracy(results: dict) -> str:
    """5-nearest-neighbour test accuracy."""
    rows = [
        [place, *(_value(methods[m], "knn") for m in METHODS)]
        for place, methods in _places(results)
    ]
    claims = results["claims"]
    splits = sorted({row["splits"] for row in results["table"]}, reverse=True)
    return (
        table(["selected", *METHODS], rows)
        + f"\nPer cent of the test rows, mean and standard error over "
        f"{' (birch: '.join(map(str, splits))}{')' if len(splits) > 1 else ''} splits. Mean gap of "
        f"group testing to brute force: {100 * claims['knn_gap_to_brute_force']:.1f} points (3 are "
        "allowed). `greedy` has brute force's mutual information everywhere: "
        f"{'yes' if claims['greedy_equals_brute_force'] else 'no'}; in it, never worse than group "
        "testing by more than a standard error: "
        f"{'yes' if claims['greedy_never_worse'] else 'no'}.\n"
    )


def models(results: dict) -> str:
    """Logistic regression and boosted trees."""
    shown = ("group-testing", "greedy", "lasso", "random", "all")
    rows = [
        [
            place,
            *(
                f"{100 * methods[m]['logistic']:.1f} / {100 * methods[m]['trees']:.1f}"
                for m in shown
            ),
        ]
        for place, methods in _places(results)
        if "logistic" in methods["all"]
    ]
    return table(["selected", *shown], rows)


def leaks(results: dict) -> str:
    """What a curious leader works out."""
    rows = [
        [design, f"{found['solved']:.0%}", f"{found['geometry_r2']:.2f}"]
        for design, found in results["leaks"].items()
    ]
    return table(["run", "parts solved per query", "r² by geometry"], rows)


def training(results: dict) -> str:
    """Selection and secure training, timed in one run."""
    rows = [
        [
            f"{row['rows']:,} rows, {row['classes']} classes, {row['epochs']} epoch{'s' * (row['epochs'] > 1)}",
            *(
                f"{row[what]['processor_seconds']:.1f} / {row[what]['megabytes']:.0f}"
                for what in ("selection", "training")
            ),
            f"{row['ratio']:.0f}",
        ]
        for row in results["training"]
    ]
    return table(["letter, 4 parties", "selection: seconds / MB", "training", "times"], rows)


def own(results: dict) -> str:
    """Who adds to a bank's columns."""
    rows = [
        [
            strength,
            *(f"{found['claims'][name]} of {found['claims']['seeds']}" for name in
              ("named_first", "new_first", "stops_there")),
        ]
        for strength, found in results["own"].items()
    ]  # fmt: skip
    claims = [found["claims"] for found in results["own"].values()]
    same = all(claim["masked_equals_plain"] for claim in claims)
    return (
        table(["new partner", "gains most", "selected first", "search stops there"], rows)
        + f"\nWith masks on {claims[0]['masked_runs']} seeds each: the same selections, gains and "
        f"errors: {'yes' if same else 'no'}.\n"
    )


def control(results: dict) -> str:
    """Points ahead of the sum of a party's ten best F values."""
    summary = results["halves"]["summary"]
    kinds = list(summary)
    rows = [
        [
            method,
            *(
                f"{summary[k][method]['points']:+.1f} ± {summary[k][method]['error']:.1f}"
                for k in kinds
            ),
        ]
        for method in summary[kinds[0]]
        if method != "ten best F"
    ]
    splits = summary[kinds[0]]["ten best F"]["splits"]
    sets = len({run["data"] for run in results["halves"]["runs"]})
    return (
        table(["strategy, scaling", *kinds], rows)
        + f"\nPercentage points of accuracy, mean of three models over {splits} splits of {sets} data "
        "sets in each column, with paired standard errors.\n"
    )


def inline(results: dict) -> dict[str, str]:
    """Figures inside sentences, by name."""
    ratios = [row["ratio"] for row in results["training"]]
    behind = 100 * results["claims"]["knn_gap_to_brute_force"]
    pair = dict(_places(results))["synthesis 2 of 5"]
    ours, every, brute = (pair[m]["knn"] for m in ("group-testing", "all", "brute-force"))
    return {
        "training": f"{min(ratios):.0f} to {max(ratios):.0f} times",
        "gap": f"{abs(behind):.1f} points {'behind' if behind > 0 else 'ahead of'}",
        "synthesis_all": f"{100 * (every - ours):.1f} points",
        "synthesis_brute": f"{100 * (ours - brute):.1f} points",
    }


def read_all() -> dict:
    """All result files of the page."""
    more = {name: load(f"vfps_{name}") for name in ("training", "own", "halves")}
    return load("vfps") | more


PAGE = Page(
    "docs/evidence/vfps.md",
    read_all,
    {
        f.__name__: f
        for f in (cost, exactness, information, accuracy, models, leaks, training, own, control)
    },
    inline,
)
