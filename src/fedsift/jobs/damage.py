# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a history that cannot be read as it was written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from fedsift.errors import FedsiftError, FileProblem

HISTORY_FILE = "history.sqlite"


@contextlib.contextmanager
def refuse_damage() -> Iterator[None]:
    """Say that the file is damaged where something is read from it that was never written."""
    try:
        yield
    except FedsiftError:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError):
        raise FileProblem(
            f"The history {HISTORY_FILE!r} is damaged.",
            "A member's history is read as it was written.",
            "Restore it from a backup; without one, a new file remembers nothing.",
        ) from None
