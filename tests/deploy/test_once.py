"""A hub cannot have a submitted job run again."""

import stat

import pytest

from fedsift.deploy.once import SEEN_FILE, accept_once
from fedsift.errors import BadEnvelope, FileProblem


def test_a_job_is_played_once(tmp_path):
    accept_once(tmp_path, "aa" * 32)
    accept_once(tmp_path, "bb" * 32)

    for repeated in ("aa" * 32, "bb" * 32):
        with pytest.raises(BadEnvelope, match="run here before"):
            accept_once(tmp_path, repeated)
    assert stat.S_IMODE((tmp_path / SEEN_FILE).stat().st_mode) == 0o600


def test_without_a_list_nothing_is_played(tmp_path):
    (tmp_path / SEEN_FILE).mkdir()

    with pytest.raises(FileProblem, match="cannot be kept"):
        accept_once(tmp_path, "aa" * 32)
