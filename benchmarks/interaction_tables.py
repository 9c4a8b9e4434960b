"""Write the cost rows of docs/methods/interaction.md from the committed result file.

Run ``python benchmarks/interaction_tables.py`` after ``fedsift bench interaction --profile regular
--out benchmarks/interaction.json``; a test compares the page with the file.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "interaction.json"
PAGE = ROOT / "docs" / "methods" / "interaction.md"


def cost_row(row: dict) -> str:
    """One case as a Markdown row."""
    counts = row["operations"]
    cells = (
        row["case"],
        f"{row['seconds']:.0f}",
        f"{row['bytes'] / 1e6:.0f}",
        f"{row['peak_memory'] / 2**20:.0f}",
        *(str(counts[name]) for name in ("encryptions", "ciphertext products", "rotations")),
        " / ".join("yes" if row[name] else "no" for name in ("equals_simulation", "equals_oracle")),
    )
    return "| " + " | ".join(cells) + " |"


def updated(page: str, results: dict) -> str:
    """The page with fresh cost rows and the cost of ten times the rows."""
    for row in results["rows"]:
        page = re.sub(
            rf"^\| {re.escape(row['case'])} \|.*$", cost_row(row), page, flags=re.MULTILINE
        )
    seconds = [row["seconds"] for row in results["rows"] if row["case"].startswith("generated")]
    ratio = f"Ten times the rows take {seconds[1] / seconds[0]:.1f} times as long."
    return re.sub(r"Ten times the rows take .* times as long\.", ratio, page)


if __name__ == "__main__":
    fresh = updated(
        PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))
    )
    PAGE.write_text(fresh, encoding="utf-8")
    print("interaction.md updated")
