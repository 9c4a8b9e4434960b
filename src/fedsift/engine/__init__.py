# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What runs protocols: with every party in this process, or across organisations."""

from fedsift.engine.local import LOCAL_ENGINE, LocalEngine, run_local
from fedsift.engine.observer import Observer, Outcome, Progress
from fedsift.engine.session import Engine

__all__ = ["LOCAL_ENGINE", "Engine", "LocalEngine", "Observer", "Outcome", "Progress", "run_local"]
