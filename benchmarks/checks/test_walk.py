# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A reader who follows one call has no more files to open than when this was counted."""

import pytest

from benchmarks import walk

MOST_FILES = {"fit": 39, "run": 78}


@pytest.mark.parametrize("name", MOST_FILES)
def test_a_call_walks_through_few_files(name):
    found = walk.walk(getattr(walk, name))
    assert "engine/local.py" in found["names"]
    assert found["files"] <= MOST_FILES[name], found["names"]
