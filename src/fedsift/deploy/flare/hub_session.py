# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A submitter's connection to the hub; every command has a time limit."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from typing import IO, Any, Self

from fedsift.deploy.kits import Kit
from fedsift.deploy.processes import open_log, port_of
from fedsift.deploy.provision import require_flare
from fedsift.engine.timeouts import DEFAULT_TIMEOUTS, Timeouts
from fedsift.errors import ConfigError, MemberDown

_UNREACHABLE = ("NoConnection", "SessionClosed", "SessionExpired", "FLCommunicationError")
_NOT_ALLOWED = ("AuthenticationError", "AuthorizationError")
_NO_JOB = ("JobNotFound", "InvalidJobDefinition")


class HubRefused(ConfigError):
    """The hub answered a command with an error; ``kind`` is FLARE's name for it."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(
            f"The hub refused: {kind}: {text}.",
            "The command must fit the state of the federation.",
            "See 'fedsift deploy status' and the log of the hub.",
        )


class HubSession:
    """Sends commands to the hub, through a process of its own.

    Parameters
    ----------
    kit : Kit
        Of a submitter.
    timeouts : Timeouts
        How long to try to reach the hub and to wait for its replies.
    """

    def __init__(self, kit: Kit, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        require_flare()
        self._kit = kit
        self._timeouts = timeouts
        self._answers: queue.Queue[str] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        errors = open_log(self._kit, "hub-proxy.log")
        limits = (self._timeouts.connect_seconds, self._timeouts.command_seconds)
        command = [sys.executable, "-m", "fedsift.deploy.flare.hub_proxy", str(self._kit.folder)]
        with errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [*command, *map(str, limits)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for this process; the job is ended in order
                env=os.environ | {"PYTHONWARNINGS": "ignore"},
            )
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        reader.start()
        try:
            self._read_reply(self._timeouts.connect_seconds)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """Send one command and wait for the reply.

        Parameters
        ----------
        do : str
            One of the commands of :mod:`fedsift.deploy.flare.hub_proxy`.
        **details
            What the command needs.
        """
        assert self._process is not None  # noqa: S101 - inside the with block
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._lost("the connection ended") from None
        return self._read_reply(self._timeouts.command_seconds)

    def find_connected(self) -> dict[str, bool]:
        """Return the organisations that have registered, and whether they were heard lately."""
        silent: dict[str, float] = self.ask("info")["silent"]
        return {name: seconds < self._timeouts.away_seconds for name, seconds in silent.items()}

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._answers.put(line)
        self._answers.put("")

    def _read_reply(self, seconds: float) -> dict[str, Any]:
        seconds += self._timeouts.command_margin_seconds
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise self._lost(f"no answer in {seconds:.0f} seconds") from None
        if not line:
            raise self._lost("the connection ended")
        answer: dict[str, Any] = json.loads(line)
        kind = answer.get("error")
        if kind is None:
            return answer
        if kind in _UNREACHABLE:
            raise self._lost(answer["text"] or kind)
        if kind in _NOT_ALLOWED:
            raise ConfigError(
                f"The hub does not let {self._kit.name!r} do this.",
                "A submitter sees to their own jobs only.",
                "Check that the kit is the submitter's own and its certificate is still valid.",
            )
        raise HubRefused(kind, answer["text"])

    def _lost(self, reason: str) -> MemberDown:
        host = f"{self._kit.host}:{port_of(self._kit)}"
        return MemberDown(
            f"The hub at {host} cannot be reached: {reason}.",
            "The hub must be up and the network must let this machine dial it.",
            "Ask its operator, or look with 'fedsift deploy status'.",
        )

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        try:
            process.stdin.write('{"do": "close"}\n')
            process.stdin.close()
        except OSError:
            pass
        try:
            process.wait(self._timeouts.proxy_end_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(self._timeouts.proxy_end_seconds)
        process.stdout.close()
