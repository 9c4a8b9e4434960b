# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fedsift.errors import FedsiftError

Refused = Callable[..., object]

# Put into cells by the tests; an error that shows one of these gives data away.
SECRET = "s3cr3t-cell"
SECRET_NUMBER = 98765.4321


@contextmanager
def _refused(error_class: type[FedsiftError], *words: str) -> Iterator[None]:
    with pytest.raises(error_class) as caught:
        yield
    error = caught.value
    assert type(error) is error_class
    assert error.found
    assert error.needed
    assert error.action
    message = str(error)
    assert SECRET not in message
    assert "98765" not in message
    for word in words:
        assert word in message, message


@pytest.fixture
def refused() -> Refused:
    """Expect an error of exactly this class with all three parts and without cell values."""
    return _refused


@pytest.fixture
def secret() -> str:
    return SECRET


@pytest.fixture
def secret_number() -> float:
    return SECRET_NUMBER
