# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How long one call takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

Seconds = dict[str, float]

SHARE = 0.035
"""Seconds that one unit is measured for."""

BRIEFLY = 0.4


_GROUPS = 5


def per_call(action: Callable[[], Any], times: float = 1.0) -> float:
    """Processor seconds of one call, measured for so many times the usual share of a second.

    The median over groups of calls: a moment in which the machine was busy is left out.
    """
    action()
    share, ends = times * SHARE, [time.process_time()]
    while ends[-1] - ends[0] <= share:
        action()
        ends.append(time.process_time())
    seconds = [late - early for early, late in pairwise(ends)]
    size = -(-len(seconds) // _GROUPS)
    groups = [seconds[first : first + size] for first in range(0, len(seconds), size)]
    return statistics.median(map(statistics.fmean, groups))
