# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One measurement in a fresh process: ``python -m benchmarks.worker MODULE JOB``.

``MODULE`` is a module of the suites that has ``measure``, such as ``fedsdg.secure``; ``JOB`` is
JSON. The measures are printed as JSON.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys


def peak_memory() -> int:
    """The most memory that this process has had so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts kilobytes, macOS bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Read module and job from the command line, print the measures."""
    module, job = sys.argv[1:]
    measures = importlib.import_module(f"benchmarks.suites.{module}").measure(json.loads(job))
    measures.setdefault("peak_memory", peak_memory())
    sys.stdout.write(json.dumps(measures) + "\n")


if __name__ == "__main__":
    main()
