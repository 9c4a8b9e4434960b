# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a run will send and compute, counted before it starts.

A :class:`Counts` is filled by a counted run of the method's own driver, or by walking through it
with the same messages but empty ciphertexts: only their number and size matter. Seconds come
later, when counts are multiplied with the :mod:`rates <fedsift.costs.rates>` of a machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fedsift.crypto.schemes.paillier import key_bits_for, public_key_bytes
from fedsift.crypto.schemes.seal import SealParameters
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.protocol import Message
from fedsift.protocol.message import MAGIC, Done

MASKING_KEY = PublicKeys("x25519", {}, (bytes(32),))

_REFERENCE = (8192, 3)
"""Ring degree and levels that rates of SEAL are measured with."""


@dataclass(frozen=True)
class Frame:
    """A message as it travels.

    Parameters
    ----------
    message : Message
        With empty ciphertexts and keys.
    ciphertexts : int
        Number of ciphertexts in it.
    extra_bytes : int
        Bytes of ciphertexts and keys, headers included.
    """

    message: Message
    ciphertexts: int = 0
    extra_bytes: int = 0

    @property
    def n_bytes(self) -> int:
        """Encoded length."""
        return len(MAGIC) + len(msgspec.msgpack.encode(self.message)) + self.extra_bytes


DONE = Frame(Done())


def frame(
    message: Message, *sealed: tuple[int, int], keys: Iterable[int] = (), arrays: int = 0
) -> Frame:
    """A message with some ciphertexts, each given as (number, bytes of one), and keys.

    ``arrays`` are bytes of arrays that were left out because they are long.
    """
    extra = sum(count * (size + header_bytes(size)) for count, size in sealed)
    extra += sum(size + header_bytes(size) for size in keys) + arrays
    return Frame(message, sum(count for count, _ in sealed), extra)


def header_bytes(n_bytes: int) -> int:
    """MessagePack writes a type, and the length in one, two or four bytes."""
    return 2 if n_bytes < 1 << 8 else 3 if n_bytes < 1 << 16 else 5


@dataclass
class Counts:
    """Counts of one run; ``work`` maps (phase, unit of work) to how often it is done.

    ``side_by_side`` is the number of parties that do their numerical work at the same time.
    """

    rounds: int = 0
    calls: int = 0
    messages: int = 0
    n_bytes: int = 0
    ciphertexts: int = 0
    work: dict[tuple[str, str], float] = field(default_factory=dict)
    side_by_side: int = 1

    def ask(
        self,
        request: Frame | Message,
        reply: Frame | Message = DONE,
        *,
        others: int | tuple[int, int],
        times: int = 1,
    ) -> None:
        """Requests to some other parties at once, with answers.

        A pair says how many receivers are elsewhere and how many at the sender's own party, whose
        messages are not counted.
        """
        others, here = others if isinstance(others, tuple) else (others, 0)
        self.rounds += times
        self.calls += (others + here) * times
        for sent in (request, reply):
            made = sent if isinstance(sent, Frame) else Frame(sent)
            self.messages += others * times
            self.n_bytes += made.n_bytes * others * times
            self.ciphertexts += made.ciphertexts * others * times

    def mask(self, n_numbers: float, n_parties: int) -> None:
        """Everybody masks some numbers against everybody else; somebody adds them up."""
        self.do("mask", "mask number", n_numbers * (n_parties + 1))
        self.do("mask", "mask number peer", n_numbers * n_parties * (n_parties - 1))

    def add(self, other: Counts, times: int = 1) -> None:
        """Count another part of the run in, so many times."""
        self.rounds += times * other.rounds
        self.calls += times * other.calls
        self.messages += times * other.messages
        self.n_bytes += times * other.n_bytes
        self.ciphertexts += times * other.ciphertexts
        for key, count in other.work.items():
            self.work[key] = self.work.get(key, 0.0) + times * count

    def do(self, phase: str, unit: str, count: float = 1) -> None:
        """Work of one kind."""
        if count > 0:
            self.work[phase, unit] = self.work.get((phase, unit), 0.0) + count


@dataclass(frozen=True)
class Expected:
    """Counts of a run; where the data decides, also of the cheapest and the dearest course."""

    counts: Counts
    low: Counts | None = None
    high: Counts | None = None
    remarks: tuple[str, ...] = ()


_SWITCHING = ("rotate", "product", "switch key", "switch key read")
"""Work that grows with the square of the levels."""


class Ring:
    """One parameter set of SEAL: sizes of what travels, and work in units of the reference ring."""

    def __init__(self, tally: Counts, parameters: SealParameters) -> None:
        degree, levels = parameters.degree, parameters.levels
        self._tally = tally
        self._degree = degree
        self._linear = degree * levels / math.prod(_REFERENCE)
        self._switching = self._linear * (levels + 1) / (_REFERENCE[1] + 1)
        self.fresh_bytes = parameters.ciphertext_bytes(levels)
        self.result_bytes = parameters.ciphertext_bytes(max(1, parameters.resting_level))
        # Two polynomials modulo all primes, the special one among them; one such pair per level.
        self.public_key_bytes = 2 * (levels + 1) * degree * 8 + 120
        self._switch_key_bytes = levels * self.public_key_bytes

    def rotation_keys_bytes(self, n_steps: int) -> int:
        """Rotation keys travel as a list with a place for every possible rotation."""
        return n_steps * self._switch_key_bytes + 8 * self._degree

    @property
    def product_key_bytes(self) -> int:
        """The key for products of ciphertexts."""
        return self._switch_key_bytes

    def do(self, phase: str, operation: str, count: float = 1) -> None:
        """Count operations, in those of the reference ring."""
        size = self._switching if operation in _SWITCHING else self._linear
        self._tally.do(phase, f"bgv {operation}", count * size)

    def make_keys(self, phase: str, n_switch_keys: int) -> None:
        """The owner makes a secret key, a public one and some for switching."""
        self.do(phase, "context")
        self.do(phase, "key")
        self.do(phase, "switch key", n_switch_keys)

    def read_keys(self, phase: str, n_switch_keys: int) -> None:
        """Somebody else reads them."""
        self.do(phase, "switch key read", n_switch_keys + 1 / 3)


class OpenRing:
    """The same ring without encryption: slots travel as they are, and there are no keys."""

    public_key_bytes = product_key_bytes = 0

    def __init__(self, tally: Counts, parameters: SealParameters) -> None:
        self._tally = tally
        self._size = parameters.degree / _REFERENCE[0]
        self.fresh_bytes = self.result_bytes = 8 * parameters.degree

    def rotation_keys_bytes(self, n_steps: int) -> int:  # noqa: ARG002
        """There are none."""
        return 0

    def do(self, phase: str, operation: str, count: float = 1) -> None:
        """Count operations, in those of the reference ring; keys take no time."""
        if operation in _OPEN:
            self._tally.do(phase, f"open {_OPEN[operation]}", count * self._size)

    def make_keys(self, phase: str, n_switch_keys: int) -> None:
        """There are none."""

    def read_keys(self, phase: str, n_switch_keys: int) -> None:
        """There are none."""


_OPEN = {
    "encrypt": "slots",
    "encrypt public": "slots",
    "decrypt": "decrypt",
    "load": "slots",
    "factor": "factor",
    "multiply": "multiply",
    "product": "multiply",
    "rotate": "rotate",
    "hide": "hide",
}
"""What an operation of SEAL is without encryption."""


def ring_of(tally: Counts, scheme: str, parameters: SealParameters) -> Ring | OpenRing:
    """A ring of a scheme."""
    return (OpenRing if scheme == "plain" else Ring)(tally, parameters)


_POWERS = ("key", "join", "decrypt", "rerandomise", "encrypt public", "tables public")
"""Work that raises to powers, whose exponents grow with the key as well."""


class PaillierWork:
    """One key of the wanted strength; work is measured with 3072 bits."""

    def __init__(self, tally: Counts, security_bits: int) -> None:
        self._tally = tally
        self.key_bits = key_bits_for(security_bits)
        # Products of longer numbers take the square of the length.
        self._scale = (self.key_bits / 3072) ** 2

    @property
    def public_key_bytes(self) -> int:
        """Modulus and proof."""
        return public_key_bytes(self.key_bits)

    @property
    def ciphertext_bytes(self) -> int:
        """A number modulo the squared modulus."""
        return 2 * self.key_bits // 8

    def do(self, phase: str, operation: str, count: float = 1) -> None:
        """Count operations, in those of a key of 3072 bits."""
        power = 1.5 if operation in _POWERS else 1.0
        self._tally.do(phase, f"paillier {operation}", count * self._scale**power)


class Blank:
    """Stands for some bytes; ``opened`` is what the kernel's other side finds in them."""

    __slots__ = ("_n_bytes", "opened")

    def __init__(self, n_bytes: int, opened: Any = None) -> None:
        self._n_bytes = n_bytes
        self.opened = opened

    def __len__(self) -> int:
        return self._n_bytes


def blank_ciphertexts(
    scheme: str, sizes: Iterable[tuple[int, int]], opened: Any = None
) -> Ciphertexts:
    """So many ciphertexts of so many bytes each, for every pair; all open to one content."""
    blobs: list[Any] = []
    for count, n_bytes in sizes:
        blobs += [Blank(n_bytes, opened)] * count
    return Ciphertexts(scheme, tuple(blobs))


def blank_keys(keys: PublicKeys, sizes: Iterable[int]) -> PublicKeys:
    """The same public numbers with keys of the given bytes."""
    blobs: Any = tuple(Blank(n_bytes) for n_bytes in sizes)
    return PublicKeys(keys.scheme, keys.numbers, blobs)


def opened(sealed: Ciphertexts) -> Any:
    """The content of blank ciphertexts."""
    blob: Any = sealed.blobs[0]
    return blob.opened
