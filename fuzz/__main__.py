# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m fuzz [TARGET ...] --seconds 600``: fuzz readers, one after the other.

New inputs go to ``build/fuzz``; an input that fails stays there as ``crash-...`` and is printed.
Put it into ``fuzz/corpus/TARGET`` once it is mended. ``--keep`` adds what reached new code to the
corpus, the shortest inputs first. ``--table FILE`` adds up what was run: seconds that it has of a
target count, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fuzz.mutations import mutate

CORPUS = Path(__file__).parent / "corpus"
BUILD = Path("build/fuzz")
SECONDS_PER_INPUT, MEGABYTES = 10, 2048
_EXECUTED = re.compile(r"number_of_executed_units: (\d+)")
_COVERED = re.compile(r"^#\d+\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)


def main() -> int:
    """Run every target in a process of its own, since libFuzzer ends the one it runs in."""
    reader = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    reader.add_argument("targets", nargs="*", help="all if missing")
    reader.add_argument("--seconds", type=int, default=600, help="for each target")
    reader.add_argument("--keep", action="store_true", help="add what reached new code")
    reader.add_argument("--table", type=Path, help="where to write down what was run")
    reader.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options, rest = reader.parse_known_args()
    if options.here:
        return fuzz_here(options.targets[0], rest)
    from fuzz.targets import LONGEST, TARGETS

    failed = []
    for name in options.targets or TARGETS:
        found, corpus = BUILD / name, CORPUS / name
        found.mkdir(parents=True, exist_ok=True)
        corpus.mkdir(parents=True, exist_ok=True)
        limits = [f"-timeout={SECONDS_PER_INPUT}", f"-rss_limit_mb={MEGABYTES}", "-verbosity=1"]
        limits += [f"-max_len={LONGEST}", f"-artifact_prefix={found}/", "-print_final_stats=1"]
        left = options.seconds - _known(options.table).get(name, {}).get("seconds", 0)
        if left <= 0:
            continue
        print(f"== {name}: {left} s", flush=True)
        start = time.monotonic()
        code, log = _run(name, f"-max_total_time={left}", *limits, str(found), str(corpus))
        if options.table:
            _note(options.table, name, _row(min(left, round(time.monotonic() - start)), code, log))
        if code:
            print(log[-4000:])
            failed.append(name)
        elif options.keep:
            _run(name, "-merge=1", *limits, str(corpus), str(found))
    print(f"failed: {', '.join(failed)}" if failed else "no failures")
    return int(bool(failed))


def _run(name: str, *options: str) -> tuple[int, str]:
    """The exit code of a run, and what libFuzzer wrote."""
    command = [sys.executable, "-m", "fuzz", name, "--here", *options]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, errors="replace")
    return done.returncode, done.stderr


def _row(seconds: int, code: int, log: str) -> dict[str, int]:
    """What a run came to: inputs, branches and features that were reached, corpus, failures."""
    reached = [tuple(map(int, found)) for found in _COVERED.findall(log)]
    executed = _EXECUTED.search(log)
    coverage, features, corpus = reached[-1] if reached else (0, 0, 0)
    return {
        "seconds": seconds,
        "executions": int(executed[1]) if executed else 0,
        "coverage": coverage,
        "features": features,
        "corpus": corpus,
        "crashes": int(bool(code)),
    }


def _known(path: Path | None) -> dict[str, dict[str, int]]:
    """Rows of the targets that a table has."""
    return json.loads(path.read_text()).get("targets", {}) if path and path.exists() else {}


def _note(path: Path, name: str, row: dict[str, int]) -> None:
    """Add a run to the row of its target; what was reached is that of the last run."""
    table: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    targets = _known(path)
    before = targets.get(name, {})
    added = {what: row[what] + before.get(what, 0) for what in ("seconds", "executions", "crashes")}
    table["targets"] = dict(sorted({**targets, name: row | added}.items()))
    path.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def fuzz_here(name: str, options: list[str]) -> int:
    """Fuzz one target in this process."""
    import atheris

    with atheris.instrument_imports(include=["fedsift", "tomllib"]):
        from fuzz.targets import check

        check(name, b"")  # readers import what they need when they are called first
    atheris.Setup(
        [sys.argv[0], *options],
        lambda data: check(name, data),
        custom_mutator=lambda data, longest, seed: mutate(data, longest, seed, atheris.Mutate),
    )
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
