# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/evidence/fpso.md from the committed result file.

Run ``python -m benchmarks.pages fpso`` after ``fedsift bench fpso --profile regular --out
benchmarks/fpso.json``; ``make bench-check`` compares the page with the file.
"""

from benchmarks.pages.writer import Page, load, table

BY_CLUSTER = ("musk1", "dna", "satellite")
EXTRA = ("satellite", "cnae9", "orl")
MANY = ("dna", "yale", "cnae9", "orl")
"""Sets with hundreds of features and few rows."""
SHOWN = (
    ("all features", "all features"),
    ("random", "random subset"),
    ("relieff", "ReliefF"),
    ("local", "local only"),
    ("fpso", "FPSO-FS"),
    ("fpso, own if better", "FPSO-FS, own if better"),
    ("best-of-local", "one exchange"),
    ("pooled", "pooled rows"),
)
MODES = ("fpso", "max-min", "best-of-local", "federated-fitness")


def row_of(results: dict, data: str, split: str, parties: int) -> dict | None:
    wanted = (data, split, parties)
    found = [r for r in results["rows"] if (r["data"], r["split"], r["parties"]) == wanted]
    return found[0] if found else None


def own_split(data: str) -> str:
    return "kmeans" if data in BY_CLUSTER else "random"


def accuracy(row: dict, name: str) -> str:
    return f"{row['accuracy'][name]:.1f} ({row['standard_error'][name]:.1f})"


def effect(row: dict | None, name: str = "effect_of_federation") -> str:
    if row is None:
        return ""
    gain = row[name]
    return f"{gain['mean']:+.1f} ({gain['corrected_standard_error']:.1f})"


def sets(results: dict) -> list[str]:
    return [*results["paper"]["table_2"], *EXTRA]


def accuracy_table(results: dict, which: str) -> str:
    """Three parties: every method, by the paper's kind of split or by the other one."""
    other = {"random": "kmeans", "kmeans": "random"}
    rows = []
    for data in sets(results):
        split = own_split(data) if which == "own" else other[own_split(data)]
        row = row_of(results, data, split, 3)
        if row is None:
            continue
        n, d = row["shape"]
        printed = results["paper"]["table_2"].get(data)
        line = [data, f"{n} x {d}, {row['n_classes']}", "k-means" if split == "kmeans" else split]
        line += [accuracy(row, name) for name, _ in SHOWN]
        line += [effect(row), f"{row['n_features']['fpso']:.0f}"]
        if which == "own":
            line.append(f"{printed[0]:.1f} ± {printed[1]:.1f}" if printed else "")
        rows.append(line)
    header = ["data", "rows x features, classes", "split", *(title for _, title in SHOWN)]
    header += ["federation - local", "features"]
    return table(header + (["paper"] if which == "own" else []), rows)


def parties_table(results: dict) -> str:
    """The effect of federation by split and number of parties, and its mean."""
    columns = [(split, m) for split in ("random", "kmeans") for m in (2, 3, 4, 5)]
    rows = [
        [data, *(effect(row_of(results, data, *column)) for column in columns)]
        for data in results["paper"]["table_2"]
    ]
    means = [results["overall"][f"{split} M={m}"] for split, m in columns]
    rows.append(
        ["**mean**", *(f"{m['federation']:+.1f} ({m['standard_error']:.1f})" for m in means)]
    )
    own = [f"{m['own_if_better']:+.1f} ({m['own_if_better_standard_error']:.1f})" for m in means]
    rows.append(["mean, own if better", *own])
    rows.append(["sets with a gain", *(f"{m['better']} of {m['data_sets']}" for m in means)])
    header = [f"{'k-means' if split == 'kmeans' else split}, M={m}" for split, m in columns]
    return table(["data", *header], rows)


def span(values: list[float]) -> str:
    """The smallest and the largest of some gains."""
    return f"{min(values):+.1f} to {max(values):+.1f}"


def effect_text(results: dict) -> str:
    """What the table of effects says, in words whose figures come from the file."""
    means = {
        split: [results["overall"][f"{split} M={m}"] for m in (2, 3, 4, 5)]
        for split in ("random", "kmeans")
    }
    federation = {s: span([m["federation"] for m in v]) for s, v in means.items()}
    own = {s: span([m["own_if_better"] for m in v]) for s, v in means.items()}
    table_2 = [row for row in results["rows"] if row["data"] in results["paper"]["table_2"]]
    clear = [
        row["effect_of_federation"]["mean"]
        for row in table_2
        if abs(row["effect_of_federation"]["mean"])
        > 2 * row["effect_of_federation"]["corrected_standard_error"]
    ]
    ahead = sum(gain > 0 for gain in clear)
    optimism = [row["claimed"] - row["accuracy"]["fpso"] for row in table_2]
    return (
        f"Where rows are dealt out by chance, the common subset is {federation['random']} points ahead of a local search on the mean, more with more "
        f"and smaller parties. Where parties differ (k-means), it is {federation['kmeans']}: what serves all is not what serves each. "
        f"Of {len(table_2)} single comparisons {len(clear)} differ from zero by more than two corrected standard errors, {ahead} of them in favour of federation. "
        f"Keeping the own subset where it is better on the own training rows (`party_support_`) gives {own['random']} with random rows and {own['kmeans']} with "
        f"clusters: the safe choice. The accuracy that the search reports is {sum(optimism) / len(optimism):.1f} points too high on the mean.\n"
    )


def trend_table(results: dict) -> str:
    """Accuracy of FPSO-FS by number of parties."""
    columns = [(split, m) for split in ("random", "kmeans") for m in (2, 3, 4, 5)]
    rows = [
        [data, *(accuracy(row_of(results, data, *column), "fpso") for column in columns)]
        for data in results["paper"]["table_2"]
    ]
    means = [results["overall"][f"{split} M={m}"]["mean_accuracy"]["fpso"] for split, m in columns]
    rows.append(["**mean**", *(f"{mean:.1f}" for mean in means)])
    header = [f"{'k-means' if split == 'kmeans' else split}, M={m}" for split, m in columns]
    return table(["data", *header], rows)


def printed_table(results: dict) -> str:
    """Table 3 of the paper beside the same comparison here."""
    rows = []
    for data, (local, federated) in results["paper"]["table_3"].items():
        row = row_of(results, data, own_split(data), 3)
        here = " to ".join(f"{row['accuracy'][name]:.1f}" for name in ("local", "fpso"))
        printed = f"{local:.1f} to {federated:.1f}"
        rows.append([data, printed, f"{federated - local:+.1f}", here, effect(row)])
    header = ["data", "paper: local to FPSO-FS", "paper: gain"]
    return table([*header, "here: local to FPSO-FS", "here: gain"], rows)


def modes_table(results: dict) -> str:
    """The ways to find a common subset, three parties with random rows."""
    rows = []
    for data in sets(results):
        row = row_of(results, data, "random", 3)
        if row is not None:
            rows.append([data, *(accuracy(row, name) for name in MODES)])
    mean = results["overall"]["random M=3"]["mean_accuracy"]
    rows.append(["**mean of Table 2**", *(f"{mean[name]:.1f}" for name in MODES)])
    return table(
        ["data", "rounds, mean", "rounds, max-min", "one exchange", "federated-fitness"], rows
    )


def speed_table(results: dict) -> str:
    rows = [
        [
            f"{row['data']} {row['shape'][0]} x {row['shape'][1]}",
            f"{1e3 * row['scikit_learn']:.0f} ms",
            f"{1e3 * row['seconds']:.1f} ms",
            f"{row['ratio']:.0f}",
            f"{row['different_rows']} of {20 * row['shape'][0]}",
            str(row["different_without_tie"]),
        ]
        for row in results["speed"]
    ]
    header = ["one party's rows", "scikit-learn, fold by fold", "here", "times faster"]
    return table([*header, "different predictions", "of them without a tie"], rows)


def leaks_table(results: dict) -> str:
    rows = []
    for row in results["leaks"]:
        for source in ("accuracies", "subsets"):
            if source in row:
                found = row[source]
                rows.append(
                    [
                        row["data"],
                        f"`{row['aggregation']}`",
                        f"`{row['mode']}`",
                        "accuracies" if source == "accuracies" else "whose subset is whose",
                        f"{found['error']:.1f} ({found['standard_error']:.1f})",
                        f"{row['told_the_mean']:.1f}",
                        f"{found['right_order']:.0f} % of {found['pairs']}",
                    ]
                )
    header = ["data", "aggregation", "mode", "what it looks at", "error, points"]
    return table(
        [*header, "error of a guesser told the mean", "pairs of parties in the right order"], rows
    )


def cost_text(results: dict) -> str:
    seconds = results["seconds"]
    sizes = sorted(row["bytes"] for row in results["rows"] if row["parties"] == 3)
    machine = results["machine"]
    return (
        f"The nine sets of Table 2 (2 to 5 parties, two splits, {results['rows'][0]['runs']} runs, all methods) took "
        f"{seconds['table 2, processor time'] / 60:.0f} minutes of processor time, that is {seconds['table 2, processor time'] / 60 / seconds['workers']:.0f} minutes of "
        f"{seconds['workers']} cores; by the clock {seconds['table 2'] / 60:.0f} minutes with {seconds['workers']} workers on {machine['cores']} cores that had other work to do. "
        f"A run of the protocol with three parties sends {sizes[0] / 1e3:.0f} to {sizes[-1] / 1e3:.0f} kB.\n"
    )


BLOCKS = {
    "accuracy": lambda results: accuracy_table(results, "own"),
    "accuracy, other split": lambda results: accuracy_table(results, "other"),
    "parties": parties_table,
    "effect": effect_text,
    "trend": trend_table,
    "printed": printed_table,
    "modes": modes_table,
    "speed": speed_table,
    "leaks": leaks_table,
    "cost": cost_text,
}


def kept_of_many(results: dict) -> str:
    """Share of the features that FPSO-FS keeps of hundreds."""
    rows = [row_of(results, data, "random", 3) for data in MANY]
    shares = [100 * row["n_features"]["fpso"] / row["shape"][1] for row in rows if row]
    return f"{min(shares):.0f} to {max(shares):.0f} %"


PAGE = Page(
    "docs/evidence/fpso.md",
    lambda: load("fpso"),
    BLOCKS,
    lambda results: {"kept": kept_of_many(results)},
)
