# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What carries the messages: every party in this process, or an engine across organisations."""

from fedsift.engine.api import LOCAL_ENGINE, Engine, LocalEngine
from fedsift.engine.local import run_local
from fedsift.engine.outcome import Outcome
from fedsift.engine.session import Progress

__all__ = ["LOCAL_ENGINE", "Engine", "LocalEngine", "Outcome", "Progress", "run_local"]
