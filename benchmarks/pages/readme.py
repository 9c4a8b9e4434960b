# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the benchmark tables of the README from committed result files: no figure by hand.

Run ``python -m benchmarks.pages readme`` after ``make bench``; ``make bench-check`` compares the two.
"""

from benchmarks.pages import interaction, stepwise
from benchmarks.pages.writer import Page, load, table

CASES = (
    ("fedsdg", "cost madelon bgv 2 clients", "2,600 rows, 500 features, 960 batches of a training"),
    ("interaction", "wine_white miw complete", "4,898 rows, 11 features, all ranked"),
    ("vfps", "large letter m=4 group-testing", "20,000 rows, 4 participants, 400 queries"),
    ("vfps", "large letter m=16 group-testing", "20,000 rows, 16 participants, 200 queries"),
    ("dcfs", "run tox171, 2 parties", "171 rows, 5,748 features, 2 parties"),
    ("dcfs", "run generated 500 x 20000, 2 parties", "500 rows, 20,000 features, 2 parties"),
)


def filters(results: dict) -> str:
    """All cases of suite ``filters``."""
    rows = []
    for row in results["rows"]:
        job = row["job"]
        seconds = f"{row['seconds']:.2f} ± {row['standard_error']:.2f}"
        rows.append(
            [
                f"{job['rows']:,} x {job['features']}",
                job["disclose"],
                job["he"],
                f"{row['seconds']:.1f}" if row["n"] == 1 else seconds,
                f"{row['ratio']:.0f}x" if "ratio" in row else "",
                f"{row['bytes'] / 1e6:.2f}",
                f"{row['peak_memory'] / 2**20:.0f}",
            ]
        )
    header = ["rows x features", "label holder learns", "encryption", "seconds", "ratio"]
    return table([*header, "MB incl. keys", "peak MiB"], rows)


def methods(_: dict) -> str:
    """One or two whole encrypted runs of the other methods."""
    rows = []
    for name, case, words in CASES:
        results = load(name)
        timed = (*results["rows"], *results.get("secure", ()))
        row = next(row for row in timed if row.get("case") == case)
        rows.append(
            [
                f"[`{name}`](docs/methods/{name}.md)",
                words,
                f"{row['seconds']:.1f}",
                f"{row['bytes'] / 1e6:.1f}",
                f"{row['peak_memory'] / 2**20:.0f}",
            ]
        )
    return table(["method", "case", "seconds", "MB sent", "peak MiB"], rows)


def inline(_: dict) -> dict[str, str]:
    """Figures of evidence pages that the questions at the top quote."""
    quoted = stepwise.PAGE.inline(load("stepwise")), interaction.PAGE.inline(load("interaction"))
    return {"lead": quoted[0]["lead_f"], "pure": quoted[1]["pure"]}


PAGE = Page("README.md", lambda: load("filters"), {"filters": filters, "methods": methods}, inline)
