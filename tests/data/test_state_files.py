"""Files of states: everything comes back as it was, or an error says what is wrong."""

import gc
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from fedsift.data import PartyTable, Target
from fedsift.data.state_files import (
    Checkpoints,
    fingerprint,
    part_path,
    read_state,
    safe_name,
    unfinished,
    write_state,
)
from fedsift.errors import FileProblem

STATE = {
    "numbers": np.arange(6.0).reshape(2, 3),
    "flags": np.array([True, False]),
    "words": np.array([1, 2**63], dtype=np.uint64),
    "huge": np.array([2**200, -(2**90)], dtype=object),
    "nothing": None,
    "secret": b"\x00\xff",
    "plain": {"a": 1, "b": [1.5, float("inf"), "text", True, 2**300], "empty": []},
    3: {"nested": [{"deep": np.zeros(0)}]},
    "rng": np.random.default_rng(0).bit_generator.state,
}


def assert_equal(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_equal(ours[key], theirs[key])
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_equal(one, other)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert (ours == theirs).all()
    else:
        assert ours == theirs


def test_a_state_comes_back_as_it_was(tmp_path):
    path = tmp_path / "below" / "state"
    write_state(path, STATE)
    assert_equal(read_state(path), STATE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


class _Finalised:
    """Garbage that runs Python code when it is collected, so that threads change places there."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        sum(range(30))


def test_parties_read_their_states_at_the_same_time(tmp_path):
    """Threads that collect garbage while a header is parsed; without a lock some fail."""
    write_state(tmp_path / "state", STATE)
    expected = read_state(tmp_path / "state")["numbers"]
    failures, read = [], []

    def load():
        for _ in range(150):
            _Finalised()
            try:
                read.append(read_state(tmp_path / "state")["numbers"])
            except BaseException as error:  # whatever it is, the thread must tell
                failures.append(error)

    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(20, 2, 2)
    try:
        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*thresholds)
    assert not failures
    assert len(read) == 600
    assert all((numbers == expected).all() for numbers in read)


def test_tensors_come_back_as_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    write_state(tmp_path / "state", {"weights": torch.arange(3.0)})
    found = read_state(tmp_path / "state")["weights"]
    assert torch.equal(found, torch.arange(3.0))


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(TypeError, match="a state holds no Random"):
        write_state(tmp_path / "state", {"rng": __import__("random").Random(0)})
    assert not list(tmp_path.iterdir())


def test_a_crafted_pickle_is_not_opened(tmp_path):
    path = tmp_path / "state"
    with path.open("wb") as file:
        np.savez(file, index=np.array([{"format": "fedsift part 1"}], dtype=object))
    with pytest.raises(FileProblem, match="not a readable part"):
        read_state(path)


def test_the_last_two_units_are_kept_and_others_left_alone(tmp_path):
    mine = Checkpoints(tmp_path, "bank", "label holder")
    other = Checkpoints(tmp_path, "bank", "feature holder")
    other.save(0, {})
    for unit in range(4):
        mine.save(unit, {"unit": unit})
    assert mine.units() == [2, 3]
    assert mine.load(2) == {"unit": 2}
    mine.save(3, {"unit": "again"})
    assert mine.load(3) == {"unit": "again"}
    mine.forget_after(2)
    assert mine.units() == [2]
    assert len(unfinished(tmp_path)) == 2
    (tmp_path / "bank.label%20holder.00003.fedsift-checkpoint.abc.new").write_bytes(b"half")
    mine.clear()
    assert unfinished(tmp_path) == ("bank.feature%20holder.00000.fedsift-checkpoint",)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_that_fails_leaves_the_older_file(tmp_path, monkeypatch):
    files = Checkpoints(tmp_path, "bank", "member")
    files.save(1, {"unit": 1})

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileProblem, match="No space left on device") as problem:
        files.save(2, {"unit": 2})
    assert str(tmp_path) not in str(problem.value)
    assert files.units() == [1]
    assert files.load(1) == {"unit": 1}
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileProblem, match="could not be written"):
        write_state(part_path(tmp_path, "bank"), {})


def test_different_parties_have_different_files():
    names = ("a b", "a%20b", "a.b", "ä", "a/b", "..", "A B")
    assert len({safe_name(name) for name in names}) == len(names)
    assert not any("/" in safe_name(name) or "." in safe_name(name) for name in names)


def test_a_fingerprint_notices_every_change():
    base = {"age": [31.0, 52.0], "job": ["cook", "smith"]}
    tables = [
        base,
        {"age": [52.0, 31.0], "job": ["cook", "smith"]},
        {"age": [31.0, 52.0], "job": ["smith", "cook"]},
        {"job": ["cook", "smith"], "age": [31.0, 52.0]},
        {"years": [31.0, 52.0], "job": ["cook", "smith"]},
        {"age": [31.0, np.nan], "job": ["cook", "smith"]},
        {"age": [31.0, 52.0]},
    ]
    made = [PartyTable.from_any(table, name="bank") for table in tables]
    targets = [None, Target.from_values(["a", "b"]), Target.from_values(["b", "a"])]
    found = [fingerprint(table) for table in made]
    found += [fingerprint(made[0], target) for target in targets]
    assert len(set(found)) == len(found)
    assert fingerprint(PartyTable.from_any(base, name="shop")) == found[0]


def kept(tmp_path, role="leader"):
    return Checkpoints(tmp_path, "bank", role)


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, damage, caplog):
    files = kept(tmp_path)
    for unit in (0, 1, 2):
        files.save(unit, {"unit": unit})
    newest = files.path(2)
    newest.write_bytes(newest.read_bytes()[:-30] if damage is None else damage)

    assert files.readable_units({"unit"}) == [1]
    assert files.load(1) == {"unit": 1}
    assert "bank.leader.00002" in caplog.text
    assert "goes on from the one before" in caplog.text


def test_nothing_is_gone_on_from_if_all_checkpoints_are_damaged(tmp_path):
    files = kept(tmp_path)
    for unit in (1, 2):
        files.save(unit, {"unit": unit})
        files.path(unit).write_bytes(b"rubbish")
    with pytest.raises(FileProblem, match=r"00002\.fedsift-checkpoint is not readable"):
        files.readable_units({"unit"})
    assert kept(tmp_path, "other").readable_units({"unit"}) == []


HOLD = """
import sys, time
from pathlib import Path
from fedsift.data.state_files import Checkpoints
files = Checkpoints(Path(sys.argv[1]), "bank", "leader")
print(files.lock(), flush=True)
time.sleep(60)
"""


def test_a_directory_belongs_to_one_run_at_a_time(tmp_path):
    first, second = kept(tmp_path), kept(tmp_path)
    assert first.lock()
    assert first.lock()  # the same run asks again
    assert not second.lock()
    assert kept(tmp_path, "other").lock()  # roles of one run do not lock each other out
    first.unlock()
    assert second.lock()
    second.unlock()
    assert not list(tmp_path.glob("bank.leader*"))


def test_a_lock_ends_with_its_process(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "True\n"
        assert not kept(tmp_path).lock()
        assert (tmp_path / "bank.leader.fedsift-lock").read_text() == f"{holder.pid}\n"
    finally:
        holder.kill()
        holder.wait(30)
        holder.stdout.close()
    assert (tmp_path / "bank.leader.fedsift-lock").exists()  # left behind, and in nobody's way
    assert kept(tmp_path).lock()
