# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/evidence/filter.md from the committed result file.

Run ``python -m benchmarks.pages filter`` after ``python -m benchmarks false_discoveries --profile
regular --out benchmarks/false_discoveries.json``.
"""

from benchmarks.pages.writer import Page, load, table


def false_discoveries(results: dict) -> str:
    """What is selected by a share of false discoveries, by score."""

    def told(row: dict, name: str) -> str:
        return f"{row[name]['mean']:.3f} ({row[name]['standard_error']:.3f})"

    names = ("false", "found", "pooled_false", "pooled_found")
    rows = [[row["case"], *(told(row, name) for name in names)] for row in results["rows"]]
    return (
        f"{results['federations']} generated federations of 2 to 5 parties, 300 to 800 rows and "
        f"{results['columns']} columns, of which 10 to 50 tell something; wanted share "
        f"{results['fdr']:g}. Means, standard errors in brackets\n"
        "(`benchmarks/false_discoveries.json`). Pooled is scikit-learn's `f` and scipy's procedure "
        "on one table.\n\n"
        + table(
            ["score", "false among selected", "found of those that tell", "pooled: false",
             "pooled: found"],
            rows,
        )
    )  # fmt: skip


PAGE = Page(
    "docs/evidence/filter.md",
    lambda: load("false_discoveries"),
    {"false discoveries": false_discoveries},
)
