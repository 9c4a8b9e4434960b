"""Write the figures of docs/costs.md from the committed result file.

Run ``python benchmarks/costs_tables.py`` after ``fedsift bench costs --profile regular --out
benchmarks/costs.json``; a test compares the page with the file.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "costs.json"
PAGE = ROOT / "docs" / "costs.md"
BLOCK = re.compile(r"(<!-- figures:(\w+) -->\n).*?(<!-- /figures -->)", re.DOTALL)


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def jobs(results: dict) -> str:
    """Prediction against reality."""
    rows = []
    for row in results["rows"]:
        job, told = row["job"], row["predicted"]
        rows.append(
            [
                row["case"],
                f"{job['rows']:,} x {job['features']}, {job['parties']} parties",
                f"{told['seconds']:.2f} / {row['seconds']:.2f}",
                f"{row['ratios']['wall']:.2f}",
                f"{told['cpu_seconds']:.2f} / {row['cpu_seconds']:.2f}",
                f"{row['ratios']['time']:.2f}",
                f"{told['bytes'] / 1e6:.3f} / {row['bytes'] / 1e6:.3f}",
                f"{row['ratios']['bytes']:.3f}",
                f"{told['rounds']} / {row['rounds']}",
                f"{told['ciphertexts']} / {row['ciphertexts']}",
            ]
        )
    header = ["job", "data", "s on the wall", "ratio", "s of the processor", "ratio", "MB", "ratio"]
    return table([*header, "rounds", "ciphertexts"], rows) + "\n" + _words(results)


def _words(results: dict) -> str:
    waited = [row["seconds"] / row["cpu_seconds"] for row in results["rows"]]
    calibration, load = results["calibration"], results["load"]
    missed = [name for name, met in results["bars"].items() if not met]
    return (
        "Predicted / real. "
        f"{sum(results['bars'].values())} of {len(results['bars'])} ratios are within their bars "
        "(1.5 for either time, 1.1 for bytes)"
        + (f"; not within: {', '.join(missed)}" if missed else "")
        + f". {calibration['units']} units of work were calibrated before, in "
        f"{calibration['cpu_seconds']:.1f} processor seconds and {calibration['seconds']:.1f} on the "
        "wall (loading PyTorch is part of that). Runs took "
        f"{min(waited):.2f} to {max(waited):.2f} times their processor seconds on the wall; the load "
        f"average was {load['before']:.1f} before and {load['after']:.1f} after.\n"
    )


def updated(page: str, results: dict) -> str:
    """The page with fresh figures."""
    parts = {"jobs": jobs}

    def fresh(match: re.Match[str]) -> str:
        part = parts.get(match[2])
        return match[0] if part is None else match[1] + part(results) + match[3]

    return BLOCK.sub(fresh, page)


if __name__ == "__main__":
    text = updated(
        PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))
    )
    PAGE.write_text(text, encoding="utf-8")
