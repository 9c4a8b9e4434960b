"""Real processes: one that is killed in the middle, and one whose disk is full."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from fedsift.data.state_files import unfinished
from helpers.cli import call
from helpers.resume import CASES, assert_same, undisturbed, watched

PATIENCE_SECONDS = 90
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# Long enough to be hit in the middle, and a checkpoint after every few milliseconds.
JOB = """
[job]
method = "fpso"
seed = 3
[data]
dataset = "wine"
setting = "horizontal"
parties = 3
[method]
n_particles = 6
n_iterations = 4
n_rounds = 30
[runtime]
checkpoint = "kept"
"""


def units(place):
    """The driver's units on file."""
    names = [path.name for path in place.glob("third-party.*")] if place.exists() else []
    return sorted(int(name.split(".")[-2]) for name in names if name.endswith("checkpoint"))


@pytest.mark.timeout(240)
def test_a_killed_run_is_resumed_by_the_command_line(tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    command = [sys.executable, "-m", "fedsift.cli", "run", str(job), "--out", str(tmp_path / "a")]
    process = subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        start = time.monotonic()
        while not [unit for unit in units(tmp_path / "kept") if unit >= 3]:
            assert process.poll() is None
            assert time.monotonic() - start < PATIENCE_SECONDS
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    reached = units(tmp_path / "kept")
    # The last two, and the one before them if the kill came just before it was removed.
    assert len(reached) in (2, 3)
    assert reached == list(range(reached[0], reached[-1] + 1))
    assert reached[-1] < 59  # killed in the middle: every round has two units
    assert not (tmp_path / "a").exists()

    refused = call("run", job, "--out", tmp_path / "a")
    assert refused.exit_code == 2
    assert "--resume" in refused.err
    assert units(tmp_path / "kept") == reached

    resumed = call("run", job, "--out", tmp_path / "a", "--resume", "--json")
    assert resumed.exit_code == 0
    assert not unfinished(tmp_path / "kept")
    job.write_text(JOB.replace('checkpoint = "kept"', ""))
    whole = call("run", job, "--out", tmp_path / "b", "--json")
    for key in ("selected", "scores", "ranking", "participants", "history"):
        assert resumed.json["result"][key] == whole.json["result"][key]
    on_disk = json.loads((tmp_path / "a" / "result.json").read_text())
    assert on_disk["selected"] == whole.json["result"]["selected"]


SCRIPT = """
    import resource, sys
    sys.path.insert(0, sys.argv[1])
    from fedsift.errors import FedsiftError
    from helpers.resume import CASES

    sent = []

    def fill_the_disk(step):
        sent.append(step.message)
        if sys.argv[3] == "a party":
            full = sent.count("Save") == 4  # the second unit, and the first party is to save it
        else:
            full = sent.count("Done") == 12  # all parties have saved the second unit
        if full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    case = CASES["fpso"]
    try:
        case.make(sys.argv[2]).run(case.federation(), observer=fill_the_disk)
    except FedsiftError as error:
        print(error.code, error)
        sys.exit(error.exit_code)
"""


@pytest.mark.parametrize(
    ("where", "exit_code", "code"), [("a party", 3, "E403"), ("the driver", 2, "E105")]
)
@pytest.mark.timeout(240)
def test_a_full_disk_ends_the_run_clearly_and_it_can_be_resumed(where, exit_code, code, tmp_path):
    """The operating system itself refuses to write more; nothing is simulated here."""
    place = tmp_path / "kept"
    tests = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), tests, str(place), where],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == exit_code, ended.stderr
    assert ended.stdout.startswith(code)
    assert "could not be written (File too large)" in ended.stdout
    assert "Free some space and resume the run; the checkpoint before it is untouched." in (
        ended.stdout
    )
    assert not list(place.glob("*.new"))  # no half-written file is left
    assert units(place)
    case, whole = CASES["fpso"], undisturbed("fpso")
    resumed = watched(case.make(place), case.federation())
    assert_same(resumed.selector, whole.selector)
    assert resumed.count(case.expensive) < whole.count(case.expensive)
