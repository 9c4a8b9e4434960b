# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What all writers share: result files, Markdown tables, and marked blocks of a page.

A block stands between ``<!-- figures:NAME -->`` and ``<!-- /figures -->``, a figure inside a sentence
between ``<!-- figure:NAME -->`` and ``<!-- /figure -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- figures:(.+?) -->\n).*?(<!-- /figures -->)", re.DOTALL)
INLINE = re.compile(r"(<!-- figure:(\w+) -->).*?(<!-- /figure -->)")


def load(name: str) -> Any:
    """A committed result file."""
    return json.loads((ROOT / "benchmarks" / f"{name}.json").read_text(encoding="utf-8"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def listed(names: Iterable[str]) -> str:
    """Names in a sentence."""
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True)
class Page:
    """A page whose figures come from a result file.

    Parameters
    ----------
    path : str
        Of the page, from the root of the checkout.
    read : callable
        Reads the results.
    blocks : mapping of str to callable
        Writes the text of each block from the results.
    inline : callable, optional
        Makes the figures inside sentences, by name.
    """

    path: str
    read: Callable[[], Any]
    blocks: Mapping[str, Callable[[Any], str]]
    inline: Callable[[Any], Mapping[str, str]] = lambda _: {}

    def text(self) -> str:
        """The page as it is."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    def updated(self, text: str, results: Any) -> str:
        """The page with fresh figures; it must have every block, and no other."""
        named = [match[2] for match in BLOCK.finditer(text)]
        assert sorted(named) == sorted(self.blocks), f"blocks of {self.path}: {named}"
        text = BLOCK.sub(lambda match: match[1] + self.blocks[match[2]](results) + match[3], text)
        values = self.inline(results)
        return INLINE.sub(lambda match: match[1] + values[match[2]] + match[3], text)

    def write(self) -> None:
        """Update the page from the committed results."""
        fresh = self.updated(self.text(), self.read())
        (ROOT / self.path).write_text(fresh, encoding="utf-8")
        print(f"{self.path} updated")
