# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A class name means one thing: in the layers that run jobs, and in the public interface."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import fedsift

PACKAGE = Path(fedsift.__file__).parent
LAYERS = ("engine", "jobs", "protocol")


def classes_in(*folders):
    """Files by the name of a class that they define; names with an underscore are local."""
    places = defaultdict(list)
    for folder in folders:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(PACKAGE)))
    return places


def twice(places):
    return {name: files for name, files in places.items() if len(files) > 1}


def test_no_class_of_the_layers_that_run_jobs_is_defined_twice():
    places = classes_in(*LAYERS)
    assert len(places) > 50
    assert not twice(places)


def test_a_public_class_is_defined_once_in_the_whole_package():
    places = classes_in(".")
    public = {name: places[name] for name in fedsift.__all__ if name in places}
    assert {"Chain", "Federation", "FilterSelector", "Policy"} <= set(public)
    assert not twice(public)


def test_the_search_finds_a_name_that_is_there_twice():
    assert "Params" in twice(classes_in("methods"))
