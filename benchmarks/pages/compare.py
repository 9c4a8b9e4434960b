# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/compare.md from the committed comparison.

Run ``python -m benchmarks.pages compare`` after ``fedsift compare examples/compare.toml`` and
copying its comparison.json to benchmarks/compare.json; ``make bench-check`` compares the page with the file.
"""

from functools import partial

from benchmarks.pages.writer import ROOT, Page, table
from fedsift.lab.compare import Comparison
from fedsift.lab.compare.judge import LABELS
from fedsift.lab.compare.view import sheets_of, with_error

_OTHER_WORK = (
    " Most of the minutes were spent waiting: the machine had other work to do, which seconds below "
    "show as well."
)
SETS = ("madelon", "wine_white", "vehicle", "tox171")
CONTROLS = ("all features", "random", "best local", "pooled")


def facts(found: Comparison) -> str:
    settings = found.settings
    checks = [c for data in found.data for row in data.rows for c in row.leak.values()]
    outside = sum(not check.passed for check in checks)
    again = sum(bool(check.earlier) for check in checks)
    same = [row.verified for data in found.data for row in data.rows if row.verified is not None]
    alone = found.cpu_seconds / settings["workers"]
    shared = found.seconds > 2 * alone
    return (
        f"{settings['folds']} folds, {len(settings['seeds'])} seeds, {len(found.cells)} cells in "
        f"{found.seconds / 60:.1f} minutes ({found.cpu_seconds / 60:.1f} CPU minutes, "
        f"{settings['workers']} processes). Shuffled labels: "
        f"{len(checks)} checks, {again} of them repeated after an alarm, {outside} not chance in "
        f"the end. Encrypted runs selected the same features as plain ones in {sum(same)} of "
        f"{len(same)} cases.{_OTHER_WORK if shared else ''}\n"
    )


def worth(data) -> str:
    sheet = next(iter(sheets_of(data)))
    return table(sheet.header, sheet.rows)


def differences(data) -> str:
    header = ["row", *(f"minus {control}" for control in CONTROLS)]
    model = data.models[0]
    rows = [
        [
            row.label,
            *(with_error(row.differences.get(c, {}).get(model), sign=True) for c in CONTROLS),
        ]
        for row in data.rows
        if row.differences
    ]
    return f"Differences of {LABELS[data.metric]}, {model}:\n\n" + table(header, rows)


def rest(data) -> str:
    sheets = list(sheets_of(data))[2:]
    return "\n".join(f"{s.title}:\n\n" + table(s.header, s.rows) for s in sheets)


def section(found: Comparison, name: str) -> str:
    """Everything about one data set."""
    (data,) = (data for data in found.data if data.name == name)
    size = f"{data.n_rows} rows, {data.n_features} features, {data.setting}, {len(data.parties)} parties"
    notes = "".join(f"- {note}\n" for note in data.notes)
    parts = [
        f"### {data.name}\n",
        f"{size}.\n",
        notes,
        worth(data),
        differences(data),
        rest(data),
    ]
    return "\n".join(part for part in parts if part)


def read() -> Comparison:
    """The committed comparison."""
    return Comparison.load(ROOT / "benchmarks" / "compare.json")


BLOCKS = {"facts": facts, **{name: partial(section, name=name) for name in SETS}}
PAGE = Page("docs/compare.md", read, BLOCKS)
