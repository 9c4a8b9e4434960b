# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One run of a protocol: the rules every message passes, whatever carries it.

An engine moves bytes. The session decides whether a message may be sent at all (declared flow, the
plan of the run, the sender's policy), turns it into a frame, and writes transcript and ledger.
Every engine uses the same session, so traffic and disclosures are counted the same way everywhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack
from typing import Protocol as Interface

import msgspec

from fedsift.engine.observer import Observer, Outcome, Progress
from fedsift.errors import BadFrame, FedsiftError, OutOfMemory, UndeclaredFlow, UnplannedMessage
from fedsift.protocol.commitments import MessageLine, Record, mark_resumed
from fedsift.protocol.message import (
    MAX_FRAME_BYTES,
    NOTHING,
    Codec,
    Done,
    Fault,
    Message,
    sealed_parts,
)
from fedsift.protocol.policy import OPEN, Policy, check_message
from fedsift.protocol.role import Protocol, Role
from fedsift.protocol.transcript import Entry, Ledger, Transcript
from fedsift.result import Disclosure

_UNDECLARED = (Fault, Done)
"""Replies of the engine itself: any role may send them, they carry no data."""


@dataclass(frozen=True)
class Address:
    """A role at a party."""

    party: str
    role: str


class SessionOptions(TypedDict, total=False):
    """What can be set for a run, whatever engine runs it; the defaults are those of `Session`.

    Attributes
    ----------
    planned : sequence of Message types, optional
        The messages that the plan showed; every other one is refused. Without a plan the whole
        protocol may pass.
    policies : mapping of party -> Policy, optional
        What each party allows to be revealed.
    max_frame_bytes : int
        Larger messages are refused.
    keep_frames : bool
        Keep all bytes in the transcript, for privacy tests and attacks.
    protected : bool
        False for ``security="plain"``, so that the ledger says so.
    observer : Observer, optional
        Called after each message with counts, never content.
    shared_secret : callable, optional
        Gives what two parties know and nobody else does, for their commitments to messages. Without
        it, a secret of the process that ends with it.
    """

    planned: Sequence[type[Message]] | None
    policies: Mapping[str, Policy] | None
    max_frame_bytes: int
    keep_frames: bool
    protected: bool
    observer: Observer | None
    shared_secret: Callable[[str, str], bytes] | None


class Session:
    """Codec, plan, policies, transcript and ledger of one run.

    ``planned`` are the messages that the plan showed; the session refuses every other one, whether
    it is sent or received. Without a plan all messages of the protocol may pass.
    """

    def __init__(
        self,
        protocol: Protocol,
        placement: Mapping[str, Sequence[str]],
        *,
        planned: Sequence[type[Message]] | None = None,
        policies: Mapping[str, Policy] | None = None,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        keep_frames: bool = False,
        protected: bool = True,
        observer: Observer | None = None,
        shared_secret: Callable[[str, str], bytes] | None = None,
    ) -> None:
        self.protocol = protocol
        self.placement = {party: tuple(roles) for party, roles in placement.items()}
        self.codec = Codec(protocol.messages, max_frame_bytes=max_frame_bytes)
        names = [cls.__name__ for cls in protocol.messages]
        self.transcript = Transcript(keep_frames=keep_frames, order=(*names, *self.placement))
        self.ledger = Ledger(protected=protected, order=(*names, *self.placement))
        self._planned = frozenset(protocol.messages if planned is None else planned)
        self._policies = dict(policies or {})
        self._observer = observer or Observer()
        secret = secrets.token_bytes(32)
        self.shared_secret = shared_secret or (lambda _sender, _receiver: secret)

    def members(self, role: str) -> tuple[str, ...]:
        """Parties that have a role, in party order."""
        return tuple(party for party, roles in self.placement.items() if role in roles)

    def policy_of(self, party: str) -> Policy:
        """The policy of a party, or the one that parties without any have."""
        return self._policies.get(party, OPEN)

    def seal(self, message: Message, sender: Address, receiver: Address) -> bytes:
        """Check a message against its declaration and the sender's policy; make the frame."""
        if not isinstance(message, _UNDECLARED):
            self.check_flow(message, sender, receiver)
            if sender.party != receiver.party:
                for party in self._subjects(message, sender):
                    check_message(party, self.policy_of(party), message.declaration)
        return self.codec.encode(message)

    def check_flow(self, message: Message, sender: Address, receiver: Address) -> None:
        """Refuse a message between other roles than declared, or one that was not planned."""
        if isinstance(message, _UNDECLARED):
            return
        declaration = message.declaration
        if (sender.role, receiver.role) != (declaration.sender, declaration.receiver):
            raise UndeclaredFlow(
                f"{declaration.name} was sent {sender.role} -> {receiver.role}.",
                f"It is declared {declaration.sender} -> {declaration.receiver}.",
                "Send it only along its declared flow.",
            )
        if type(message) not in self._planned:
            raise UnplannedMessage(
                f"{declaration.name} is not in the plan of {self.protocol.name!r}.",
                "A run sends only the messages that its plan showed.",
                "Check that all parties run the same version; if they do, report the method.",
            )

    def _subjects(self, message: Message, sender: Address) -> tuple[str, ...]:
        """Parties whose data a message is about: the sender, or all with the declared role."""
        about = message.declaration.about
        return (sender.party,) if about == sender.role else self.members(about)

    def open(self, frame: bytes, receiver: Address, allowed: Sequence[type[Message]]) -> Message:
        """Decode a frame at the receiving role; only the allowed types get in."""
        message = self.codec.decode(frame, (*allowed, *_UNDECLARED))
        if isinstance(message, _UNDECLARED):
            return message
        if message.declaration.receiver != receiver.role:
            raise BadFrame(
                f"{message.declaration.name} arrived at the role {receiver.role!r}.",
                f"It is declared for {message.declaration.receiver!r}.",
                "Check that all parties run the same job.",
            )
        return message

    def inbound(self, role: str) -> list[type[Message]]:
        """Message types a role may receive as requests."""
        return [cls for cls in self.protocol.messages if cls.declaration.receiver == role]

    def record(
        self, frame: bytes, message: Message, round_number: int, sender: Address, receiver: Address
    ) -> None:
        """Count a frame that crossed from one party to another, and what it disclosed."""
        if sender.party == receiver.party:
            return
        name, n_ciphertexts = type(message).__name__, sealed_parts(message)[0]
        kept = frame if self.transcript.keep_frames else None
        declared = not isinstance(message, _UNDECLARED)
        kind = message.declaration.kind if declared else NOTHING
        who = (sender.party, sender.role, receiver.party, receiver.role, name)
        line = MessageLine(self.protocol.name, round_number, *who, kind, len(frame))
        self.transcript.add(
            Entry(round_number, *who, len(frame), n_ciphertexts, kept),
            line.to_text(self.shared_secret(sender.party, receiver.party), frame),
        )
        learned = None
        if declared:
            key = message.declaration.key
            owners = self.members(key) if key else ()
            learned = self.ledger.add(
                message,
                about=(", ".join(self._subjects(message, sender)), message.declaration.about),
                receiver=(receiver.party, receiver.role),
                key_owner=owners[0] if len(owners) == 1 else (key or "-"),
                n_bytes=len(frame),
            )
        parties = sender.party, receiver.party
        self._observer.message(Progress(round_number, *parties, name, len(frame), learned))

    def to_plain(self) -> dict[str, Any]:
        """Transcript and ledger so far as plain values, for a checkpoint."""
        rows = [msgspec.to_builtins(row) for row in self.ledger.rows()]
        return {"traffic": self.transcript.to_plain(), "disclosures": rows}

    def go_on(self, saved: Mapping[str, Any]) -> None:
        """Count on from what :meth:`to_plain` gave in an interrupted run."""
        self.transcript.go_on(saved["traffic"])
        n_before = len(saved["traffic"]["numbers"])
        self.transcript.lines.append(mark_resumed(self.protocol.name, n_before))
        self.ledger.merge(msgspec.convert(saved["disclosures"], list[Disclosure]))


def to_fault(error: BaseException, *, for_others: bool = False) -> Fault:
    """Make what another party may know of an error.

    The texts of fedsift's own errors carry no values; those of other errors may, and are left out.
    With ``for_others`` it is for another organisation, which learns no names of columns and files
    either.
    """
    if isinstance(error, MemoryError) and not isinstance(error, FedsiftError):
        error = OutOfMemory.while_doing("to answer")
    if isinstance(error, FedsiftError):
        text = " ".join(part for part in error.for_others if part) if for_others else str(error)
        return Fault(error.code, text)
    return Fault("E000", f"internal error ({type(error).__name__})")


class Engine(Interface):
    """Runs protocols, one after the other."""

    @property
    def home(self) -> tuple[str, ...] | None:
        """Parties that live here; None if all of them do."""
        ...

    def run(
        self,
        protocol: Protocol,
        nodes: Mapping[str, Sequence[Role]],
        *,
        timeout_seconds: float | None = None,
        on_interrupt: Callable[[], None] | None = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Run one protocol to its end.

        At the site of the driving role the outcome holds what the driver learned and the counts of
        all parties. At every other site the value is None and the counts are what that site saw.

        Parameters
        ----------
        nodes : mapping of party -> roles
            Exactly one of all roles is a driving one.
        timeout_seconds : float, optional
            Limit of every single request; that of the engine's ``Timeouts`` if missing.
        on_interrupt : callable, optional
            Called at the first Ctrl-C, to ask the driving role for an early but orderly end.
            Without it, and at the second Ctrl-C, the run stops at once.
        **options
            Those of the session: see :class:`~fedsift.engine.session.SessionOptions`.
        """
        ...

    def close_record(
        self,
        coordinator: str,
        *,
        selected: Mapping[str, Collection[str]] | None = None,
        resumed: bool = False,
    ) -> Record | None:
        """End a job: have all sites sign what their parties sent and received.

        Returns what signs the result, at the coordinator's site. Nothing elsewhere, and in one
        process, where :func:`~fedsift.protocol.commitments.sign_here` does it.

        Parameters
        ----------
        coordinator : str
            Party that writes the result.
        selected : mapping of party to names, optional
            Own selected columns of parties of this site that know them.
        resumed : bool
            Whether earlier parts of the job ran in another session, which signed nothing.
        """
        ...
