# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reproduction.md from paper_*.toml, results_*.json and reasons.toml.

No number is typed by hand: those of the papers are in paper_*.toml, ours in results_*.json, which
``python -m benchmarks.reproduce`` writes.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.pages.writer import table
from benchmarks.reproduce import verdicts

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "reproduction.md"
PAPERS = ("000", "001", "002", "003", "004")
ORDER = (verdicts.REPRODUCED, verdicts.NOT_REPRODUCED, verdicts.NOT_TESTABLE)

VERDICT = """\
# Reproduction of the five papers

## Verdict

We tried to reproduce every table, and the experiment behind every figure, of the five papers that fedsift implements. Of {total} printed numbers and statements, \
{reproduced} are reproduced, {not_reproduced} are not, and {not_testable} cannot be tested: their data is not public, the paper prints nothing to compare with, or our error is too large.

- **FedSDG-FS** ([evidence](evidence/fedsdg.md)): holds in part. Gates do find few useful features without a given number. The printed accuracies are out of reach on the public data, and gradients reveal labels.
- **Interaction** ([evidence](evidence/interaction.md)): holds once the formula is corrected. As printed, a missing minus sign makes it punish the pairs it looks for. It costs far less here than the paper counts.
- **VF-PS** ([evidence](evidence/vfps.md)): holds for speed, and the selected group is about as good as the best one. Whether few participants are as good as all depends on the data.
- **DCFS** ([evidence](evidence/dcfs.md)): does not hold. With honestly chosen parameters it is not reliably better than selection by each party alone, and images of known anchors reveal rows.
- **FPSO-FS** ([evidence](evidence/fpso.md)): holds in direction, not in size. Searching together helps small parties with similar rows, by points and not by tens of points. Accuracies are not harmless.

"""

INTRODUCTION = """\
## How this page is made

The rest of this page is an appendix: the paper's number where it prints one, ours, the difference, and a verdict for each cell. \
`benchmarks/reproduce/page.py` writes it; the papers' numbers are in `benchmarks/reproduce/paper_*.toml`, ours with all runs behind them in \
`benchmarks/reproduce/results_*.json`. `python -m benchmarks.reproduce` makes runs that are missing and writes results and page (`--fresh` makes all of them again; \
data sets that do not come with fedsift are read from `FEDSIFT_DATA`).

"""


def load(paper: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What a paper prints, what we found, and the words that explain differences."""
    printed = tomllib.loads((HERE / f"paper_{paper}.toml").read_text(encoding="utf-8"))
    results = json.loads((HERE / f"results_{paper}.json").read_text(encoding="utf-8"))
    reasons = tomllib.loads((HERE / "reasons.toml").read_text(encoding="utf-8"))
    return printed, results, reasons[paper]


Cell = tuple[dict[str, Any], str, str, verdicts.Judgement, dict[str, Any] | None, str]
"""Item, row, column, judged line, our answer, and why."""


def cells_of(
    printed: dict[str, Any], results: dict[str, Any], reasons: dict[str, Any]
) -> Iterator[Cell]:
    """Every cell of every table and figure of a paper, judged."""
    for item in printed["item"]:
        for row, *values in item["rows"]:
            for column, value in zip(item["columns"], values, strict=True):
                if value == "" and item["columns"] != ["claim"]:
                    continue  # the paper leaves the cell empty
                answer = results["cells"].get(item["id"], {}).get(row, {}).get(column)
                line = verdicts.judge(item, value, answer)
                why = line.because
                if not why and line.verdict != verdicts.REPRODUCED:
                    words = reasons.get(item["id"], {})
                    known = words.get("missing" if answer is None else "why", {})
                    why = reason(known, row, column) or (verdicts.NOT_RUN if answer is None else "")
                yield item, row, column, line, answer, why


def reason(why: dict[str, str], row: str, column: str) -> str:
    """The most particular explanation: of the cell, the row, its data set, the column, the item."""
    for key in (f"{row}/{column}", row, row.split(",")[0], f"*/{column}", "*"):
        if key in why:
            return why[key]
    return ""


def section(item: dict[str, Any], cells: list[Cell], words: dict[str, Any]) -> str:
    """One table or figure."""
    single = len(item["columns"]) == 1
    fair = any("honest" in (cell[4] or {}) for cell in cells)
    notes: list[str] = []
    lines = []
    for _, row, column, line, answer, why in cells:
        if why and why not in notes:
            notes.append(why)
        mark = f"({notes.index(why) + 1})" if why else ""
        name = row.replace("*", r"\*")  # a star of the paper's, not emphasis
        first = [name] if single else [name, column]
        honest = [
            verdicts.ours_of(item["kind"], answer, "honest")
            if answer and "honest" in answer
            else ""
        ]
        ours = line.ours.replace("*", r"\*")
        found = [line.paper, ours, *(honest if fair else []), line.difference]
        lines.append([*first, *found, line.verdict, mark])
    header = ["", "paper", "ours"] if single else ["", "", "paper", "ours"]
    header += (["honest"] if fair else []) + ["difference", "verdict", "why"]
    text = f"### {item['name']}: {item['what']}\n\n"
    if "how" in words:
        text += f"{words['how']}\n\n"
    sources = sorted(
        {cell[4]["source"]["path"][0] for cell in cells if cell[4] and "source" in cell[4]}
    )
    if sources:
        text += "From " + ", ".join(f"`benchmarks/{name}`" for name in sources) + ".\n\n"
    text += table(header, lines) + "\n"
    for number, note in enumerate(notes, start=1):
        text += f"({number}) {note}\n\n"
    return text


def facts(results: dict[str, Any]) -> str:
    """Machine, versions and seeds of a paper's runs."""
    machine = results["machine"]
    versions = ", ".join(
        f"{name} {version}"
        for name, version in machine["versions"].items()
        if name in ("fedsift", "numpy", "scipy", "scikit-learn", "torch", "seal-python")
    )
    seeds = ", ".join(map(str, results["seeds"])) or "none"
    return (
        f"Runs of this suite: {len(results['runs'])}, {results['processor_seconds'] / 60:.1f} minutes of "
        f"processor time; Python {machine['python']}, {machine['system']}, {machine['cores']} cores, "
        f"{versions}; seeds {seeds}.\n\n"
    )


def content() -> str:
    """The whole page."""
    counts: dict[str, Counter[str]] = {}
    chapters = []
    names = {}
    for paper in PAPERS:
        printed, results, reasons = load(paper)
        cells = list(cells_of(printed, results, reasons))
        counts[paper] = Counter(cell[3].verdict for cell in cells)
        names[paper] = printed["short"]
        where = f", {printed['venue']}" if printed["venue"] else ""
        text = f"## {paper}: {printed['short']}\n\n"
        text += f"{printed['authors']}: *{printed['title']}*{where}. Method: [{printed['short']}]({printed['page']}).\n\n"
        text += facts(results)
        text += "".join(f"{line}\n\n" for line in reasons.get("summary", []))
        for item in printed["item"]:
            own = [cell for cell in cells if cell[0] is item]
            text += section(item, own, reasons.get(item["id"], {}))
        chapters.append(text)
    rows = [
        [f"{paper} {names[paper]}", str(found.total()), *(str(found[v]) for v in ORDER)]
        for paper, found in counts.items()
    ]
    every = sum(counts.values(), Counter())
    rows.append(["**all**", str(every.total()), *(str(every[v]) for v in ORDER)])
    summary = table(["paper", "cells", *ORDER], rows)
    verdict = VERDICT.format(
        total=every.total(),
        reproduced=every[verdicts.REPRODUCED],
        not_reproduced=every[verdicts.NOT_REPRODUCED],
        not_testable=every[verdicts.NOT_TESTABLE],
    )
    parts = (verdict, summary, "\n", INTRODUCTION, verdicts.RULES, "\n\n", *chapters)
    return "".join(parts).rstrip() + "\n"


def write() -> None:
    PAGE.write_text(content(), encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"{PAGE.name} written")
