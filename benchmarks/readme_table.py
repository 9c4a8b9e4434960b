"""Write the benchmark table of the README from the committed result file: no figure by hand.

Run ``python benchmarks/readme_table.py`` after ``make bench``; a test compares the two.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "filters.json"
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- bench:filters -->\n).*?(<!-- /bench:filters -->)", re.DOTALL)


def table(results: dict) -> str:
    """A Markdown table of all cases."""
    lines = [
        "| rows x features | label holder learns | encryption | seconds | ratio | MB incl. keys | peak MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        job = row["job"]
        ratio = f"{row['ratio']:.0f}x" if "ratio" in row else ""
        seconds = f"{row['seconds']:.2f} ± {row['standard_error']:.2f}"
        if row["n"] == 1:
            seconds = f"{row['seconds']:.1f}"
        lines.append(
            f"| {job['rows']:,} x {job['features']} | {job['disclose']} | {job['he']} | {seconds} | "
            f"{ratio} | {row['bytes'] / 1e6:.2f} | {row['peak_memory'] / 2**20:.0f} |"
        )
    return "\n".join(lines) + "\n"


def updated(readme: str, results: dict) -> str:
    """The README with a fresh table."""
    return BLOCK.sub(lambda match: match[1] + table(results) + match[2], readme)


if __name__ == "__main__":
    fresh = updated(
        README.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))
    )
    README.write_text(fresh, encoding="utf-8")
    print("README.md updated")
