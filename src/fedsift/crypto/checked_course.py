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
        if self._checks is not None:
            raise not_due("another secret than the one that was dealt")
        self._agreed()
        dealer = min(self._publics)
        secret = receive(sealed, self._key, at, dealer, self._publics[dealer])
        self._checks = CheckedSums(secret, first=False)

    def compare(self, counts: Integers, smallest: Integers, context: str) -> Words:
        """This party's part of a comparison, under masks."""
        return self._masked(self._checked().hide(counts, smallest, context), context)

    def open(self, counts: Integers, context: str) -> Words:
        """This party's counts, and its part of their tag, under masks."""
        return self._masked(self._checked().with_tag(counts, context), context)

    def give(self, values: Sequence[int] | Integers, context: str, limbs: int = 1) -> Words:
        """Whole numbers under masks, whose sum only the collector learns."""
        if self._open:
            return to_limbs(values, limbs)
        return self._agreed().mask(values, context, limbs)

    def check_small(
        self, small: Answer, proof: Answer, smallest: Integers, context: str
    ) -> npt.NDArray[np.bool_]:
        """Which counts are small, if it is proved for all that are not."""
        flags = small.astype(np.bool_)
        self._checked().check_small(flags, proof.astype(np.uint64), smallest, context)
        return flags

    def check_totals(self, totals: Answer, n_totals: int, context: str) -> Integers:
        """Totals without their tag, if they are those of all parties."""
        numbers = totals.astype(np.int64)
        if numbers.shape != (n_totals + 1,):
            raise not_due("another number of totals")
        self._checked().check(numbers[:-1], int(numbers[-1]), context)
        return numbers[:-1]

    def _masked(self, residues: Integers, context: str) -> Words:
        """Numbers modulo a prime, whose sum is wanted modulo it too."""
        if self._open:
            return pack((residues % PRIME).astype(np.uint64))
        return pack(self._agreed().mask_modulo(residues, context, PRIME))

    def _agreed(self) -> PairwiseMasks:
        if self._masks is None:
            raise not_due("numbers before keys")
        return self._masks

    def _checked(self) -> CheckedSums:
        if self._checks is None:
            raise not_due("numbers before members share a secret")
        return self._checks


def add_opened(parts: Sequence[Words], n_totals: int) -> Integers:
    """Totals, and behind them their tag, at the collector."""
    return _sum_modulo(parts)[: n_totals + 1]


def add_compared(parts: Sequence[Words], smallest: Integers) -> tuple[npt.NDArray[np.bool_], Words]:
    """Which counts are small, and what convinces the parties of it."""
    hidden = _sum_modulo(parts)
    small = small_counts(hidden, smallest)
    return small, prove_not_small(hidden, small, smallest)


def _sum_modulo(parts: Sequence[Words]) -> Integers:
    return unmask_modulo([unpack(part) for part in parts], PRIME) % PRIME


def not_due(what: str) -> ParameterError:
    """What a party says to a collector that asks for something else."""
    return ParameterError(
        f"The coordinator asks for {what}.",
        "Members follow the course of the run themselves, and answer what is due, once.",
        "Run the same job and the same version at every party; if all do, whoever runs the "
        "coordinator is lying.",
    )
