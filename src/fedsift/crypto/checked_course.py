# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A course of masked sums that parties follow themselves: nothing else can be asked of them.

What comes next follows from settings that all agreed to and from totals that all can check
(:mod:`fedsift.crypto.checked_sums`). A collector that lies can therefore neither ask for anything
that is not due, nor skip a check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.crypto.checked_sums import (
    PRIME,
    CheckedSums,
    pack,
    prove_not_small,
    small_counts,
    unpack,
)
from fedsift.crypto.identity import KeyedParty
from fedsift.crypto.masking import MaskingKey, PairwiseMasks, to_limbs, unmask_modulo
from fedsift.crypto.shuffle import deal, new_secret, receive
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import ParameterError

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Answer = npt.NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Compare:
    """Counts that are compared with minima and not opened."""

    what: str
    smallest: Integers


@dataclass(frozen=True, eq=False)
class Open:
    """Counts that everybody learns."""

    what: str
    n_totals: int


@dataclass(frozen=True, eq=False)
class Give:
    """Sums that only the collector learns; nothing after them is checked."""

    what: str


Request = Compare | Open | Give
Steps = Generator[Request, Any, None]


class CheckedCourse:
    """The requests of one run; the answers of all parties together lead to the next.

    Attributes
    ----------
    request : Request
        What is due.
    step : int
        How many requests have been answered.
    """

    def __init__(self, steps: Steps, agreed: str) -> None:
        self._steps, self.step = steps, 0
        self._digest = hashlib.sha256(agreed.encode())
        self.request: Request = next(steps)

    @property
    def digest(self) -> str:
        """Names the way so far; masks of parties who went different ways do not cancel."""
        return self._digest.hexdigest()[:32]

    @property
    def context(self) -> str:
        """Names the sums that are due."""
        return f"{type(self.request).__name__} {self.step} after {self.digest}"

    def take(self, answer: Answer) -> None:
        """Go on with the answer to what was due."""
        self._digest.update(type(self.request).__name__.encode() + answer.tobytes())
        self.step += 1
        self.request = self._steps.send(answer)


class CheckedParty:
    """Keys, masks and checks of one party that follows a course.

    Parameters
    ----------
    open_masks : bool
        Leaves masks out, for runs in plaintext.
    """

    def __init__(self, *, open_masks: bool = False) -> None:
        self._key = MaskingKey.generate()
        self._open = open_masks
        self._masks: PairwiseMasks | None = None
        self._publics: dict[str, PublicKeys] = {}
        self._checks: CheckedSums | None = None

    def __repr__(self) -> str:
        return "<checked party>"

    def announce(self, at: KeyedParty, members: Sequence[str]) -> PublicKeys:
        """The public key, with proofs between organisations."""
        return self._key.announce(at, members)

    def meet(
        self, at: KeyedParty, publics: dict[str, PublicKeys], members: Sequence[str]
    ) -> dict[str, Ciphertexts]:
        """Agree on masks; the first party's secret, sealed for each other one."""
        self._masks = self._key.make_masks(at, publics, members)
        self._publics = publics
        if at.party != min(publics):
            return {}
        secret = new_secret()
        self._checks = CheckedSums(secret, first=True)
        others = {party: key for party, key in publics.items() if party != at.party}
        return {p: deal(secret, self._key, at, p, key) for p, key in others.items()}

    def take_secret(self, at: KeyedParty, sealed: Ciphertexts) -> None:
        """Open the dealt secret."""
        if self._checks is not None or not self._publics:
            raise not_due("another secret than the one that was dealt")
        dealer = min(self._publics)
        secret = receive(sealed, self._key, at, dealer, self._publics[dealer])
        self._checks = CheckedSums(secret, first=False)

    def answer(self, course: CheckedCourse, counts: Integers) -> Words:
        """This party's part of what is due, under masks."""
        request, checks = course.request, self._checked()
        if isinstance(request, Compare):
            residues = checks.hide(counts, request.smallest, course.context)
        else:
            residues = checks.with_tag(counts, course.context)
        if self._open:
            return pack((residues % PRIME).astype(np.uint64))
        assert self._masks is not None  # noqa: S101 - the secret comes after the masks
        return pack(self._masks.mask_modulo(residues, course.context, PRIME))

    def give(self, values: Integers, context: str) -> Words:
        """Whole numbers under masks, whose sum only the collector learns."""
        self._checked()
        if self._open:
            return to_limbs(values, 1)
        assert self._masks is not None  # noqa: S101 - the secret comes after the masks
        return self._masks.mask(values, context)

    def check(self, course: CheckedCourse, totals: Answer, small: Answer, proofs: Answer) -> Answer:
        """The answer to what was due, if it is that of all parties."""
        request, checks = course.request, self._checked()
        if isinstance(request, Compare):
            flags = small.astype(np.bool_)
            pairs = unpack(proofs.astype(np.uint64)).reshape(2, -1)
            checks.check_small(flags, pairs, request.smallest, course.context)
            return flags
        numbers = totals.astype(np.int64)
        if not isinstance(request, Open) or numbers.shape != (request.n_totals + 1,):
            raise not_due("another number of totals")
        checks.check(numbers[:-1], int(numbers[-1]), course.context)
        return numbers[:-1]

    def _checked(self) -> CheckedSums:
        if self._checks is None:
            raise not_due("numbers before members share a secret")
        return self._checks


@dataclass(frozen=True, eq=False)
class News:
    """An answer, and what convinces the parties of it."""

    totals: Answer
    small: Answer
    proofs: Answer


NO_NEWS = News(np.empty(0), np.empty(0), np.empty(0))


def add_up(request: Request, parts: Sequence[Words]) -> tuple[Answer, News]:
    """What all parties' parts come to, at the collector."""
    total = unmask_modulo([unpack(part) for part in parts], PRIME) % PRIME
    none = np.empty(0)
    if isinstance(request, Open):
        totals = total[: request.n_totals + 1]
        return totals[:-1], News(totals, none, none)
    assert isinstance(request, Compare)  # noqa: S101 - sums of others are not checked
    small = small_counts(total, request.smallest)
    proofs = prove_not_small(total, small, request.smallest)
    return small, News(none, small, pack(proofs.ravel()))


def not_due(what: str) -> ParameterError:
    """What a party says to a collector that asks for something else."""
    return ParameterError(
        f"The coordinator asks for {what}.",
        "Members follow the course of the run themselves, and answer what is due, once.",
        "Run the same job and the same version at every party; if all do, whoever runs the "
        "coordinator is lying.",
    )
