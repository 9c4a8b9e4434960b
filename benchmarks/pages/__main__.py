# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write pages from committed result files: ``python -m benchmarks.pages [NAME ...]``, or all."""

from __future__ import annotations

import argparse
import importlib

NAMES = (
    *(
        "attacks",
        "choose",
        "compare",
        "costs",
        "dcfs",
        "dp",
        "fedsdg",
        "filter",
        "first_hour",
        "fpso",
        "interaction",
    ),
    *("readme", "runtime", "stepwise", "vfps"),
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    for name in parser.parse_args().names or NAMES:
        importlib.import_module(f"benchmarks.pages.{name}").PAGE.write()
