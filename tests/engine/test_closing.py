"""A run that ends while a role is busy leaves nothing behind that complains later."""

import gc
import sys
import threading
import warnings
from dataclasses import replace

import pytest

from fedsift.engine import local, run_local
from helpers.toy_protocol import TOY, Answer, Answerer, Asker, Helper, Question


@pytest.fixture
def complaints(monkeypatch):
    """Warnings that come where nobody catches them."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: found.append(str(one.exc_value)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield found


def test_a_busy_driver_that_goes_on_asking_starts_nothing(monkeypatch, complaints):
    """As after Ctrl-C in the middle of a computation."""
    asking, closed, gone = threading.Event(), threading.Event(), threading.Event()
    limits = replace(local.DEFAULT_TIMEOUTS, thread_end_seconds=0.05)
    monkeypatch.setattr(local, "DEFAULT_TIMEOUTS", limits)

    class Busy(Asker):
        async def drive(self, net):
            asking.set()
            assert closed.wait(10)
            try:
                return await net.ask("answerer", Question(3), Answer)
            finally:
                gone.set()

    def interrupt(future, on_interrupt):
        assert asking.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_local(TOY, {"a": (Busy(),), "b": (Answerer(),), "h": (Helper(),)})
    closed.set()
    assert gone.wait(10)
    for thread in threading.enumerate():
        if thread.name.startswith("party "):
            thread.join(10)
    gc.collect()
    assert complaints == []


def test_a_closed_party_cancels_what_it_is_given(complaints):
    node = local.Node("bank", ())
    node.close()
    node.close()  # a second time does nothing

    async def work():
        return 1

    assert node.submit(work()).cancelled()
    gc.collect()
    assert complaints == []
