"""A run that ends while a role is busy leaves nothing behind that complains later."""

import gc
import sys
import threading
import warnings
from dataclasses import replace

import pytest

from fedsift.engine import local, run_local
from fedsift.engine.observer import Observer
from helpers.toy_protocol import TOY, Answerer, Asker, Helper


@pytest.fixture
def complaints(monkeypatch):
    """Warnings that come where nobody catches them."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: found.append(str(one.exc_value)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield found


def test_a_busy_driver_that_goes_on_asking_starts_nothing(monkeypatch, complaints):
    """As after Ctrl-C in the middle of a message, while those to others are due already."""
    asking, closed = threading.Event(), threading.Event()
    limits = replace(local.DEFAULT_TIMEOUTS, thread_end_seconds=0.05)
    monkeypatch.setattr(local, "DEFAULT_TIMEOUTS", limits)

    class Busy(Observer):
        def message(self, step):
            asking.set()
            assert closed.wait(10)

    def interrupt(future, on_interrupt):
        assert asking.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_wait", interrupt)
    parties = {f"b{number}": (Answerer(),) for number in range(4)}
    with pytest.raises(KeyboardInterrupt):
        run_local(TOY, {"a": (Asker(),), **parties, "h": (Helper(),)}, observer=Busy())
    closed.set()
    for thread in threading.enumerate():
        if thread.name.startswith("party "):
            thread.join(10)
    gc.collect()
    assert complaints == []


class Raising(Observer):
    def __init__(self, where, error):
        self.where, self.error = where, error

    def message(self, progress):
        if progress.message == self.where:
            raise self.error

    def step(self, entry):
        if self.where == "step":
            raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", ["step", "Question", "SubQuestion", "Hint", "Answer"])
def test_what_an_observer_raises_ends_the_run(where, error, complaints):
    """At whichever party: these errors stop the event loop of the party they are raised at."""
    parties = {"a": (Asker(),), "b": (Answerer(),), "h": (Helper(),), "i": (Helper(),)}
    found = local.in_thread("run", run_through, parties, Raising(where, error("stop")))

    with pytest.raises(error, match="stop"):
        found.result(20)
    assert not [t for t in threading.enumerate() if t.name.startswith("party ")]
    gc.collect()
    assert complaints == []


def run_through(parties, observer):
    return run_local(TOY, parties, observer=observer)


def test_a_closed_party_cancels_what_it_is_given(complaints):
    node = local.Node("bank", ())
    node.close()
    node.close()  # a second time does nothing

    async def work():
        return 1

    assert node.submit(work()).cancelled()
    gc.collect()
    assert complaints == []
