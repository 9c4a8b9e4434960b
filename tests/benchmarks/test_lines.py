# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Lines are counted once each, as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import lines

SAMPLE = '''"""A file
of two lines."""

import os  # needed

TEXT = """# not a comment

"""


class Box:
    """Holds things."""

    # a comment
    size = len(
        TEXT
    )
'''


def test_every_line_is_code_or_text_about_it_or_blank():
    found = lines.count(SAMPLE)
    assert found.lines == len(SAMPLE.splitlines()) == found.code + found.docs + found.blank
    assert (found.code, found.docs, found.blank) == (7, 4, 6)


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("methods/filter/scores.py", "methods/filter"),
        ("methods/base.py", "methods"),
        ("engine/remote/client.py", "engine"),
        ("errors.py", "top"),
    ],
)
def test_a_file_belongs_to_one_area(path, area):
    assert lines.area_of(Path(path)) == area


def test_areas_add_up_to_the_package():
    folder = lines.ROOT / lines.SOURCES
    areas = lines.count_areas(folder)
    files = list(folder.rglob("*.py"))
    assert sum(area.files for area in areas.values()) == len(files)
    assert sum(area.lines for area in areas.values()) == sum(
        len(file.read_text().splitlines()) for file in files
    )
    first, second = list(lines.table(areas, {"jobs": -3}))[:2]
    assert first.split()[0] == "area"
    assert second.split()[-1] == "-3"
