# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/differential-privacy.md from the committed result file.

Run ``python -m benchmarks.pages dp`` after ``fedsift bench dp --profile regular --out
benchmarks/dp.json``; ``make bench-check`` compares the page with the file.
"""

from benchmarks.pages.writer import Page, load, table


def courses(results: dict, promise: str, key: str) -> str:
    """One table per data set: a line per budget, a pair of columns per course."""
    texts = []
    rows = [row for row in results["rows"] if row["job"]["promise"] == promise]
    for name in dict.fromkeys(row["job"]["data"] for row in rows):
        own = [row for row in rows if row["job"]["data"] == name]
        kinds = list(dict.fromkeys(row["job"][key] for row in own))
        with_delta = any(row["job"]["delta"] for row in own)
        lines = []
        for budget in dict.fromkeys((row["job"]["epsilon"], row["job"]["delta"]) for row in own):
            epsilon, delta = budget
            cells = ["none" if epsilon is None else f"{epsilon:g}"]
            cells += [f"{delta:g}"] if with_delta else []
            for kind in kinds:
                row = next(
                    row
                    for row in own
                    if row["job"][key] == kind
                    and (row["job"]["epsilon"], row["job"]["delta"]) == budget
                )
                cells += [_shown(row["overlap"]), _shown(row["accuracy"])]
            lines.append(cells)
        header = ["epsilon", *(["delta"] if with_delta else [])]
        for kind in kinds:
            before = f"{kind}: " if len(kinds) > 1 else ""
            header += [f"{before}overlap", f"{before}accuracy"]
        texts.append(f"**{name}**, {own[0]['n_seeds']} seeds\n\n{table(header, lines)}")
    return "\n".join(texts)


def counts(results: dict) -> str:
    """Noisy counts of a filter."""
    return courses(results, "counts", "setting")


def selection(results: dict) -> str:
    """Drawn selections of a filter."""
    return courses(results, "selection", "score")


def votes(results: dict) -> str:
    """Votes of blocks, and the search without a budget where it was run."""
    text = courses(results, "votes", "setting")
    for row in results["rows"]:
        if row["job"]["promise"] == "rounds":
            accuracy = _shown(row["accuracy"])
            text += f"\nFPSO-FS without a budget on {row['job']['data']}: accuracy {accuracy}.\n"
    return text


def interactions(results: dict) -> str:
    """A filter beside features drawn by interactions, which is not offered."""
    return courses(results, "interactions", "score")


def limits(results: dict) -> str:
    """What importances of participants would need."""
    *rows, last = results["limits"]
    header = [
        "rows",
        "epsilon",
        "noise of each of 4 importances (nats)",
        "odds of a participant that knows all, 2 of 4 to choose",
        "odds of a feature with relevance 0.2, 10 to choose by interactions",
    ]
    lines = [
        [
            f"{row['n_rows']:,}",
            f"{row['epsilon']:g}",
            f"{row['noise_of_importances']:.1f}",
            f"{row['odds_of_a_participant']:.2f}",
            _odds(row["odds_of_a_feature"]),
        ]
        for row in rows
    ]
    hub = last["hub"]
    return (
        f"{table(header, lines)}\nIn the example of `benchmarks.suites.dp.bounds.a_hub` with "
        f"{hub['n_rows']:,} rows, one row changes an importance by {hub['change_by_one_row']:.2f} "
        f"nats; the bound is {hub['bound']:.2f}.\n"
    )


def _odds(value: float) -> str:
    return f"{value:.2f}" if value < 1000 else "above 1,000"


def _shown(value: dict) -> str:
    return f"{value['mean']:.3f} ± {value['standard_error']:.3f}"


PAGE = Page(
    "docs/differential-privacy.md",
    lambda: load("dp"),
    {
        "counts": counts,
        "selection": selection,
        "votes": votes,
        "interactions": interactions,
        "limits": limits,
    },
)
