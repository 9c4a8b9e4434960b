# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One measurement in a fresh process: ``python -m fedsift.bench.runtime_worker '{...}'``."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The echo in one process or over gRPC, or an alignment."""
    if job["part"] == "psi":
        from fedsift.bench import runtime_psi

        return runtime_psi.measure(job)
    if job["engine"] == "gRPC":
        from fedsift.bench import runtime_grpc

        return {"echo": runtime_grpc.measure(job["steps"])}
    from fedsift.bench.runtime_echo import PROTOCOL, build_nodes
    from fedsift.runtime import run_embedded

    outcome = run_embedded(PROTOCOL, build_nodes("bank", "shop", job["steps"]))
    return {"echo": outcome.value}


def main() -> None:
    """Read a job from the command line, print its measures as JSON."""
    measures = measure(json.loads(sys.argv[1]))
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts kilobytes, macOS bytes
    measures["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    sys.stdout.write(json.dumps(measures) + "\n")


if __name__ == "__main__":
    main()
