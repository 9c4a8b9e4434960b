# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What suite ``runtime`` measures in a fresh process per case."""

from __future__ import annotations

from typing import Any


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The echo in one process or over gRPC, or an alignment."""
    if job["part"] == "psi":
        from benchmarks.suites.runtime import psi

        return psi.measure(job)
    if job["engine"] == "gRPC":
        from benchmarks.suites.runtime import bare_grpc

        return {"echo": bare_grpc.measure(job["steps"])}
    from benchmarks.suites.runtime.echo import PROTOCOL, build_nodes
    from fedsift.engine import run_local

    outcome = run_local(PROTOCOL, build_nodes("bank", "shop", job["steps"]))
    return {"echo": outcome.value}
