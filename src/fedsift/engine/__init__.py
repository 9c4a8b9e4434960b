# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What runs protocols: with every party in this process, or across organisations."""

from fedsift.engine.api import Engine
from fedsift.engine.local import LOCAL_ENGINE, LocalEngine, run_local
from fedsift.engine.outcome import Outcome
from fedsift.engine.session import Progress

__all__ = ["LOCAL_ENGINE", "Engine", "LocalEngine", "Outcome", "Progress", "run_local"]
