# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of what blind trainings select, from ``benchmarks/fedsdg_blind.json``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.pages.writer import table

_JUDGES = ("network", "5-NN", "logistic", "trees")


def percent(found: dict | None) -> str:
    """Mean and standard error in per cent, which one split has none of."""
    if found is None:
        return ""
    if len(found["values"]) == 1:
        return f"{100 * found['mean']:.1f}"
    return f"{100 * found['mean']:.1f} ({100 * found['error']:.1f})"


def selections(rows: list[dict]) -> str:
    """All rows but those of other settings."""
    shown = [row for row in rows if row["part"] in ("suite", "last")]
    header = ["data", "method", "splits", "features", "share", "precision", *_JUDGES]
    return table(header, [_line(row) for row in shown])


def varied(rows: list[dict]) -> str:
    """Other settings, starts, gates and the protocol of the paper."""
    shown = [row for row in rows if row["part"] in ("varied", "ablation")]
    header = ["data", "setting", "splits", "features", "share", "precision", *_JUDGES[:3]]
    return table(header, [_line(row)[:-1] for row in shown])


def _line(row: dict) -> list[str]:
    n = row["n_features"]["mean"]
    seeds = sorted(row["seeds"])
    return [
        row["data"],
        "all features" if row["method"] == "all" else row["method"],
        f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
        f"{n:.0f}",
        f"{100 * n / row['shape'][1]:.1f} %",
        f"{row['precision']['mean']:.2f}" if "precision" in row else "",
        *(percent(row.get(judge)) for judge in _JUDGES),
    ]


def secure(parts: dict) -> str:
    """Encrypted trainings: what they cost, and whether they equal plain ones."""
    lines = [
        [
            row["job"]["data"].upper() + (", predicted" if part == "expected" else ""),
            str(row["batches"]),
            f"{row['cpu_seconds']:.0f} s",
            f"{row['cpu_ratio']:.0f} times" if "cpu_ratio" in row else "",
            f"{row['peak_memory'] / 2**20:.0f} MiB" if part != "expected" else "",
            f"{row['bytes_per_batch_and_client'] / 1e6:.1f} MB",
        ]
        for part in ("whole", "wide", "expected")
        for row in parts.get(part, {"rows": ()})["rows"]
    ]
    header = ["BGV", "batches", "processor", "against plain", "memory", "per batch and client"]
    same = parts.get("parity", {"rows": ()})["rows"]
    return table(header, lines) + ("\n" + _parity(same) if same else "")


def _parity(rows: list[dict]) -> str:
    groups: dict[tuple[str, int], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["job"]["he"], row["job"]["clients"]), []).append(row)
    lines = []
    for (he, clients), group in sorted(groups.items()):
        compared = group[0]["identical"]
        different = [name for name in compared if not all(r["identical"][name] for r in group)]
        cells = len(group), group[0]["passes"], group[0]["trials"]
        lines.append([he, str(clients), *map(str, cells), ", ".join(compared)])
        lines[-1].append(", ".join(different) or "nothing")
    header = ["encryption", "clients", "seeds", "passes", "trials in a round", "compared"]
    return table([*header, "different"], lines)


def bars(rows: list[dict]) -> str:
    """What was asked of the selection, and what was found."""
    known = {(row["data"], row["method"]): row for row in rows if row["part"] == "suite"}
    return table(
        ["bar", "found", "met"],
        [[name, text, "yes" if met else "**no**"] for name, text, met in _bars(known)],
    )


def _bars(known: dict) -> Iterator[tuple[str, str, bool]]:
    def mean(data: str, method: str, name: str) -> float:
        return known[data, method][name]["mean"]

    def share(data: str, method: str) -> float:
        return mean(data, method, "n_features") / known[data, method]["shape"][1]

    def sized(data: str, method: str, judge: str) -> str:
        found = percent(known[data, method][judge])
        return f"{found} with {100 * share(data, method):.1f} %"

    if ("madelon", "blind") in known:
        most = max(known["madelon", "blind"]["n_features"]["values"])
        text = f"{percent(known['madelon', 'blind']['5-NN'])} with at most {most}"
        met = mean("madelon", "blind", "5-NN") >= 0.86 and most <= 20
        yield "MADELON, 5-NN at least 86 with at most 20 features", text, met
        precision = mean("madelon", "blind", "precision")
        yield "MADELON, precision at least 0.9", f"{precision:.2f}", precision >= 0.9
        five = mean("madelon", "5 clients", "5-NN") - mean("madelon", "blind", "5-NN")
        yield (
            "MADELON, 5-NN of five clients within 1 point of two",
            f"{100 * five:+.1f}",
            (five >= -0.01),
        )
    for data, method, least in (("isolet", "10 %", 0.90), ("coil20", "10 %", 0.98)):
        if (data, method) in known:
            met = mean(data, method, "logistic") >= least and share(data, method) <= 0.10
            name = f"{data.upper()}, logistic at least {100 * least:.0f} with at most 10 %"
            yield name, sized(data, method, "logistic"), met
    if ("isolet", "40 %") in known:
        gap = mean("isolet", "40 %", "logistic") - mean("isolet", "all", "logistic")
        yield "ISOLET, logistic within 1 point of all with 40 %", f"{100 * gap:+.1f}", gap >= -0.01
    if ("arcene", "10 %") in known:
        met = mean("arcene", "10 %", "logistic") >= 0.842 and share("arcene", "10 %") <= 0.1
        found = sized("arcene", "10 %", "logistic")
        yield "ARCENE, logistic at least 84.2 with at most 10 %", found, met
    for data in ("basehock", "relathe", "pcmac"):
        if (data, "blind") in known:
            gap = mean(data, "blind", "logistic") - mean(data, "all", "logistic")
            text = f"{100 * gap:+.1f}, {sized(data, 'blind', 'logistic')}"
            met = gap >= -0.02 and share(data, "blind") <= 0.12
            yield f"{data.upper()}, logistic within 2 points of all with at most 12 %", text, met
    if ("friedman", "blind") in known:
        found = known["friedman", "blind"]["found"]["values"]
        complete = sum(n == 5 for n in found)
        text = f"{complete} of {len(found)}; found {', '.join(map(str, found))}"
        yield "FRIEDMAN, all five found on every split", text, complete == len(found)
