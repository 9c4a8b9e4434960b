"""The second try of CI: a flaky test is told and lands, everything else that is wrong does not."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

RETRY = Path(__file__).parents[2] / ".ci" / "retry.py"
FINE = "def test_fine():\n    assert True\n"
BROKEN = "def test_broken():\n    assert False\n"
UNSTEADY = """
    from pathlib import Path

    import pytest

    def first_time():
        mark = Path("seen")
        known = mark.exists()
        mark.touch()
        return not known

    @pytest.mark.{mark}
    @pytest.mark.parametrize("address", ["ann@bank"])
    def test_unsteady(address):
        {second}
        assert not first_time()
"""


def unsteady(mark="xdist_group('pair')", second="pass"):
    """A test that fails when it is run for the first time."""
    return dedent(UNSTEADY.format(mark=mark, second=second))


@pytest.fixture
def retry(tmp_path):
    """Run some test files with a second try: exit code, output, and the list of flaky tests."""

    def run(files, *arguments):
        (tmp_path / "pytest.ini").write_text(
            "[pytest]\naddopts = -p xdist -m 'not rare'\nmarkers =\n    rare: left out\n"
        )
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        flaky = tmp_path / "flaky.txt"
        kept = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        ran = subprocess.run(
            [sys.executable, RETRY, "-q", *arguments],
            cwd=tmp_path,
            env={**kept, "FLAKY_TESTS": str(flaky), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=90,
        )
        return ran.returncode, ran.stdout, flaky.read_text() if flaky.exists() else ""

    return run


def test_success_needs_no_second_try(retry):
    code, out, flaky = retry({"fine": FINE})

    assert (code, flaky) == (0, "")
    assert "1 passed" in out
    assert "Once more" not in out


@pytest.mark.parametrize("arguments", [(), ("-n", "2", "--dist", "loadgroup")])
def test_a_flaky_test_passes_and_is_listed(retry, arguments):
    code, out, flaky = retry({"fine": FINE, "unsteady": unsteady()}, *arguments)

    assert code == 0
    assert "1 failed, 1 passed" in out
    assert "FLAKY" in out
    assert flaky == "  test_unsteady.py::test_unsteady[ann@bank]\n"


def test_a_flaky_test_that_is_left_out_otherwise_is_run_again(retry):
    code, _, flaky = retry({"unsteady": unsteady("rare")}, "-m", "rare")

    assert code == 0
    assert "test_unsteady" in flaky


def test_a_constant_failure_fails_the_run(retry):
    code, out, flaky = retry({"broken": BROKEN, "unsteady": unsteady()})

    assert (code, flaky) == (1, "")
    assert out.count("FAILED test_broken.py::test_broken") == 2
    assert "FLAKY" not in out


def test_a_test_that_is_skipped_the_second_time_has_not_passed(retry):
    skip = "Path('seen').exists() and pytest.skip('seen')"

    assert retry({"unsteady": unsteady(second=skip)})[0] == 1


def test_an_error_in_a_fixture_is_a_failure(retry):
    text = "import pytest\n@pytest.fixture\ndef bad():\n    assert 0\ndef test_it(bad):\n    pass\n"

    assert retry({"error": text})[0] == 1


@pytest.mark.parametrize("arguments", [(), ("-n", "2", "--dist", "loadgroup")])
def test_a_file_that_cannot_be_collected_fails_the_run(retry, arguments):
    code, out, _ = retry({"fine": FINE, "bad": "import no_such_module\n"}, *arguments)

    assert code != 0
    assert "Once more" not in out


def test_no_tests_at_all_fail_the_run(retry):
    assert retry({"none": "NUMBER = 1\n"})[0] == 5


def test_many_failures_have_no_second_try(retry):
    text = (
        "import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_it(n):\n    assert 0\n"
    )
    code, out, _ = retry({"many": text})

    assert code == 1
    assert "Once more" not in out
