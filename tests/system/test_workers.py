"""Tests are handed to workers so that groups stay together and what takes long starts first."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

def test_quick():
    pass

@pytest.mark.xdist_group("pair")
@pytest.mark.slow(3)
@pytest.mark.parametrize("case", [1, 2])
def test_pair(case):
    pass

@pytest.mark.slow(5)
def test_long():
    pass
"""


def test_groups_count_together_and_long_ones_come_first(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    kept = {name: value for name, value in os.environ.items() if "PYTEST" not in name}

    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-p", "xdist", "-n", "1"),
            *("--dist", "loadgroup", "--no-loadscope-reorder", "-W", "ignore"),
        ],
        cwd=tmp_path,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert ran.returncode == 0, ran.stdout
    assert re.findall(r"PASSED test_some.py::(\S+)", ran.stdout) == [
        "test_pair[1]",
        "test_pair[2]",
        "test_long",
        "test_quick",
    ]
