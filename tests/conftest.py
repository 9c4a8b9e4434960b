"""Shared set-up: deterministic property tests and no stray environment."""

import os
import signal
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

from fedsift.testing.draws import let_seeds_drive_everything

hypothesis.settings.register_profile("fedsift", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.load_profile("fedsift")

# Started in the background, tests would inherit that Ctrl-C is ignored, and so would what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    """With several workers, what takes long starts first, so that all end at about the same time.

    Tests of one ``xdist_group`` share a worker and count together.
    """
    if not config.getoption("loadgroup", False):
        return
    seconds = Counter()
    for item in items:
        seconds[group_of(item)] += max(
            (mark.args[0] for mark in item.iter_markers("slow")), default=0
        )
    items.sort(key=lambda item: -seconds[group_of(item)])


def group_of(item):
    """The group of a test; a test without one is a group of its own."""
    mark = item.get_closest_marker("xdist_group")
    return mark.args[0] if mark else item.nodeid


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch, tmp_path):
    """Tests see the shipped data only, and never write to the user's cache."""
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path / "cache"))
    # Predictions need no measurement of the machine that runs the tests.
    monkeypatch.setenv("FEDSIFT_CALIBRATION", "typical")


@pytest.fixture
def repeatable():
    """Private draws and noise follow the seed, so that runs can be compared number by number."""
    with let_seeds_drive_everything():
        yield


@pytest.fixture
def big_sets(monkeypatch):
    """The published data sets: from FEDSIFT_DATA, or from a folder beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "datasets"
    folder = Path(os.environ.get("FEDSIFT_DATA", beside))
    if not folder.is_dir():
        pytest.skip("FEDSIFT_DATA is not set")
    monkeypatch.setenv("FEDSIFT_DATA", str(folder))
    return folder
