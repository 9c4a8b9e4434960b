"""Shared set-up: deterministic property tests and no stray environment."""

import hypothesis
import pytest

hypothesis.settings.register_profile("fedsift", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.load_profile("fedsift")


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch, tmp_path):
    """Tests see the shipped data only, and never write to the user's cache."""
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path / "cache"))
