# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a member writes into its own log when something fails, and what the hub learns of it."""

from __future__ import annotations

import logging
import traceback

from fedsift.errors import FedsiftError

_log = logging.getLogger(__name__)


def log_refusal(error: Exception) -> str:
    """Log an error and return its code, all that a hub may know of it."""
    log_failure(error)
    return error.code if isinstance(error, FedsiftError) else FedsiftError.code


def log_failure(error: BaseException) -> None:
    """Say in this member's own log what went wrong; texts of foreign errors may hold data."""
    if isinstance(error, FedsiftError):
        _log.error("%s", error.one_line)
    else:
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s in\n%s", type(error).__name__, frames)
