# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The echo over bare gRPC, to compare with: two processes, no hub, no TLS, no sealing, no codec.

``python -m benchmarks.suites.runtime.bare_grpc`` serves it: prints its port, ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import grpc

from benchmarks.runner import child_environment
from benchmarks.suites.runtime.echo import Steps
from fedsift.errors import BadFrame

_METHOD = "/fedsift.Echo/Send"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_LIMIT_SECONDS = 60.0


def measure(steps: Steps) -> list[dict[str, Any]]:
    """Seconds of every round, as the echo of a runtime gives them."""
    with _server() as port:
        return asyncio.run(_call(port, steps))


async def _call(port: int, steps: Steps) -> list[dict[str, Any]]:
    found = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS) as channel:
        send = channel.unary_unary(_METHOD)
        for size, rounds in steps:
            content, seconds = os.urandom(size), []
            for _ in range(rounds + 1):
                start = time.perf_counter()
                answer = await send(content, timeout=_LIMIT_SECONDS, wait_for_ready=True)
                seconds.append(time.perf_counter() - start)
                if answer != content:
                    raise BadFrame(
                        f"Another echo than the {size} bytes that were sent.",
                        "gRPC brings messages as they are.",
                        "Reinstall grpcio.",
                    )
            found.append({"size": size, "seconds": seconds[1:]})
    return found


@contextlib.contextmanager
def _server() -> Iterator[int]:
    """The other party, in a process of its own; its port."""
    command = [sys.executable, "-P", "-m", __name__]
    process = subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        try:
            process.wait(_LIMIT_SECONDS)
        finally:
            process.kill()
            process.stdout.close()


async def _serve() -> None:
    async def answer(content: bytes, _: Any) -> bytes:
        return content

    server = grpc.aio.server(options=_OPTIONS)
    service, method = _METHOD.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {method: handler})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(_serve())
