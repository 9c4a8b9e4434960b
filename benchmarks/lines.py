# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How many lines the package has, by area: code, docstrings and comments, blank lines.

``python -m benchmarks.lines`` counts ``src/fedsift``. With ``--since REVISION`` there is a column of
what an area has gained or lost since then, as far as git knows; a file that was moved counts in
both areas.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path("src") / "fedsift"
_DEEP = frozenset({"crypto", "lab", "methods"})
"""Areas whose folders are areas of their own."""
_HEADER = ("area", "files", "lines", "code", "docs", "blank")


@dataclass
class Counts:
    """Lines of one area; ``docs`` are docstrings and comments on lines of their own."""

    files: int = 0
    lines: int = 0
    code: int = 0
    docs: int = 0
    blank: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def count(text: str) -> Counts:
    """Count the lines of one file.

    Examples
    --------
    >>> count('\"\"\"A file.\"\"\"\\n\\nx = 1  # one\\n# two\\n')
    Counts(files=1, lines=4, code=1, docs=2, blank=1)
    """
    documented = set()
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            documented.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    working = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT):
            working.update(range(token.start[0], token.end[0] + 1))
    lines = text.splitlines()
    code = docs = blank = 0
    for number, line in enumerate(lines, start=1):
        if number in documented:
            docs += 1
        elif not line.strip():
            blank += 1
        elif number in working:
            code += 1
        else:
            docs += 1
    return Counts(1, len(lines), code, docs, blank)


def area_of(path: Path) -> str:
    """Name the area of a file of the package.

    Examples
    --------
    >>> area_of(Path("methods/filter/scores.py")), area_of(Path("jobs/run.py"))
    ('methods/filter', 'jobs')
    """
    if len(path.parts) == 1:
        return "top"
    deep = path.parts[0] in _DEEP and len(path.parts) > 2
    return "/".join(path.parts[:2]) if deep else path.parts[0]


def count_areas(folder: Path) -> dict[str, Counts]:
    """Count all files of a folder by area, the largest first."""
    areas: dict[str, Counts] = defaultdict(Counts)
    for file in folder.rglob("*.py"):
        areas[area_of(file.relative_to(folder))] += count(file.read_text())
    return dict(sorted(areas.items(), key=lambda item: -item[1].lines))


def growth_since(revision: str) -> dict[str, int]:
    """Net lines that each area has gained since a revision, without files unknown to git."""
    command = ["git", "diff", "--numstat", "--no-renames", revision, "--", str(SOURCES)]
    found = subprocess.run(  # noqa: S603 - git alone runs
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    grown: dict[str, int] = defaultdict(int)
    for line in found.stdout.splitlines():
        added, removed, name = line.split("\t")
        if name.endswith(".py"):
            grown[area_of(Path(name).relative_to(SOURCES))] += int(added) - int(removed)
    return dict(grown)


def table(areas: dict[str, Counts], grown: dict[str, int] | None) -> Iterable[str]:
    """Lines of text, with the sum of all areas first."""
    every = {"all": sum(areas.values(), Counts()), **areas}
    yield " ".join(f"{name:>16}" for name in (*_HEADER, *([] if grown is None else ["since"])))
    for name, counts in every.items():
        cells = [name, *(f"{number:,}" for number in astuple(counts))]
        if grown is not None:
            change = sum(grown.values()) if name == "all" else grown.get(name, 0)
            cells.append(f"{change:+,}")
        yield " ".join(f"{cell:>16}" for cell in cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", metavar="REVISION", help="show what has changed since then")
    since = parser.parse_args().since
    grown = None if since is None else growth_since(since)
    print("\n".join(table(count_areas(ROOT / SOURCES), grown)))


if __name__ == "__main__":
    main()
