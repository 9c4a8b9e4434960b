# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Every error fedsift raises on purpose.

Each one has a code, says what was found, what is needed and what to do next, and never carries
a cell value, so it may be shown to another party as it is. Between organisations, errors about
one's own columns and files tell no more than their kind: names are their owner's.

    FedsiftError
      DataError            E1xx  (also ValueError)   exit 2
        ColumnError        E101  a column is missing, empty, or of the wrong kind
        ValueProblem       E102  infinite values, text among numbers, one class only
        AlignmentError     E103  rows or ids of the parties do not match
        PartyError         E104  a party is empty or named twice
        FileProblem        E105  a file cannot be read or written
        UnknownDataset     E106  no such data set
      ConfigError          E2xx  (also ValueError)   exit 2
        ParameterError     E201  a parameter is out of range
        JobError           E202  a job or party file is wrong (lists every problem)
        UnknownMethod      E203  no such method
        MissingPackage     E204  an optional package is not installed   (also ImportError)
        BrokenMethod       E205  a method that another package adds cannot be used
      CryptoError          E3xx                      exit 3
        FixedPointOverflow E301  a number does not fit the agreed fixed-point range
        BadCiphertext      E302  what came in is not a ciphertext of the agreed parameters
        NoiseExhausted     E303  a ciphertext can no longer be decrypted correctly
        KeyTooWeak         E304  a key is below the required strength   (also ValueError)
        BadEnvelope        E305  a sealed message was forged, changed, repeated or misdelivered
        KeySwapped         E306  a key that was passed on is not its alleged owner's
        WrongTotals        E307  totals that were passed on are not the sums of all parties
      ProtocolError        E4xx                      exit 3
        BadFrame           E401  bytes that are no allowed message
        UndeclaredFlow     E402  a message sent where its declaration does not allow
        PartyFailed        E403  a party raised, timed out or vanished
        Disagreement       E404  sites run different jobs or versions
        SiteUnreachable    E405  a site does not answer on the line
        RunEnded           E406  another site, or the engine, ended the run
        MemberDown         E407  the hub or a member of a federation is not up
        UnplannedMessage   E408  a message that the plan of the run does not show
      PolicyViolation      E501                      exit 4
      LedgerAltered        E502                      exit 5
      OutOfMemory          E601  a party ran out of memory   (also MemoryError)   exit 3
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong in a job or party file, and where.

    Parameters
    ----------
    found, needed, action : str
        As of an error.
    line, column : int
        Counted from 1; 0 if nothing in the file is to blame.
    width : int
        Letters to point at.
    source : str
        The line as it is.
    replacement : str, optional
        The line as it should probably be; empty if it should not be there.
    """

    found: str
    needed: str = ""
    action: str = ""
    line: int = 0
    column: int = 0
    width: int = 0
    source: str = ""
    replacement: str | None = None


_LONG_WORD = re.compile(r"\S{301,}")


def _shortened(text: str) -> str:
    """A text in which paths, and whatever else is given, do not fill the screen."""
    return _LONG_WORD.sub(lambda found: f"{found[0][:200]}...{found[0][-60:]}", text)


class FedsiftError(Exception):
    """Base of every error that fedsift raises on purpose."""

    code: ClassVar[str] = "E000"
    exit_code: ClassVar[int] = 2
    abroad: ClassVar[str] = ""
    """What another organisation is told instead of a text that names columns or files."""

    def __init__(self, found: str, needed: str = "", action: str = "") -> None:
        parts = tuple(map(_shortened, (found, needed, action)))
        self.found, self.needed, self.action = parts
        super().__init__(" ".join(part for part in parts if part))

    @property
    def one_line(self) -> str:
        """The message as the command line prints it."""
        return f"{self.code}: {self}"

    @property
    def for_others(self) -> tuple[str, str, str]:
        """What was found, what is needed and what to do, as other organisations may read it."""
        if not self.abroad:
            return self.found, self.needed, self.action
        return self.abroad, "Names stay with their owner.", "The log of that party says more."


class DataError(FedsiftError, ValueError):
    """Something about a party's data is wrong."""

    code = "E100"


class ColumnError(DataError):
    """A column is missing, empty, or of the wrong kind."""

    code = "E101"
    abroad = "A column is missing, empty, or of the wrong kind."


class ValueProblem(DataError):
    """Values that no method can use: infinite numbers, text among numbers, one class only."""

    code = "E102"
    abroad = "Values of a column cannot be used."


class AlignmentError(DataError):
    """The rows or ids of the parties do not match."""

    code = "E103"


class PartyError(DataError):
    """A party is empty, or named twice."""

    code = "E104"


class FileProblem(DataError):
    """A file cannot be read or written."""

    code = "E105"
    abroad = "A file cannot be read or written."


class UnknownDataset(DataError):
    """There is no data set of that name here."""

    code = "E106"


class ConfigError(FedsiftError, ValueError):
    """A setting is wrong."""

    code = "E200"


class ParameterError(ConfigError):
    """A parameter is out of range."""

    code = "E201"


class JobError(ConfigError):
    """A job or party file is wrong; ``problems`` and ``mistakes`` list everything that is."""

    code = "E202"

    def __init__(
        self,
        found: str,
        needed: str = "",
        action: str = "",
        *,
        problems: tuple[str, ...] = (),
        mistakes: tuple[Mistake, ...] = (),
    ) -> None:
        super().__init__(found, needed, action)
        self.problems = problems
        self.mistakes = mistakes


class UnknownMethod(ConfigError):
    """There is no method of that name."""

    code = "E203"


class MissingPackage(ConfigError, ImportError):
    """An optional package that this method needs is not installed."""

    code = "E204"


class BrokenMethod(ConfigError):
    """A method that another package adds cannot be used."""

    code = "E205"


class CryptoError(FedsiftError):
    """Encryption, decryption or fixed-point arithmetic cannot go on."""

    code = "E300"
    exit_code = 3


class FixedPointOverflow(CryptoError):
    """A number does not fit the agreed fixed-point range."""

    code = "E301"


class BadCiphertext(CryptoError):
    """What came in is not a ciphertext or key of the agreed parameters."""

    code = "E302"


class NoiseExhausted(CryptoError):
    """A ciphertext has no noise budget left, so its decryption could be wrong."""

    code = "E303"


class KeyTooWeak(CryptoError, ValueError):
    """A key is below the required strength."""

    code = "E304"
    exit_code = 2


class BadEnvelope(CryptoError):
    """A sealed message was forged, changed, repeated, reflected or delivered out of turn."""

    code = "E305"


class KeySwapped(CryptoError):
    """A key that was passed on is not its alleged owner's."""

    code = "E306"


class WrongTotals(CryptoError):
    """Totals that were passed on are not the sums of what all parties sent."""

    code = "E307"


class ProtocolError(FedsiftError):
    """A party broke the rules of the protocol."""

    code = "E400"
    exit_code = 3


class BadFrame(ProtocolError):
    """Bytes arrived that are no allowed message."""

    code = "E401"


class UndeclaredFlow(ProtocolError):
    """A message was sent where its declaration does not allow it."""

    code = "E402"


class UnplannedMessage(ProtocolError):
    """A message was sent that the plan of the run does not show."""

    code = "E408"


class PartyFailed(ProtocolError):
    """A party raised, timed out or vanished; names the party, the message and the round."""

    code = "E403"

    def __init__(
        self, party: str, message: str, round_number: int, reason: str, *, cause_code: str = ""
    ) -> None:
        self.party = party
        self.message = message
        self.round_number = round_number
        self.reason = reason
        self.cause_code = cause_code
        super().__init__(
            f"Party {party!r} failed while answering {message} in round {round_number}: {reason}",
            "Every party must answer every request.",
            f"Look at the log of {party!r}, fix the cause there, and run the job again.",
        )


class Disagreement(ProtocolError):
    """Two sites do not run the same job, or not the same version of the relay."""

    code = "E404"


class SiteUnreachable(ProtocolError):
    """A site does not answer; ``refused`` is the code it gave, if it refused openly."""

    code = "E405"

    def __init__(self, site: str, reason: str, *, refused: str = "") -> None:
        self.site = site
        self.reason = reason
        self.refused = refused
        super().__init__(
            f"Site {site!r} cannot be reached: {reason}.",
            "All sites of a job must be up for its whole length.",
            f"Check that {site!r} is running and connected, then run the job again.",
        )


class RunEnded(ProtocolError):
    """Another site, or the engine that carries the messages, ended the run."""

    code = "E406"


class MemberDown(ProtocolError):
    """The hub or another member of a federation is not up, or cannot be reached from here."""

    code = "E407"


class LedgerAltered(FedsiftError):
    """A result or its ledger is not what its parties signed, or nobody signed it.

    ``result`` is that of a submitted job, to be kept and looked at.
    """

    code = "E502"
    exit_code = 5
    result: Any = None


class PolicyViolation(FedsiftError):
    """The run would disclose something a party's policy forbids."""

    code = "E501"
    exit_code = 4


class OutOfMemory(FedsiftError, MemoryError):
    """A party ran out of memory."""

    code = "E601"
    exit_code = 3

    @classmethod
    def while_doing(cls, what: str) -> OutOfMemory:
        """Build the error, with what memory was needed for."""
        return cls(
            f"There was not enough memory {what}.",
            "The machine needs more free memory than this job takes there.",
            "Free memory or add some, or ask for fewer rows, columns, bins or classes.",
        )
