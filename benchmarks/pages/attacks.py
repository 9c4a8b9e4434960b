# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures of docs/attacks.md from the committed result file.

``fedsift attack --profile regular --out DIR`` and then ``python -m benchmarks.pages.attacks
DIR/attack.json`` renew both; after a run with ``--only`` the other attacks keep their rows.
``make bench-check`` compares the page with the file.
"""

import json
import sys
from pathlib import Path

from benchmarks.pages.writer import ROOT, Page, load, table

RESULTS = ROOT / "benchmarks" / "attacks.json"


def by_attack(results: dict) -> dict[str, dict[str, dict]]:
    """Lines by attack and variant."""
    found: dict[str, dict[str, dict]] = {}
    for row in results["rows"]:
        found.setdefault(row["attack"], {})[row["variant"]] = row
    return found


def number(row: dict) -> str:
    """What was found, with its standard error."""
    return f"{row['found']:.2f} ± {row['error']:.2f}" if row["runs"] > 1 else f"{row['found']:.2f}"


def _lines(results: dict, verdict: str) -> list[list[str]]:
    rows = []
    for name, variants in by_attack(results).items():
        default = variants["default"]
        if default["verdict"] != verdict:
            continue
        messages = ", ".join(f"`{message}`" for message in default["uses"])
        rows.append(
            [
                f"`{name}` ({default['method']})",
                f"{default['attacker']}, {messages}",
                default["aims_at"],
                default["measure"],
                f"{default['guess']:.2f}",
                f"{number(variants['unprotected'])}: {variants['unprotected']['protection']}",
                f"{number(default)}: {default['protection']}",
            ]
        )
    return rows


HEADER = ["attack", "attacker, used", "wants", "measure", "guess", "unprotected", "default"]


def summary(results: dict) -> str:
    """The outcome in a paragraph."""
    verdicts = [row["verdict"] for row in results["rows"]]
    default = [row["verdict"] for row in results["rows"] if row["variant"] == "default"]
    return (
        f"{len(default)} attacks, {sum(row['runs'] for row in results['rows'])} runs: without the "
        f"protection {verdicts.count('succeeds')} of {len(default)} succeed; on the defaults "
        f"{default.count('closed')} are closed, {default.count('declared')} work and are declared, "
        f"{default.count('OPEN')} work and are not.\n"
    )


def closed(results: dict) -> str:
    """Attacks that gain nothing on the defaults."""
    return table(HEADER, _lines(results, "closed"))


def declared(results: dict) -> str:
    """Attacks that work on the defaults, and the kind that declares each."""
    kinds = {
        name: ", ".join(f"`{kind}`" for kind in variants["default"]["declared"])
        for name, variants in by_attack(results).items()
    }
    rows = [[*line, kinds[line[0].split("`")[1]]] for line in _lines(results, "declared")]
    return table([*HEADER, "declared as"], rows)


def options(results: dict) -> str:
    """What protections beyond the defaults do."""
    rows = [
        [
            f"`{name}`",
            f"{number(variants['default'])}, {variants['default']['verdict']}",
            variants["option"]["protection"],
            f"{number(variants['option'])}, {variants['option']['verdict']}",
            f"{variants['option']['guess']:.2f}",
        ]
        for name, variants in by_attack(results).items()
        if "option" in variants
    ]
    return table(["attack", "default", "option", "with it", "guess"], rows)


BLOCKS = {f.__name__: f for f in (summary, closed, declared, options)}


PAGE = Page("docs/attacks.md", lambda: load("attacks"), BLOCKS)


def merged(old: dict, new: dict) -> dict:
    """A report in which the attacks of a new one have replaced the old ones, in its versions."""
    fresh = {row["attack"] for row in new["rows"]}
    kept = [row for row in old.get("rows", []) if row["attack"] not in fresh]
    rows = kept + new["rows"]
    return {**new, "rows": rows, "seconds": sum(row["seconds"] for row in rows)}


if __name__ == "__main__":
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for path in sys.argv[1:]:
        results = merged(results, json.loads(Path(path).read_text(encoding="utf-8")))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    PAGE.write()
