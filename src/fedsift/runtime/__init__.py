# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What carries the messages: every party in this process, or an engine across organisations."""

from fedsift.runtime.embedded import run_embedded
from fedsift.runtime.outcome import Outcome
from fedsift.runtime.play import EMBEDDED, EmbeddedPlayer, Player
from fedsift.runtime.session import Progress

__all__ = ["EMBEDDED", "EmbeddedPlayer", "Outcome", "Player", "Progress", "run_embedded"]
