# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How many files and functions of the package one call walks through.

``python -m benchmarks.walk`` counts those of ``FilterSelector("gini").fit`` and of ``fedsift run``
on two parties' tables. A function counts if it was called, in any thread; importing does not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import fedsift

PACKAGE = str(Path(fedsift.__file__).parent)
JOB = Path(__file__).resolve().parents[1] / "examples" / "filters_vertical.toml"


def walk(call: Callable[[], Any]) -> dict[str, Any]:
    """Files and functions of fedsift that a call went through, once everything is imported."""
    call()
    functions: set[tuple[str, str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    files = sorted({str(Path(file).relative_to(PACKAGE)) for file, _, _ in functions})
    return {"files": len(files), "functions": len(functions), "names": files}


def fit() -> None:
    """One filter on arrays."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    fedsift.FilterSelector("gini", n_features_to_select=2, random_state=0).fit(X, y)


def run() -> None:
    """A filter from a job file on two parties' own tables, with all that the command writes."""
    from typer.testing import CliRunner

    from fedsift.cli import app

    with tempfile.TemporaryDirectory() as folder:
        result = CliRunner().invoke(app, ["run", str(JOB), "--out", f"{folder}/out"])
        if result.exit_code:
            raise SystemExit(result.output)


def main() -> None:
    """Print both walks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="list the files")
    names = parser.parse_args().names
    found = {"fit": walk(fit), "run": walk(run)}
    for counts in found.values():
        if not names:
            del counts["names"]
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
