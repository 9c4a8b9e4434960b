# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write the figures that docs/choose.md quotes from evidence pages.

Run ``python -m benchmarks.pages choose`` after a suite it quotes; ``make bench-check`` compares them.
"""

from benchmarks.pages import readme, stepwise
from benchmarks.pages.writer import Page, load


def inline(results: dict) -> dict[str, str]:
    """Leads of stepwise selection, what it finds by chance, and where it is not best."""
    own = stepwise.PAGE.inline(results)
    quoted = ("lead_mrmr", "null", "madelon", "madelon_f")
    return readme.inline(results) | {name: own[name] for name in quoted}


PAGE = Page("docs/choose.md", lambda: load("stepwise"), {}, inline)
