# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Run pytest with the given arguments, and run tests that failed once more, alone.

Those that pass then are flaky: they are printed and do not fail the run. Everything else does: a
test that fails twice, more than a few failures, a file that cannot be collected, no tests at all.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

MOST_RETRIED = 10
"""More failures than this are no accident."""


def run_pytest(arguments: list[str], cache: Path) -> int:
    """Run pytest in a process of its own; its exit code."""
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]
    return subprocess.run(command, check=False).returncode  # noqa: S603


def failures_in(cache: Path) -> list[str]:
    """Node ids of what failed in a run that used this cache."""
    path = cache / "v" / "cache" / "lastfailed"
    failed = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return sorted(map(without_group, failed))


def without_group(node: str) -> str:
    """The node id without the ``@group`` that pytest-xdist appends to tests of a group."""
    return node.rpartition("@")[0] if node.rfind("@") > node.rfind("]") else node


def all_pass_alone(failed: list[str], place: Path) -> bool:
    """Whether every one of these tests passes, in one process and whatever its marks."""
    report = place / "alone.xml"
    if run_pytest(["-m", "", f"--junitxml={report}", *failed], place / "alone"):
        return False
    suites = ET.parse(report).iter("testsuite")  # noqa: S314 (we wrote it)
    return not any(int(suite.get("skipped", 0)) for suite in suites)


def main(arguments: list[str]) -> int:
    """Run, retry and tell; the exit code of the whole."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        code = run_pytest(arguments, place / "all")
        failed = failures_in(place / "all")
        # Anything but 1 is no failure of tests: 0 is success, 5 no tests, others are worse.
        if code != 1 or not failed:
            return code
        if len(failed) > MOST_RETRIED or not all("::" in node for node in failed):
            return code
        print(f"\nOnce more, alone: {len(failed)} that failed", flush=True)
        if not all_pass_alone(failed, place):
            return code
    print("\nFLAKY, failed and then passed alone:", *failed, sep="\n  ", flush=True)
    if listed := os.environ.get("FLAKY_TESTS"):
        with Path(listed).open("a", encoding="utf-8") as file:
            file.writelines(f"  {node}\n" for node in failed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
