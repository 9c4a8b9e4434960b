"""Write the *who learns what* tables of pages from the message declarations.

Run ``python docs/who_learns_what.py`` after a change to a message; a test compares the two.
"""

import importlib
import re
from pathlib import Path

PAGES = Path(__file__).resolve().parent
BLOCK = re.compile(r"(<!-- learns:(\S+) -->\n).*?(<!-- /learns -->)", re.DOTALL)


def table(address: str) -> str:
    """Markdown rows of one protocol, ``module:name``."""
    module, _, name = address.partition(":")
    protocol = getattr(importlib.import_module(module), name)
    lines = ["| who learns | about | kind | what | message |", "|---|---|---|---|---|"]
    for cls in protocol.messages:
        d = cls.declaration
        if d.reveals_something:
            kind = f"{d.kind} (optional)" if d.optional else d.kind
            lines.append(f"| {d.receiver} | {d.about} | {kind} | {d.text} | {d.name} |")
    return "\n".join(lines) + "\n"


def updated(text: str) -> str:
    """A page with fresh tables."""
    return BLOCK.sub(lambda match: match[1] + table(match[2]) + match[3], text)


if __name__ == "__main__":
    for page in sorted(PAGES.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if BLOCK.search(text):
            page.write_text(updated(text), encoding="utf-8")
            print(f"{page.name} updated")
