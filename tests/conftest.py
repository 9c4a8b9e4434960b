"""Shared set-up: deterministic property tests and no stray environment."""

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("fedsift", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.load_profile("fedsift")


FIRST = ("test_flare.py", "test_interaction_sklearn.py", "test_runtime_bench.py")
"""Files with federations of processes spend much of their time waiting: they start first, not both
at the same moment, so that the rest of the suite fills the pauses instead of following them."""


def pytest_collection_modifyitems(items):
    """Long files first; the others stay in their order."""
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch, tmp_path):
    """Tests see the shipped data only, and never write to the user's cache."""
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path / "cache"))
    # Predictions need no measurement of the machine that runs the tests.
    monkeypatch.setenv("FEDSIFT_CALIBRATION", "typical")


@pytest.fixture
def big_sets(monkeypatch):
    """The published data sets: from FEDSIFT_DATA, or from a folder beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "datasets"
    folder = Path(os.environ.get("FEDSIFT_DATA", beside))
    if not folder.is_dir():
        pytest.skip("FEDSIFT_DATA is not set")
    monkeypatch.setenv("FEDSIFT_DATA", str(folder))
    return folder
