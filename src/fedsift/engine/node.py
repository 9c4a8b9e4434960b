# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One party at work: its roles, on a thread and an event loop of their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from fedsift.engine.timeouts import DEFAULT_TIMEOUTS
from fedsift.protocol.role import Role

R = TypeVar("R")


class Node:
    """One party: a busy or stuck one does not stop the others from noticing."""

    def __init__(self, party: str, roles: Sequence[Role]) -> None:
        self.party = party
        self.roles = {role.role_name: role for role in roles}
        self.loop = asyncio.new_event_loop()
        # A daemon: a party stuck in a computation must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=f"party {party}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        """Run a coroutine on this party's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        """Stop the loop; a party still computing is left to its daemon thread."""
        self.submit(self._stop())
        self._thread.join(timeout=DEFAULT_TIMEOUTS.thread_end_seconds)

    async def _stop(self) -> None:
        """Let cancelled requests unwind before the loop ends, so that nothing complains later."""
        tasks = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.loop.call_soon(self.loop.stop)
