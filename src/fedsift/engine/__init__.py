# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What carries the messages: every party in this process, or an engine across organisations."""

from fedsift.engine.api import LOCAL_ENGINE, Engine, LocalEngine
from fedsift.engine.local import run_local
from fedsift.engine.observer import Observer, Progress
from fedsift.engine.outcome import Outcome

__all__ = ["LOCAL_ENGINE", "Engine", "LocalEngine", "Observer", "Outcome", "Progress", "run_local"]
