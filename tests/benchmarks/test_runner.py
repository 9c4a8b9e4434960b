"""The runner of benchmarks: fresh processes find their suite anywhere, and failures are told."""

import pytest

from benchmarks.runner import SUITES, measure_in_fresh_process, run_suite
from fedsift.errors import ParameterError

JOB = {"kind": "update", "rows": 10, "features": 30}


def test_a_fresh_process_finds_its_suite_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise ImportError('another package')")
    monkeypatch.chdir(tmp_path)

    found = measure_in_fresh_process("dcfs.measures", JOB, "a case", "Mend it.")

    assert found["difference"] < 1e-8
    assert found["peak_memory"] > 2**20


def test_a_case_that_fails_is_named():
    with pytest.raises(ParameterError, match=r"'a case' failed: KeyError: 'nothing'.*Mend it"):
        measure_in_fresh_process("dcfs.measures", {"kind": "nothing"}, "a case", "Mend it.")


@pytest.mark.parametrize(("suite", "profile"), [("nothing", "smoke"), ("filters", "huge")])
def test_what_there_is_not_cannot_be_run(suite, profile):
    with pytest.raises(ParameterError, match=", ".join(SUITES)):
        run_suite(suite, profile, print)
