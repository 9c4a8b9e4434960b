"""Numbers from a shared secret: the same for all who have it, unrelated for everybody else."""

import numpy as np
import pytest

from fedsift.methods.dcfs.stream import uniform_numbers


def test_they_are_uniform():
    numbers = uniform_numbers(b"a" * 32, "test", (200, 500))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)


@pytest.mark.parametrize(("secret", "purpose"), [(b"b" * 32, "test"), (b"a" * 32, "other")])
def test_another_secret_or_purpose_gives_unrelated_numbers(secret, purpose):
    one = uniform_numbers(b"a" * 32, "test", (100, 100))
    assert np.array_equal(one, uniform_numbers(b"a" * 32, "test", (100, 100)))
    other = uniform_numbers(secret, purpose, (100, 100))
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.05
