# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m benchmarks SUITE`` runs a suite, ``python -m benchmarks compare OLD NEW`` compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.runner import PROFILES, SUITES, execute
from fedsift.errors import FedsiftError


def main() -> int:
    """Read the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("suite", help=f"{', '.join(SUITES)}, or 'compare'")
    parser.add_argument("files", nargs="*", type=Path, help="with 'compare': old and new file")
    parser.add_argument("--profile", choices=PROFILES, default="smoke", help="size of the cases")
    parser.add_argument("--out", "-o", type=Path, help="JSON file to write")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    asked = parser.parse_args()
    try:
        return execute(asked.suite, asked.files, asked.profile, asked.out, asked.json)
    except FedsiftError as error:
        print(error.one_line, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
