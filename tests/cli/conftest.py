"""Fixtures of the command line's tests."""

import pytest

from helpers.cli import Workshop


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    folder = tmp_path / "work"
    folder.mkdir()
    return Workshop(folder)
