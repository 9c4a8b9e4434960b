"""Linear algebra uses one thread while parties compute, and as many as before afterwards."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fedsift.engine import run_local
from fedsift.engine.local import one_thread_each
from fedsift.protocol import handles
from helpers.toy_protocol import TOY, Answer, Answerer, Asker, Helper, Question


def blas_threads():
    np.linalg.norm(np.eye(2))
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this linear algebra has no second thread")
        yield


@pytest.mark.usefixtures("two_threads")
def test_the_last_run_gives_the_threads_back():
    first, second = one_thread_each(), one_thread_each()
    first.__enter__()
    second.__enter__()
    assert blas_threads() == {1}
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_parties_compute_with_one_thread_each():
    seen = []

    class Looking(Answerer):
        @handles(Question)
        async def answer(self, ask, net):
            seen.append(blas_threads())
            return Answer(ask.number)

    run_local(TOY, {"a": (Asker(),), "b": (Looking(),), "h": (Helper(),)})
    assert seen
    assert all(threads == {1} for threads in seen)
    assert blas_threads() == {2}
