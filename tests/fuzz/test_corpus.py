"""Every input of the fuzzing corpus is read, or refused in three parts; needs no atheris."""

from pathlib import Path

import pytest

import fuzz
from fuzz.targets import LONGEST, TARGETS, check

CORPUS = Path(fuzz.__file__).parent / "corpus"
INPUTS = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_are_read_or_refused(target):
    if target == "model":
        pytest.importorskip("torch")
    own = [path for path in INPUTS if path.parent.name == target]
    assert own
    for path in own:
        check(target, path.read_bytes())


def test_the_corpus_is_small_and_has_no_strangers():
    assert {path.parent.name for path in INPUTS} == set(TARGETS)
    assert sum(path.stat().st_size for path in INPUTS) < 300_000
    assert max(path.stat().st_size for path in INPUTS) <= LONGEST


def test_another_error_is_a_failure(monkeypatch):
    def fail(_):
        raise KeyError("not one of ours")

    monkeypatch.setitem(TARGETS, "csv", fail)
    with pytest.raises(KeyError):
        check("csv", b"")
