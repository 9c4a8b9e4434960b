# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A signed record of every message, so that an outsider can check a ledger without any data.

Every message between two parties becomes one line: protocol, round, sender and its role, receiver
and its role, message, kind of disclosure, number of bytes, and a commitment to the bytes. The
commitment is a digest under a secret of the two parties: it binds them and shows nobody else
anything. Sender and receiver write the same line into a chain of their own. A chain has numbered
entries, each signed, and an end, which signs their number and a hash over all of them in order.
Whoever writes the result signs the rows of its ledger in the same way, and digests of everything
else in the result. Every party's chain ends with a line for its own selected columns, as far as the
party knows them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from fedsift.crypto.envelope import SigningKey
from fedsift.result import Commitments, Disclosure, SelectionResult, SignedChain

MESSAGES, ROWS, OUTCOME = "messages", "rows", "outcome"
NOT_COVERED = ("predicted",)
"""What 'fedsift run' adds to a result after it was signed."""
_RESUMED, _SELECTED = "(resumed)", "(selected)"
_APART = ("commitments", "disclosures", "steps", *NOT_COVERED)
"""Parts of a result that have no digest: they are signed in another way, step by step, or not."""
_ESCAPES = str.maketrans({"%": "%25", "|": "%7C", "\n": "%0A", "\r": "%0D"})
_DOMAIN = "fedsift ledger v1"


class MessageLine(msgspec.Struct, frozen=True):
    """One message as it stands in a chain."""

    protocol: str
    round_number: int
    sender: str
    sender_role: str
    receiver: str
    receiver_role: str
    message: str
    kind: str
    n_bytes: int
    commitment: str = ""

    def to_text(self, secret: bytes, frame: bytes) -> str:
        """Write the line, with a commitment to the bytes under the secret of the two parties."""
        parts = msgspec.structs.astuple(self)[:-1]
        head = "|".join(str(part).translate(_ESCAPES) for part in parts)
        content = head.encode() + hashlib.sha256(frame).digest()
        return f"{head}|{to_base64(hmac.digest(secret, content, 'sha256'))}"

    @classmethod
    def from_text(cls, text: str) -> MessageLine | None:
        """Read a line back; nothing if it is none."""
        names, parts = cls.__struct_fields__, [unquote(part) for part in text.split("|")]
        if len(parts) != len(names):
            return None
        try:
            return msgspec.convert(dict(zip(names, parts, strict=True)), cls, strict=False)
        except msgspec.ValidationError:
            return None

    @property
    def is_resumption(self) -> bool:
        """Whether this is no message, but says that some of an interrupted run are only counted."""
        return self.message == _RESUMED

    @property
    def is_mark(self) -> bool:
        """Whether this is no message: a resumption, or a party's own selected columns."""
        return self.message in (_RESUMED, _SELECTED)

    @property
    def marks_selection(self) -> bool:
        """Whether this is no message, but stands for a party's own selected columns."""
        return self.message == _SELECTED

    def concerns(self, party: str) -> bool:
        """Whether the line belongs into a party's chain."""
        return self.is_resumption or party in (self.sender, self.receiver)


def mark_resumed(protocol: str, n_messages: int) -> str:
    """Write that messages of an interrupted run are counted in the ledger and in no chain."""
    mark = MessageLine(protocol, n_messages, "", "", "", "", _RESUMED, "nothing", 0)
    return mark.to_text(b"", b"")


def mark_selected(party: str, names: Collection[str]) -> str:
    """Write the line with which a party stands by its own selected columns, in any order."""
    mark = MessageLine("job", 0, party, "", "", "", _SELECTED, "nothing", 0)
    return mark.to_text(b"", msgspec.json.encode(sorted(names)))


@dataclass(frozen=True, repr=False)
class Signer:
    """Signs the chains of one run.

    Parameters
    ----------
    run : str
        Names the run, the same at all sites; part of everything that is signed.
    key : SigningKey
    """

    run: str
    key: SigningKey

    def sign_messages(self, party: str, lines: Iterable[str]) -> SignedChain:
        """Sign what a party sent and received."""
        read = ((line, MessageLine.from_text(line)) for line in lines)
        return self._sign(
            MESSAGES, party, [text for text, one in read if one and one.concerns(party)]
        )

    def sign_ledger(
        self, result: SelectionResult, writer: str, chains: Iterable[SignedChain]
    ) -> SelectionResult:
        """Put the chains of all parties into a result, and sign its ledger and all the rest."""
        created = result.created or datetime.now(UTC).isoformat(timespec="seconds")
        result = msgspec.structs.replace(result, created=created)
        rows = self._sign(ROWS, writer, [row_digest(row) for row in result.disclosures])
        whole, *steps = (_without_lines(one) for one in (result, *result.steps))
        whole = msgspec.structs.replace(whole, steps=tuple(steps))
        lines = [f"{name}|{digest}" for name, digest in outcome_digests(whole).items()]
        outcome = self._sign(OUTCOME, writer, lines)
        commitments = Commitments(self.run, tuple(chains), rows, outcome)
        return msgspec.structs.replace(whole, commitments=commitments)

    def _sign(self, purpose: str, party: str, lines: Sequence[str]) -> SignedChain:
        entries = []
        for index, line in enumerate(lines):
            signature = self.key.sign(entry_statement(self.run, purpose, party, index, line))
            entries.append(f"{index}|{line}|{to_base64(signature)}")
        head = head_of(self.run, purpose, party, lines)
        end = self.key.sign(end_statement(self.run, purpose, party, len(lines), head))
        public = to_base64(self.key.public)
        return SignedChain(party, public, tuple(entries), len(lines), head, to_base64(end))


@dataclass(frozen=True, repr=False)
class Record:
    """The signed chains of all parties, at the party that writes the result."""

    signer: Signer
    writer: str
    chains: tuple[SignedChain, ...]


def sign_result(result: SelectionResult, record: Record | None) -> SelectionResult:
    """Sign a finished result, with the keys of the sites or with those of one process."""
    if record is None:
        return sign_here(result)
    return record.signer.sign_ledger(result, record.writer, record.chains)


def sign_here(result: SelectionResult) -> SelectionResult:
    """Sign the result of a run in one process, with keys made for it and then forgotten."""
    run, lines = secrets.token_hex(16), result.traffic.lines
    read = [one for one in map(MessageLine.from_text, lines) if one and not one.is_mark]
    parties = dict.fromkeys(name for one in read for name in (one.sender, one.receiver))
    signers = {party: Signer(run, SigningKey.generate()) for party in parties}
    own = {party: names for party, names in result.selected.items() if party in signers}
    lines = (*lines, *(mark_selected(party, names) for party, names in own.items()))
    chains = [signer.sign_messages(party, lines) for party, signer in signers.items()]
    # The first sender drives the run; where nothing is sent, there is nobody to sign.
    writer = next(iter(signers), "")
    signer = signers.get(writer) or Signer(run, SigningKey.generate())
    return signer.sign_ledger(result, writer, chains)


def sign_again(result: SelectionResult) -> SelectionResult:
    """Sign a result of one process once more, after names in it were replaced."""
    if result.commitments is None:
        return result
    entries = (entry for chain in result.commitments.messages for entry in chain.entries)
    every = dict.fromkeys(entry.partition("|")[2].rpartition("|")[0] for entry in entries)
    lines = tuple(line for line in every if f"|{_SELECTED}|" not in line)
    traffic = msgspec.structs.replace(result.traffic, lines=lines)
    return sign_here(msgspec.structs.replace(result, traffic=traffic))


def _without_lines(result: SelectionResult) -> SelectionResult:
    traffic = msgspec.structs.replace(result.traffic, lines=())
    return msgspec.structs.replace(result, traffic=traffic, commitments=None)


# What is signed, and how it is written


def row_digest(row: Disclosure) -> str:
    """What stands for a row of the ledger in its chain."""
    return to_base64(hashlib.sha256(msgspec.json.encode(row)).digest())


def outcome_digests(result: SelectionResult) -> Mapping[str, str]:
    """Digests of all parts of a result that are signed as they are, and of those of its steps."""
    written = _as_written(result)
    parts = {name: getattr(written, name) for name in written.__struct_fields__}
    named = {name: value for name, value in parts.items() if name not in _APART}
    for number, step in enumerate(written.steps, start=1):
        for name in step.__struct_fields__:
            if name != "commitments":
                named[f"step {number}: {name}"] = getattr(step, name)
    return {
        name: to_base64(hashlib.sha256(msgspec.json.encode(value, order="sorted")).digest())
        for name, value in named.items()
    }


def _as_written(result: SelectionResult) -> SelectionResult:
    """The result as it is read back from its file, where a whole number may be any number."""
    bare = msgspec.structs.replace(result, commitments=None)
    try:
        return msgspec.json.decode(msgspec.json.encode(bare), type=SelectionResult)
    except msgspec.ValidationError:
        return bare  # it cannot be read back


def entry_statement(run: str, purpose: str, party: str, index: int, line: str) -> bytes:
    """What the signature of one entry says."""
    return _statement(run, purpose, party, f"entry {index}", line)


def end_statement(run: str, purpose: str, party: str, count: int, head: str) -> bytes:
    """What the signature at the end of a chain says."""
    return _statement(run, purpose, party, f"end after {count}", head)


def head_of(run: str, purpose: str, party: str, lines: Iterable[str]) -> str:
    """Hash all lines one after the other, each with the hash of those before it."""
    head = hashlib.sha256(_statement(run, purpose, party, "start", "")).digest()
    for line in lines:
        head = hashlib.sha256(head + line.encode()).digest()
    return to_base64(head)


def _statement(run: str, purpose: str, party: str, what: str, content: str) -> bytes:
    parts = (_DOMAIN, run, purpose, party.translate(_ESCAPES), what, content)
    return "\n".join(parts).encode()


def to_base64(raw: bytes) -> str:
    """Write bytes as text, without padding."""
    return base64.b64encode(raw).decode("ascii").rstrip("=")


def from_base64(text: str) -> bytes:
    """Read :func:`to_base64` back; empty if it is none, so that no signature fits."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""
    return raw if to_base64(raw) == text else b""
