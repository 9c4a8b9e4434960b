# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What carries the messages: every party in this process, or an engine across organisations."""

from fedsift.engine.api import EMBEDDED, EmbeddedPlayer, Player
from fedsift.engine.local import run_embedded
from fedsift.engine.outcome import Outcome
from fedsift.engine.session import Progress

__all__ = ["EMBEDDED", "EmbeddedPlayer", "Outcome", "Player", "Progress", "run_embedded"]
