# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: every role keeps its own state, and an interrupted run goes on from there.

The driver divides its work into *units*: an epoch, a round, a tested group. When one is finished it
tells every other role to save its state and then saves its own, so that whatever the driver has,
all others have too. A run begins with unit 0, in which nothing is finished yet.

To go on, the driver asks everybody which units they have of this run (:class:`UnitProgress`), picks
the last one that is common to all, and has everybody load it (:class:`Resume`). Keys, masks and
other preparations are made anew. Every role checks for itself that its data and the settings are
those the file was written with; digests and states never leave it. Traffic and disclosures are
saved too and counted on, so that the outcome of a resumed run tells all that was sent.

A role gets all of this from :class:`Resumable`; it only says what to remember (``checkpoint``) and
how to take it over (``restore``). Where the driver was given no directory, nothing is sent and
nothing is written.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import msgspec
import numpy as np

from fedsift.data.state_files import Checkpoints, State, fingerprint
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import AlignmentError, FileProblem, ParameterError, PartyFailed
from fedsift.protocol.message import Message, message
from fedsift.protocol.role import DrivingRole, Handler, Network, Role, T

_PARTS = frozenset({"run", "job", "data", "account", "state"})
_QUERY = -1
"""In place of a unit: tell which ones are there."""

M = TypeVar("M", bound=Message)
_log = logging.getLogger(__name__)


class Resume(Message, frozen=True):
    """Asks which units of a run are there, or to go on after one of them (0: begin)."""

    run: str
    unit: int


class UnitProgress(Message, frozen=True):
    """Which units the sender has, of which run, and whether it keeps any; nothing else."""

    run: str
    units: tuple[int, ...]
    keeps: bool = True


class Save(Message, frozen=True):
    """A unit is finished: asks to save its state."""

    unit: int


class Finished(Message, frozen=True):
    """The run is over: checkpoints may be removed once it has been closed everywhere."""


@dataclass(frozen=True)
class Signals:
    """The messages above, declared for a driver and one other role."""

    role: str
    resume: type[Resume]
    progress: type[UnitProgress]
    save: type[Save]
    finished: type[Finished]

    @property
    def messages(self) -> tuple[type[Message], ...]:
        """For the protocol's list."""
        return self.resume, self.progress, self.save, self.finished


def signals_between(driver: str, role: str, suffix: str = "") -> Signals:
    """Declare the messages; ``suffix`` tells those of a second role from those of the first."""
    there, back = f"{driver} -> {role}", f"{role} -> {driver}"
    tells = "nothing: which units of an interrupted run are finished"
    return Signals(
        role,
        _declared(Resume, f"Resume{suffix}", there, tells),
        _declared(UnitProgress, f"Progress{suffix}", back, tells),
        _declared(Save, f"Save{suffix}", there, "nothing: a unit of work is finished"),
        _declared(Finished, f"Finished{suffix}", there, "nothing: the run is over"),
    )


def checkpoint_messages(driver: type[Role]) -> tuple[type[Message], ...]:
    """Messages by which a driving role and the others keep checkpoints; they reveal nothing."""
    signals = driver.signals if issubclass(driver, Resumable) else ()
    return tuple(cls for each in signals for cls in each.messages)


def _declared(base: type[M], name: str, flow: str, reveals: str) -> type[M]:
    made = msgspec.defstruct(name, [], bases=(base,), frozen=True)
    return cast("type[M]", message(flow=flow, reveals=reveals)(cast("type[Message]", made)))


class Kept:
    """The checkpoints of one role, bound to a job and to the data they were made with.

    Parameters
    ----------
    directory : Path
    party, role : str
    job : mapping
        Settings that must not change.
    data : str
        Digest of the party's data; compared here, never sent.
    """

    def __init__(
        self, directory: Path, party: str, role: str, job: Mapping[str, Any], data: str
    ) -> None:
        self._files = Checkpoints(directory, party, role)
        self._party = party
        self._job = dict(job)
        self._data = data
        self.unit = 0
        self.state: State = {}
        self.run = ""
        self.over = False

    def found(self) -> tuple[str, tuple[int, ...]]:
        """Run and units on file; refuses those of another job or of other data."""
        self._lock()
        units = self._files.readable_units(_PARTS)
        if not units:
            return "", ()
        return str(self._checked(units[-1])["run"]), tuple(units)

    def begin(self, run: str, state: State, net: Network) -> None:
        """Start a run; never on top of another unfinished one."""
        self._lock()
        if self._files.units():
            raise FileProblem(
                f"Party {self._party!r} has a checkpoint of another unfinished run.",
                "A new run needs a directory without checkpoints.",
                "Resume that run, or remove its files or choose another directory.",
            )
        self._files.clear()
        self.run = run
        self.save(0, state, net)

    def save(self, unit: int, state: State, net: Network) -> None:
        """Write the state after a unit, and what the run has disclosed so far."""
        header = {"run": self.run, "job": self._job, "data": self._data, "account": net.account()}
        self._files.save(unit, {**header, "state": state})
        self.unit, self.state = unit, state

    def load(self, run: str, unit: int, net: Network) -> State:
        """Go on after a unit; later ones are about to be done again."""
        saved = self._checked(unit)
        if saved["run"] != run:
            raise self.lacking(unit)
        self._files.forget_after(unit)
        self.run, self.unit = run, unit
        with self._files.reading(unit):
            net.go_on(saved["account"])
        self.state = saved["state"]
        return self.state

    def restore(self, role: Resumable, run: str, unit: int, net: Network) -> None:
        """Have a role take over its state after a unit."""
        state = self.load(run, unit, net)
        with self._files.reading(unit):
            role.restore(state)

    def clear(self) -> None:
        """Forget the run."""
        self._files.clear()

    def release(self) -> None:
        """Let another run use the files."""
        self._files.unlock()

    def _lock(self) -> None:
        """Keep others out while this run goes on; the system lets go when the process ends."""
        if not self._files.lock():
            raise FileProblem(
                f"Another run uses the checkpoints of party {self._party!r}.",
                "A directory of checkpoints belongs to one run at a time.",
                "Wait until that run has ended, or give this one another directory.",
            )

    def lacking(self, unit: int) -> FileProblem:
        """The error of a role that cannot go on from a unit."""
        return FileProblem(
            f"Party {self._party!r} has no checkpoint of unit {unit} of this run.",
            "A run resumes from a unit that all parties have.",
            "Restore this party's files, or remove those of all parties and start again.",
        )

    def _checked(self, unit: int) -> State:
        if unit not in self._files.units():
            raise self.lacking(unit)
        saved = self._files.load(unit)
        if not set(saved) >= _PARTS:
            raise self._files.unreadable(unit)
        with self._files.reading(unit):
            job = dict(saved["job"])
            changed = sorted(k for k in {*job, *self._job} if not self._same(k, job))
        if changed:
            raise ParameterError(
                f"The checkpoint belongs to a job with another {', '.join(changed)}.",
                "An interrupted run continues with the settings it began with.",
                "Restore the settings, or choose another checkpoint directory to start again.",
            )
        if saved["data"] != self._data:
            raise AlignmentError(
                f"The data of party {self._party!r} is not what it was at the checkpoint.",
                "An interrupted run continues on the same rows and columns.",
                "Restore the data, or remove the checkpoints of all parties and start again.",
            )
        return saved

    def _same(self, name: str, saved: Mapping[str, Any]) -> bool:
        return name in saved and name in self._job and bool(saved[name] == self._job[name])


class Resumable(Role):
    """A role that keeps checkpoints. Subclasses name their ``signals`` and what to remember."""

    signals: ClassVar[tuple[Signals, ...]] = ()
    _checkpoints: Kept | None = None

    def __init_subclass__(
        cls, *, signals: Signals | tuple[Signals, ...] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if signals is None:
            return
        cls.signals = signals if isinstance(signals, tuple) else (signals,)
        for each in cls.signals:
            if each.role == cls.role_name:
                cls.handlers = {**cls.handlers, **_handlers(each)}

    def checkpoint(self) -> State:
        """What this role has to remember of the finished units; for its own file only."""
        return {}

    def restore(self, saved: State) -> None:
        """Take over what :meth:`checkpoint` gave."""

    def keep_checkpoints(
        self,
        directory: Path | None,
        party: str,
        params: Any,
        *content: PartyTable | Target | None,
        may_change: tuple[str, ...] = (),
    ) -> None:
        """Keep checkpoints in a directory; none without one.

        Parameters
        ----------
        directory : Path or None
            This party's own.
        params : dataclass
            Settings of the run; all but ``may_change`` must be the same when it goes on.
        content : tables and targets
            The party's data.
        """
        if directory is not None:
            job = _settings(params, may_change)
            self._checkpoints = Kept(directory, party, self.role_name, job, fingerprint(*content))

    @property
    def unit(self) -> int:
        """The last finished unit; 0 without checkpoints."""
        return 0 if self._checkpoints is None else self._checkpoints.unit

    def add_to_checkpoint(self, net: Network, **parts: Any) -> None:
        """Replace parts of the saved state within a unit, which an interruption must not lose."""
        kept = self._checkpoints
        if kept is not None and kept.run:
            kept.save(kept.unit, {**kept.state, **parts}, net)

    def _go_on(self, ask: Resume, net: Network) -> tuple[str, tuple[int, ...], bool]:
        """At a role that answers: tell the units, begin, or load one."""
        kept = self._checkpoints
        if kept is None:
            return "", (), False
        run, units = kept.found()
        if ask.unit == _QUERY:
            return run, units, True
        if ask.unit == 0 and run != ask.run:
            kept.begin(ask.run, self.checkpoint(), net)
        else:
            kept.restore(self, ask.run, ask.unit, net)
        return ask.run, (ask.unit,), True


def _handlers(signals: Signals) -> dict[type[Message], Handler]:
    """What an answering role does with the messages."""

    async def resume(role: Resumable, ask: Resume, net: Network) -> Message:
        return signals.progress(*role._go_on(ask, net))

    async def save(role: Resumable, ask: Save, net: Network) -> None:
        if role._checkpoints is not None and role._checkpoints.run:
            role._checkpoints.save(ask.unit, role.checkpoint(), net)

    async def finished(role: Resumable, _ask: Finished, _net: Network) -> None:
        if role._checkpoints is not None:
            role._checkpoints.over = True

    return {signals.resume: resume, signals.save: save, signals.finished: finished}


class ResumableDriver(Resumable, DrivingRole):
    """The driving role of a protocol whose runs can be continued."""

    async def begin(self, net: Network) -> None:
        """Before everything else: start a run, or have everybody load the last common unit."""
        kept = self._checkpoints
        if kept is None:
            return
        run, units = kept.found()
        answers = await self._everybody(run, _QUERY, net)
        if units:
            unit = _last_common(run, units, answers)
            kept.restore(self, run, unit, net)
        else:
            without = [party for party, reply in answers if not reply.keeps]
            if without:
                # A run that some could not continue is not worth anybody's files.
                _log.warning("no checkpoints: %s keeps none", ", ".join(without))
                kept.release()
                self._checkpoints = None
                return
            run, unit = secrets.token_hex(16), 0
            kept.begin(run, self.checkpoint(), net)
        await self._everybody(run, unit, net)

    async def _everybody(self, run: str, unit: int, net: Network) -> list[tuple[str, UnitProgress]]:
        """Ask all other roles; the party of each with its answer."""
        answers: list[tuple[str, UnitProgress]] = []
        for signals in self.signals:
            parties = net.members(signals.role)
            if parties:
                replies = await net.ask(signals.role, signals.resume(run, unit), signals.progress)
                answers += zip(parties, replies, strict=True)
        return answers

    async def done(self, net: Network) -> None:
        """A unit is finished: everybody saves, this role last."""
        kept = self._checkpoints
        if kept is None:
            return
        unit = kept.unit + 1
        for signals in self.signals:
            if net.members(signals.role):
                await net.tell(signals.role, signals.save(unit))
        kept.save(unit, self.checkpoint(), net)

    async def finish(self, net: Network) -> None:
        """After everything else: nothing is left to continue.

        Files stay until the run has been closed (:func:`forget_finished`): whatever happens on the
        way there can still be mended by resuming.
        """
        if self._checkpoints is None:
            return
        for signals in self.signals:
            if net.members(signals.role):
                await net.tell(signals.role, signals.finished())
        self._checkpoints.over = True

    async def collect(
        self,
        net: Network,
        role: str,
        asks: Mapping[str, Message],
        reply: type[T],
        take: Callable[[str, T], None],
        saved: Callable[[], State],
    ) -> None:
        """Ask several parties; with checkpoints, take and save every answer as it comes.

        ``take`` gets every answer, ``saved`` says what to write down then.

        If one fails, the answers of the others are still waited for, so that they need not be
        asked again when the run goes on.
        """
        if self._checkpoints is None:
            answers = await net.ask(role, asks, reply)
            for party, answer in zip(_in_order(asks, net.members(role)), answers, strict=True):
                take(party, answer)
            return

        async def one(party: str) -> None:
            (answer,) = await net.ask(role, {party: asks[party]}, reply)
            take(party, answer)
            self.add_to_checkpoint(net, **saved())

        parties = _in_order(asks, net.members(role))
        outcomes = await asyncio.gather(*map(one, parties), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome


def _last_common(
    run: str, units: tuple[int, ...], answers: Sequence[tuple[str, UnitProgress]]
) -> int:
    """The last of the driver's units that everybody has; whoever has nothing can begin."""
    common = set(units)
    for party, reply in answers:
        fits = reply.keeps and (reply.run == run or not reply.units)
        common &= set(reply.units or (0,)) if fits else set()
        if not common:
            reason = "it has no checkpoint that the others have too, of the same run"
            raise PartyFailed(party, Resume.__name__, 1, reason)
    return max(common)


def release_checkpoints(nodes: Mapping[str, Sequence[Role]]) -> None:
    """Let other runs use the directories of a run that has ended, one way or the other."""
    for roles in nodes.values():
        for role in roles:
            if isinstance(role, Resumable) and role._checkpoints is not None:
                role._checkpoints.release()


def forget_finished(nodes: Mapping[str, Sequence[Role]]) -> None:
    """Remove the checkpoints of a run that has been closed; those of an interrupted one stay."""
    for roles in nodes.values():
        for role in roles:
            if (
                isinstance(role, Resumable)
                and role._checkpoints is not None
                and role._checkpoints.over
            ):
                role._checkpoints.clear()


def _in_order(asks: Mapping[str, Message], members: tuple[str, ...]) -> list[str]:
    return [party for party in members if party in asks]


def _settings(params: Any, may_change: tuple[str, ...]) -> dict[str, Any]:
    """Settings as plain values by name, and the version that a state's meaning depends on."""
    names = [field.name for field in fields(params) if field.name not in may_change]
    found = {name: _plain(getattr(params, name)) for name in names}
    return {**found, "version of fedsift": metadata.version("fedsift")}


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, np.ndarray):
        return hashlib.sha256(repr(value.shape).encode() + value.tobytes()).hexdigest()
    return repr(value)
