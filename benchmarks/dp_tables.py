"""Write the figures of docs/differential-privacy.md from the committed result file.

Run ``python benchmarks/dp_tables.py`` after ``fedsift bench dp --profile regular --out
benchmarks/dp.json``; a test compares the page with the file.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "dp.json"
PAGE = ROOT / "docs" / "differential-privacy.md"
BLOCK = re.compile(r"(<!-- figures:(\w+) -->\n).*?(<!-- /figures -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def accuracy(results: dict) -> str:
    """One table per data set: a line per budget, a pair of columns per setting."""
    texts = []
    for name in dict.fromkeys(row["job"]["data"] for row in results["rows"]):
        own = [row for row in results["rows"] if row["job"]["data"] == name]
        budgets = dict.fromkeys((row["job"]["epsilon"], row["job"]["delta"]) for row in own)
        lines = []
        for epsilon, delta in budgets:
            cells = ["none" if epsilon is None else f"{epsilon:g}", f"{delta:g}"]
            for setting in ("vertical", "horizontal"):
                wanted = {"data": name, "setting": setting, "epsilon": epsilon, "delta": delta}
                row = next(row for row in own if row["job"] == wanted)
                cells += [_shown(row["overlap"]), _shown(row["accuracy"])]
            lines.append(cells)
        header = ["epsilon", "delta"]
        header += [
            f"{s}: {what}" for s in ("vertical", "horizontal") for what in ("overlap", "accuracy")
        ]
        texts.append(f"**{name}**, {results['n_seeds']} seeds\n\n{table(header, lines)}")
    return "\n".join(texts)


def _shown(value: dict) -> str:
    return f"{value['mean']:.3f} ± {value['standard_error']:.3f}"


def updated(page: str, results: dict) -> str:
    """The page with fresh figures."""
    parts = {"accuracy": accuracy}

    def fresh(match: re.Match[str]) -> str:
        part = parts.get(match[2])
        return match[0] if part is None else match[1] + part(results) + match[3]

    return BLOCK.sub(fresh, page)


if __name__ == "__main__":
    text = updated(
        PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))
    )
    PAGE.write_text(text, encoding="utf-8")
