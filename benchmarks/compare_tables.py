"""Write the tables of docs/compare.md from the committed comparison.

Run ``python benchmarks/compare_tables.py`` after ``fedsift compare examples/compare.toml`` and
copying its comparison.json to benchmarks/compare.json; a test compares the page with the file.
"""

import re
from pathlib import Path

from fedsift.evaluate import Comparison
from fedsift.evaluate.compare_view import sheets_of, with_error
from fedsift.evaluate.metrics import LABELS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "compare.json"
PAGE = ROOT / "docs" / "compare.md"
_OTHER_WORK = (
    " Most of the minutes were spent waiting: the machine had other work to do, which seconds below "
    "show as well."
)
CONTROLS = ("all features", "random", "best local", "pooled")


def table(header, rows) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


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


def blocks(found: Comparison) -> dict[str, str]:
    made = {"facts": facts(found)}
    for data in found.data:
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
        made[data.name] = "\n".join(part for part in parts if part)
    return made


def updated(page: str, found: Comparison) -> str:
    for name, text in blocks(found).items():
        pattern = rf"(<!-- figures:{name} -->\n).*?(<!-- /figures -->)"
        page, n = re.subn(pattern, lambda m, t=text: m[1] + t + m[2], page, flags=re.DOTALL)
        assert n == 1, name
    return page


if __name__ == "__main__":
    PAGE.write_text(
        updated(PAGE.read_text(encoding="utf-8"), Comparison.load(RESULTS)), encoding="utf-8"
    )
