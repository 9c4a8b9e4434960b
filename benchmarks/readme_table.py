"""Write the benchmark tables of the README from committed result files: no figure by hand.

Run ``python benchmarks/readme_table.py`` after ``make bench``; a test compares the two.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "filters.json"
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- bench:filters -->\n).*?(<!-- /bench:filters -->)", re.DOTALL)
METHODS = re.compile(r"(<!-- bench:methods -->\n).*?(<!-- /bench:methods -->)", re.DOTALL)
CASES = (
    ("fedsdg", "cost madelon bgv 2 clients", "2,600 rows, 500 features, 960 batches of a training"),
    ("interaction", "wine_white miw complete", "4,898 rows, 11 features, all ranked"),
    ("vfps", "large letter m=4 group-testing", "20,000 rows, 4 participants, 400 queries"),
    ("vfps", "large letter m=16 group-testing", "20,000 rows, 16 participants, 200 queries"),
    ("dcfs", "run tox171, 2 parties", "171 rows, 5,748 features, 2 parties"),
    ("dcfs", "run generated 500 x 20000, 2 parties", "500 rows, 20,000 features, 2 parties"),
)


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


def methods_table() -> str:
    """One or two whole encrypted runs of the other methods."""
    lines = ["| method | case | seconds | MB sent | peak MiB |", "|---|---|---|---|---|"]
    for name, case, words in CASES:
        results = json.loads((ROOT / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))
        timed = (*results["rows"], *results.get("secure", ()))
        row = next(row for row in timed if row.get("case") == case)
        lines.append(
            f"| [`{name}`](docs/methods/{name}.md) | {words} | {row['seconds']:.1f} | "
            f"{row['bytes'] / 1e6:.1f} | {row['peak_memory'] / 2**20:.0f} |"
        )
    return "\n".join(lines) + "\n"


def updated(readme: str, results: dict) -> str:
    """The README with fresh tables."""
    readme = METHODS.sub(lambda match: match[1] + methods_table() + match[2], readme)
    return BLOCK.sub(lambda match: match[1] + table(results) + match[2], readme)


if __name__ == "__main__":
    fresh = updated(
        README.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))
    )
    README.write_text(fresh, encoding="utf-8")
    print("README.md updated")
