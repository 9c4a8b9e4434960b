# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/evidence/fedsdg.md from the committed result files.

Run ``python -m benchmarks.pages fedsdg`` after ``fedsift bench fedsdg --profile regular --out
benchmarks/fedsdg.json``, ``python -m benchmarks.suites.fedsdg.stg``, ``python -m benchmarks.suites.fedsdg.leaks``,
``python -m benchmarks.suites.fedsdg.rivals`` and ``python -m benchmarks.suites.fedsdg.exact``; ``make bench-check`` compares the page with the files.
"""

import statistics

from benchmarks.pages import fedsdg_blind, fedsdg_rivals
from benchmarks.pages.writer import Page, listed, load, table
from benchmarks.suites.fedsdg import leaks as fedsdg_leaks
from benchmarks.suites.fedsdg.accuracy import NETWORK_ON_TRUE

SHOWN = (
    ("all", "all features"),
    ("sffs 50 %", "SFFS 50 %"),
    ("ms-gini 50 %", "MS-GINI 50 %"),
    ("vflfs 50 %", "VFLFS 50 %"),
    ("random, same number", "random, same number"),
    ("ms-gini, same number", "MS-GINI, same number"),
    ("original-gate", "original gate"),
    ("fedsdg", "FedSDG-FS"),
)
EXTRA = (
    ("madelon", "fedsdg, refit", "MADELON, refit"),
    ("madelon", "fedsdg, 5 clients", "MADELON, 5 clients"),
    ("friedman", "fedsdg, refit", "FRIEDMAN, refit"),
    ("madelon", NETWORK_ON_TRUE, "MADELON, the 20 true features and the same network"),
    ("madelon", "true features, 5-NN", "MADELON, the 20 true features and 5-NN"),
    ("madelon", "true features, SVM", "MADELON, the 20 true features and an RBF-SVM"),
    ("isolet", "fedsdg 15 %", "ISOLET, `n_features_to_select=0.15`"),
    ("isolet", "fedsdg 40 %", "ISOLET, `n_features_to_select=0.4`"),
)
BY_NUMBER = {
    "all": "all features",
    "fedsdg 15 %": "the gates' choice, 15 %",
    "fedsdg 40 %": "the gates' choice, 40 %",
    "fedsdg elimination 15 %": "elimination, 15 %",
    "fedsdg elimination 40 %": "elimination, 40 %",
}
PAPER = {
    "madelon": (99.2, 3), "arcene": (99.8, 58), "basehock": (99.9, 30), "relathe": (99.8, 41),
    "pcmac": (98.7, 45), "coil20": (97.5, 71), "isolet": (96.7, 75),
}  # fmt: skip
"""FedSDG-FS in the paper's Table III: test accuracy and share of features, per cent."""


def by_name(results: dict) -> dict:
    return {(row["data"], row["method"]): row for row in results["rows"]}


def sets(results: dict) -> list[str]:
    return list(dict.fromkeys(row["data"] for row in results["rows"]))


def percent(row: dict) -> str:
    return f"{100 * row['mean']:.1f} ({100 * row['standard_error']:.1f})"


def share(row: dict) -> str:
    return f"{100 * row['share']:.1f} %"


def accuracy(results: dict) -> str:
    rows, lines = by_name(results), []
    for data in sets(results):
        n, d = rows[data, "fedsdg"]["shape"]
        n_seeds = len(rows[data, "fedsdg"]["seeds"])
        name = f"{data} (R2)" if data == "friedman" else data
        line = [name, f"{n} x {d}", str(n_seeds)]
        for method, _ in SHOWN:
            if (data, method) not in rows:
                line.append("")
                continue
            row = rows[data, method]
            text = percent(row)
            if method in ("original-gate", "fedsdg"):
                text += f" / {share(row)}"
            line.append(text)
        lines.append(line)
    return table(["data", "rows x features", "splits", *(title for _, title in SHOWN)], lines)


def chosen(results: dict) -> str:
    rows, lines = by_name(results), []
    for data in ("madelon", "friedman", "gisette_like"):
        for method, title in (SHOWN[-3], SHOWN[-2], SHOWN[-1]):
            if (data, method) not in rows:
                continue
            row = rows[data, method]
            lines.append(
                [
                    data,
                    title,
                    ", ".join(map(str, row["n_features"])),
                    ", ".join(map(str, row["found"])),
                    f"{sum(row['precision']) / len(row['precision']):.2f}",
                ]
            )
    peer = results["stg"]
    seeds = peer["seeds"]
    lines.append(
        [
            "madelon",
            f"`stg` {peer['version']}, one party",
            ", ".join(str(s["n_features"]) for s in seeds),
            ", ".join(str(s["found"]) for s in seeds),
            f"{sum(s['found'] / max(1, s['n_features']) for s in seeds) / len(seeds):.2f}",
        ]
    )
    return table(["data", "method", "selected, by seed", "relevant among them", "precision"], lines)


def variants(results: dict) -> str:
    rows = by_name(results)
    lines = [
        [title, percent(rows[data, method]), share(rows[data, method])]
        for data, method, title in EXTRA
        if (data, method) in rows
    ]
    peer = results["stg"]
    lines.append([f"MADELON, `stg` {peer['version']}, all columns in one place", percent(peer), ""])
    return table(["", "test score", "features"], lines)


def paper(results: dict) -> str:
    rows, lines = by_name(results), []
    for data, (printed, ratio) in PAPER.items():
        ours = rows[data, "fedsdg"]
        best = max(row["mean"] for (name, _), row in rows.items() if name == data)
        lines.append(
            [
                data,
                f"{printed:.1f} / {ratio} %",
                f"{percent(ours)} / {share(ours)}",
                f"{100 * best:.1f}",
            ]
        )
    return table(["data", "paper, Table III", "here", "best of any method here"], lines)


def identity(results: dict) -> str:
    """A line for every kind of training, over its seeds."""
    groups: dict[tuple[str, str, str, str], list[dict]] = {}
    for row in results["secure"]:
        if "identical" in row:
            job, size = row["job"], f"{row['epochs']} epochs, {row['batches']} batches"
            rows = str(job.get("rows", "all"))
            groups.setdefault((job["he"], str(job["clients"]), rows, size), []).append(row)
    lines = []
    for key, group in groups.items():
        found = [(name, equal) for row in group for name, equal in row["identical"].items()]
        different = dict.fromkeys(name for name, equal in found if not equal)
        same = dict.fromkeys(name for name, _ in found if name not in different)
        seeds = sorted({row["job"]["seed"] for row in group})
        shown = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
        lines.append([*key, shown, ", ".join(same), ", ".join(different) or "nothing"])
    header = ["encryption", "clients", "rows", "training", "seeds"]
    return table([*header, "identical to plain", "different"], lines)


def cost(results: dict) -> str:
    parts = {row["job"]["part"]: row for row in results["secure"]}
    run, full, other = (parts[name] for name in ("cost", "batch 256", "python-paillier"))
    batch = full["seconds"] / full["batches"]
    lines = [
        [
            f"whole encrypted training, {run['batches']} smaller batches",
            f"{run['seconds']:.0f} s",
            "under 720 s",
        ],
        [
            "peak memory, all parties together",
            f"{run['peak_memory'] / 2**20:.0f} MiB",
            "under 2048",
        ],
        ["the whole against a plain training of the same code", f"{run['ratio']:.1f} times", ""],
        [
            f"batches of 256 (`min_batches=1`, {full['epochs']} epochs) against plain",
            f"{full['ratio']:.1f} times",
            "at most 40",
        ],
        [
            "traffic per batch and client",
            f"{full['bytes_per_batch_and_client'] / 1e6:.2f} MB",
            "under 3 MB",
        ],
        ["one batch, both clients", f"{1e3 * batch:.0f} ms", ""],
        ["the same with python-paillier", f"{other['seconds']:.0f} s", ""],
        ["times faster than python-paillier", f"{other['seconds'] / batch:.0f}", "at least 100"],
    ]
    return table(["MADELON, embedding 16, two clients", "", "bar"], lines)


def prediction(results: dict) -> str:
    lines = []
    for row in results["secure"]:
        if "saving" not in row:
            continue
        gated, fixed = (row["sizes"][name]["without keys"] for name in ("gated", "fixed width"))
        lines.append(
            [
                row["job"]["he"],
                str(row["job"]["settings"]["embedding"]),
                str(row["rows"]),
                f"{row['open_embeddings']} of {row['embeddings']}",
                f"{fixed / 1e6:.2f} MB",
                f"{gated / 1e6:.2f} MB",
                f"{100 * row['saving_without_keys']:.0f} %",
                f"{100 * row['saving']:.0f} %",
            ]
        )
    header = [
        "encryption",
        "embedding",
        "rows",
        "columns in use",
        "all columns",
        "columns in use only",
    ]
    return table([*header, "saved", "saved, keys counted"], lines)


def exact(results: dict) -> str:
    """Test rows of splits nobody had looked at, and rows that choices were made on."""
    header, columns = [""], []
    for title, rows in exact_parts(results).items():
        header += [title, "against all"]
        columns.append(rows)
    lines = []
    for method, title in BY_NUMBER.items():
        line = [title]
        for rows in columns:
            if method in rows:
                line += [percent(rows[method]), "" if method == "all" else behind([rows], method)]
            else:
                line += ["", ""]
        lines.append(line)
    both = [rows for rows in columns if "fedsdg elimination 15 %" in rows]
    tried = [rows for title, rows in exact_parts(results).items() if title.startswith("16, test")]
    sums = [
        ["16 outputs: elimination against the gates' choice, splits that have both"]
        + [
            behind(both, f"fedsdg elimination {share} %", f"fedsdg {share} %") for share in (15, 40)
        ],
        ["16 outputs: the gates' choice against all, test rows of all splits"]
        + [behind(tried, f"fedsdg {share} %") for share in (15, 40)],
    ]
    wide = list(exact_parts(results).values())[-1]
    seeds = wide["all"]["seeds"]
    for start in range(0, len(seeds), 5):
        five = slice(start, start + 5)
        sums.append(
            [
                f"32 outputs: the same, test rows of splits {seeds[five][0]} to {seeds[five][-1]} alone"
            ]
            + [points(points_behind([wide], f"fedsdg {share} %")[five]) for share in (15, 40)]
        )
    return table(header, lines) + "\n" + table(["together", "15 %", "40 %"], sums)


def exact_parts(results: dict) -> dict[str, dict]:
    """Rows by method of every part, by outputs of the layer, kind of rows, and splits."""
    found = results["exact"]
    wide = [row for row in results["rows"] if row["data"] == "isolet"]
    parts = (
        ("16, test rows", found["before"]),
        ("16, test rows", found["rows"]),
        ("16, test rows", found["many"]["rows"]),
        ("16, training rows", found["inside"]),
        ("32, training rows", found["wide"]),
        ("32, test rows", wide),
    )
    return {
        f"{title}, splits {rows[0]['seeds'][0]} to {rows[0]['seeds'][-1]}": {
            row["method"]: row for row in rows
        }
        for title, rows in parts
    }


def points_behind(parts: list[dict], method: str, other: str = "all") -> list[float]:
    return [
        100 * (one - two)
        for rows in parts
        for one, two in zip(rows[method]["scores"], rows[other]["scores"], strict=True)
    ]


def behind(parts: list[dict], method: str, other: str = "all") -> str:
    """Points against another method on the same splits, and the difference's standard error."""
    return points(points_behind(parts, method, other))


def points(found: list[float]) -> str:
    """Mean and its standard error."""
    error = statistics.stdev(found) / len(found) ** 0.5
    return f"{statistics.mean(found):+.1f} ({error:.1f})"


def bars(results: dict) -> str:
    found = results["bars"]
    lines = [[name, bar["found"], "yes" if bar["met"] else "**no**"] for name, bar in found.items()]
    ours, peer = by_name(results)["madelon", "fedsdg"], results["stg"]
    lines.append(
        [
            "MADELON not behind `stg` by more than one standard error",
            f"{percent(ours)} against {percent(peer)}",
            "yes" if not_behind(ours, peer) else "**no**",
        ]
    )
    return table(["bar", "found", "met"], lines)


def not_behind(ours: dict, peer: dict) -> bool:
    """One standard error of the difference of two means."""
    error = (ours["standard_error"] ** 2 + peer["standard_error"] ** 2) ** 0.5
    return ours["mean"] >= peer["mean"] - error


def against_all(results: dict) -> str:
    """Where gates gain or lose accuracy against all features."""
    rows = by_name(results)
    compared = {}
    for data in sets(results):
        ours, every = rows[data, "fedsdg"], rows[data, "all"]
        errors = ours["standard_error"], every["standard_error"]
        compared[data] = (ours["mean"] - every["mean"], *errors, ours["share"])
    return gains_and_losses(compared)


def blind_against_all(results: dict) -> str:
    """The same of the default's selection, by the better of two judges on either side."""
    rows = {(r["data"], r["method"]): r for r in results["blind"]["rows"] if r["part"] == "suite"}
    compared = {}
    for data in sorted({data for data, _ in rows}):
        ours, every = (
            max((row["5-NN"], row["logistic"]), key=lambda found: found["mean"])
            for row in (rows[data, "blind"], rows[data, "all"])
        )
        share = rows[data, "blind"]["n_features"]["mean"] / rows[data, "blind"]["shape"][1]
        compared[data] = (ours["mean"] - every["mean"], ours["error"], every["error"], share)
    return gains_and_losses(compared)


def gains_and_losses(compared: dict[str, tuple[float, float, float, float]]) -> str:
    """A sentence on differences of scores, beyond two standard errors and points, and shares."""
    gains, alike, losses, shares = {}, [], {}, []
    for data, (difference, *errors, share) in compared.items():
        points, error = 100 * difference, 100 * sum(e**2 for e in errors) ** 0.5
        if abs(points) > max(2.0, 2 * error):
            (gains if points > 0 else losses)[data] = points
        else:
            alike.append(points)
            shares.append(100 * share)
    return (
        f"on {listed(map(str.upper, gains))} a model is better for it "
        f"({listed(f'{p:+.0f}' for p in gains.values())} points); on {len(alike)} other sets it is about "
        f"as good ({min(alike):+.1f} to {max(alike):+.1f} points) with {min(shares):.0f} to "
        f"{max(shares):.0f} % of the features, and on {listed(map(str.upper, losses))} it loses "
        f"{listed(f'{-p:.0f}' for p in losses.values())} points"
    )


def ceiling(results: dict) -> str:
    """How much of what MADELON's true features are worth is lost to the selection, and how much not."""
    rows = by_name(results)
    ours, network, nearest = (
        rows["madelon", name] for name in ("fedsdg", NETWORK_ON_TRUE, "true features, 5-NN")
    )
    behind, own = (100 * (nearest["mean"] - row["mean"]) for row in (ours, network))
    return (
        f"the same network reaches {100 * network['mean']:.1f} "
        f"({100 * network['standard_error']:.1f}) %. Of the {behind:.1f} points that FedSDG-FS is "
        f"behind the best classifier on true features, {own:.1f} are the network's"
    )


def leaks(results: dict) -> str:
    return fedsdg_leaks.table(results["leaks"]) + "\n"


BLOCKS = {
    "accuracy": accuracy,
    "chosen": chosen,
    "variants": variants,
    "paper": paper,
    "identity": identity,
    "cost": cost,
    "prediction": prediction,
    "exact": exact,
    "bars": bars,
    "leaks": leaks,
    "rivals": lambda results: fedsdg_rivals.rivals(results["rivals"]["rows"]),
    "blind": lambda results: fedsdg_blind.selections(results["blind"]["rows"]),
    "blind varied": lambda results: fedsdg_blind.varied(results["blind"]["rows"]),
    "blind secure": lambda results: fedsdg_blind.secure(results["blind_secure"]),
    "blind bars": lambda results: fedsdg_blind.bars(results["blind"]["rows"]),
}


def read() -> dict:
    """The suite's results, with those of the peer, of the attacks and by number of features."""
    parts = {
        "stg": "fedsdg_stg",
        "leaks": "fedsdg_leaks",
        "exact": "fedsdg_exact",
        "blind": "fedsdg_blind",
        "blind_secure": "fedsdg_blind_secure",
        "rivals": "fedsdg_rivals",
    }
    return load("fedsdg") | {name: load(file) for name, file in parts.items()}


def inline(results: dict) -> dict[str, str]:
    """Figures inside sentences, by name."""
    return {
        "against_all": against_all(results),
        "blind_against_all": blind_against_all(results),
        "ceiling": ceiling(results),
    }


PAGE = Page("docs/evidence/fedsdg.md", read, BLOCKS, inline)
