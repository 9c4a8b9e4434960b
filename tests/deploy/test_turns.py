"""Runs of one job take turns at a member, also when a process ends without a word."""

import signal
import subprocess
import sys
import threading

import pytest

from fedsift.deploy.site import hold_checkpoints
from fedsift.errors import FileProblem

HOLDER = """
import sys, time
from pathlib import Path
from fedsift.deploy.site import hold_checkpoints
with hold_checkpoints(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(300)
"""


def test_a_second_run_waits_for_the_first(tmp_path):
    place, order = tmp_path / "kept" / "job", []
    inside, may_end = threading.Event(), threading.Event()

    def first():
        with hold_checkpoints(place):
            inside.set()
            may_end.wait(60)
            order.append("first")

    running = threading.Thread(target=first)
    running.start()
    assert inside.wait(60)
    with pytest.raises(FileProblem, match="still going on"), hold_checkpoints(place, 0.0):
        pass
    with hold_checkpoints(tmp_path / "kept" / "another", 0.0):
        may_end.set()
    with hold_checkpoints(place, 60):
        order.append("second")
    running.join(60)

    assert order == ["first", "second"]
    assert not list((tmp_path / "kept").iterdir())


def test_a_killed_run_holds_nothing(tmp_path):
    place = tmp_path / "job"
    holder = [sys.executable, "-c", HOLDER, str(place)]
    with subprocess.Popen(holder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(FileProblem, match="still going on"), hold_checkpoints(place, 0.0):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait(60)

        with hold_checkpoints(place, 0.0):
            pass


def test_without_a_place_nothing_runs(tmp_path):
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(FileProblem, match="cannot be used"),
        hold_checkpoints(tmp_path / "file" / "job", 0.0),
    ):
        pass
