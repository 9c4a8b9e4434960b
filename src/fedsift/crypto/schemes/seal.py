# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Microsoft SEAL behind a small, strict interface: BGV and BFV with numbers in slots.

A ciphertext carries ``degree`` numbers of Z_t in two *slot rows* that rotate independently. What
this module adds to the library: parameters chosen by code, checks of every byte that comes in,
and circuit privacy (:meth:`SealPublic.hide_circuit`).

Circuit privacy. The noise of a computed ciphertext depends on the plaintexts it was multiplied
with, so whoever returns one to the key owner adds a fresh encryption of zero whose noise fills all
the room that the modulus leaves, at least ``2**40`` times anything the computation can have left,
and only then switches down to the smallest modulus. The noise is a sum of three uniform numbers.
Their density has no edges, so what single coefficients tell adds up like independent errors: all
ciphertexts of a run together are within statistical distance
``1.07 * sqrt(degree * ciphertexts) * noise / width`` of noise that does not depend on the function
(:func:`run_distance_bits`), where uniform numbers would have the number itself for its root.

SEAL keeps the GIL, so threads do not speed it up: kernels save operations instead.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import seal

from fedsift.crypto.schemes.seal_keys import (
    HEADER_BYTES,
    look_uniform,
    public_words,
    repeat_numbers,
    switching_words,
)
from fedsift.errors import BadCiphertext, KeyTooWeak, NoiseExhausted, OutOfMemory, ParameterError

Slots = npt.NDArray[np.uint64]

PRIME_BITS = 54
SPECIAL_PRIME_BITS = 55
MAX_LEVELS = {8192: 3, 16384: 7}
"""Ciphertext primes that fit under 128-bit security beside the key-switching prime."""

FLOODING_BITS = 40
"""Fewest bits that flooding noise exceeds what it hides in a coefficient."""

_SPARE_BITS = 3
_FISHER = 4.5625
"""Fisher information, rounded up, of a sum of three numbers uniform in an interval of length 1."""

_NTT_FLAG = 48  # its place in a serialised ciphertext
_SCHEMES = {"bgv": seal.scheme_type.bgv, "bfv": seal.scheme_type.bfv}


@dataclass(frozen=True)
class SealParameters:
    """Ring, modulus chain and plaintext prime; 128-bit security or nothing.

    Parameters
    ----------
    scheme : {"bgv", "bfv"}
    degree : int
        Ring degree and number of slots, 8192 or 16384.
    levels : int
        Primes of 54 bits in the ciphertext modulus.
    plain_modulus : int
        Prime t with t = 1 mod 2 * degree, so that numbers live in slots.
    """

    scheme: str
    degree: int
    levels: int
    plain_modulus: int

    def __post_init__(self) -> None:
        if self.scheme not in _SCHEMES or self.degree not in MAX_LEVELS:
            _refuse("scheme or ring degree", f"{sorted(_SCHEMES)} with {sorted(MAX_LEVELS)}")
        if not 1 <= self.levels <= MAX_LEVELS[self.degree]:
            _refuse("number of levels", f"1 to {MAX_LEVELS[self.degree]}")
        if self.plain_modulus % (2 * self.degree) != 1 or self.plain_modulus.bit_length() > 60:
            _refuse("plaintext modulus", "a prime of at most 60 bits, 1 modulo twice the degree")

    @property
    def row_size(self) -> int:
        """Slots of one slot row."""
        return self.degree // 2

    @property
    def plain_bits(self) -> int:
        """Bit length of the plaintext modulus."""
        return self.plain_modulus.bit_length()

    @property
    def modulus_bits(self) -> int:
        """Bits of the full ciphertext modulus."""
        return PRIME_BITS * self.levels

    @property
    def flood_bits(self) -> int:
        """Bits of the widest noise that still decrypts.

        BGV noise is counted with its factor t; a BFV message sits on top of the noise.
        """
        message_bits = self.plain_bits if self.scheme == "bfv" else 0
        return self.modulus_bits - message_bits - _SPARE_BITS

    @property
    def resting_level(self) -> int:
        """Fewest primes a finished ciphertext can be switched down to and still decrypt."""
        floor = self.plain_bits + math.log2(self.degree) / 2 + 7
        return min(self.levels, math.ceil(floor / PRIME_BITS))

    def ciphertext_bytes(self, level: int) -> int:
        """Serialised size of a two-part ciphertext with ``level`` primes."""
        return HEADER_BYTES + 2 * level * self.degree * 8


def run_distance_bits(parameters: SealParameters, noise_bits: float, n_ciphertexts: int) -> float:
    """-log2 of the statistical distance of all hidden ciphertexts of a run from independent noise.

    For a shift of at most d, the squared Hellinger distance of a density with Fisher information I
    is at most I d**2 / 8; those of independent coefficients add up, and the statistical distance is
    at most the root of twice the sum. Three uniform numbers in intervals of length w have
    I = 4.5625 / w**2.
    """
    return _distance_bits(parameters.flood_bits - noise_bits, parameters.degree, n_ciphertexts)


def least_distance_bits(n_ciphertexts: int) -> float:
    """What :func:`run_distance_bits` is at least, whatever is computed.

    That is with the fewest bits that :meth:`SealPublic.hide_circuit` accepts, in the largest ring.
    """
    return _distance_bits(FLOODING_BITS, max(MAX_LEVELS), n_ciphertexts)


def _distance_bits(flooding_bits: float, degree: int, n_ciphertexts: int) -> float:
    added = degree * max(1, n_ciphertexts) * _FISHER / 4
    return flooding_bits - 1 - math.log2(added) / 2


def _refuse(what: str, needed: str) -> NoReturn:
    raise ParameterError(
        f"The {what} of these SEAL parameters is not supported.",
        f"Supported: {needed}.",
        "Let fedsift choose the parameters.",
    )


def plain_primes(degree: int, bits: int, count: int = 1) -> tuple[int, ...]:
    """Distinct primes of ``bits`` bits that allow slots in a ring of the given degree."""
    if bits in (PRIME_BITS, SPECIAL_PRIME_BITS):
        bits = SPECIAL_PRIME_BITS + 1  # never collide with a prime of the ciphertext modulus
    moduli = seal.PlainModulus.Batching(degree, [bits] * count)
    return tuple(int(modulus.value()) for modulus in moduli)


class Workspace:
    """Context, encoder and evaluator of one parameter set; built once and shared."""

    def __init__(self, parameters: SealParameters) -> None:
        self.parameters = parameters
        chain = [PRIME_BITS] * parameters.levels + [SPECIAL_PRIME_BITS]
        raw = seal.EncryptionParameters(_SCHEMES[parameters.scheme])
        raw.set_poly_modulus_degree(parameters.degree)
        raw.set_coeff_modulus(seal.CoeffModulus.Create(parameters.degree, chain))
        raw.set_plain_modulus(parameters.plain_modulus)
        self.context = seal.SEALContext(raw, True, seal.sec_level_type.tc128)
        if not self.context.parameters_set():
            raise KeyTooWeak(
                f"SEAL refuses the parameters: {self.context.parameter_error_name()}.",
                "Parameters of 128-bit security that allow slots are needed.",
                "Let fedsift choose the parameters.",
            )
        self.evaluator = seal.Evaluator(self.context)
        self.encoder = seal.BatchEncoder(self.context)
        self._levels = self._level_ids()

    def _level_ids(self) -> dict[int, seal.ParmsId]:
        """Number of ciphertext primes -> SEAL's identifier of that level."""
        levels = {}
        data: seal.ContextData | None = self.context.first_context_data()
        while data is not None:
            levels[len(data.parms().coeff_modulus())] = data.parms_id()
            data = data.next_context_data()
        return levels

    @property
    def ciphertext_primes(self) -> list[int]:
        """Primes of a fresh ciphertext."""
        data = self.context.first_context_data()
        assert data is not None  # noqa: S101 - the parameters are set
        return [int(prime.value()) for prime in data.parms().coeff_modulus()]

    @property
    def resting_level(self) -> int:
        """The level finished ciphertexts travel at."""
        return max(self.parameters.resting_level, min(self._levels))

    def level_id(self, level: int) -> seal.ParmsId:
        """SEAL's identifier of a level."""
        return self._levels[level]

    def encode(self, slots: Slots) -> seal.Plaintext:
        """Numbers of Z_t (both slot rows, flat) to a plaintext."""
        return self.encoder.encode(np.ascontiguousarray(slots, dtype=np.uint64).ravel())

    def encode_factor(self, slots: Slots, level: int) -> seal.Plaintext:
        """A plaintext ready to be multiplied many times at one level."""
        return self.evaluator.transform_to_ntt(self.encode(slots), self._levels[level])

    def to_bytes(self, ciphertext: seal.Ciphertext) -> bytes:
        """Serialise without compression, so that the length is known in advance."""
        return bytes(ciphertext.to_string(seal.compr_mode_type.none))

    def ciphertext(self, blob: bytes, level: int) -> seal.Ciphertext:
        """Load a ciphertext from another party; anything unexpected is refused."""
        expected = self.parameters.ciphertext_bytes(level)
        if len(blob) != expected or not blob.startswith(b"\x5e\xa1\x10"):
            raise _bad(f"{len(blob)} bytes", f"{expected} bytes of an uncompressed ciphertext")
        # SEAL trusts the sizes in its header for allocation, so they are compared first.
        if _declared_shape(blob) != (
            2,
            self.parameters.degree,
            level,
            2 * self.parameters.degree * level,
        ):
            raise _bad("a header of another shape", f"two polynomials at level {level}")
        try:
            loaded = self.context.from_cipher_str(blob)
        except MemoryError as error:
            raise OutOfMemory.while_doing("to load a ciphertext") from error
        except (ValueError, RuntimeError, IndexError) as error:
            raise _bad("bytes SEAL refuses", "a ciphertext of the agreed parameters") from error
        if loaded.size() != 2 or loaded.parms_id() != self._levels[level]:
            raise _bad("a ciphertext of other parameters", f"two polynomials at level {level}")
        if loaded.is_ntt_form() != (self.parameters.scheme == "bgv"):
            raise _bad("a ciphertext in the wrong form", "the form SEAL computes with")
        if loaded.is_transparent():
            raise _bad("a ciphertext without encryption", "a properly encrypted one")
        return loaded


def _declared_shape(blob: bytes) -> tuple[int, int, int, int]:
    """Polynomials, degree, primes and words that a serialised ciphertext claims to hold."""
    size, degree, primes = np.frombuffer(blob, "<u8", 3, offset=49).tolist()
    (words,) = np.frombuffer(blob, "<u8", 1, offset=HEADER_BYTES - 8).tolist()
    return size, degree, primes, words


@lru_cache(maxsize=16)
def workspace(parameters: SealParameters) -> Workspace:
    """Shared workspace: making a SEAL context takes longer than using it."""
    return Workspace(parameters)


def _bad(found: str, needed: str) -> BadCiphertext:
    return BadCiphertext(
        f"Received {found}.",
        f"Needed: {needed}.",
        "Check that all parties run the same version of fedsift and the same job.",
    )


class SealOwner:
    """Holds a secret key: encrypts its own numbers and decrypts what comes back."""

    def __init__(
        self, parameters: SealParameters, *, steps: Sequence[int] = (), relinearise: bool = False
    ) -> None:
        self.workspace = workspace(parameters)
        generator = seal.KeyGenerator(self.workspace.context)
        secret = generator.secret_key()
        self._encryptor = seal.Encryptor(self.workspace.context, secret)
        self._decryptor = seal.Decryptor(self.workspace.context, secret)
        self._secret = secret
        blobs = [bytes(generator.create_public_key().to_string())]
        if steps:
            rotations = seal.GaloisKeys()
            generator.create_galois_keys(list(steps), rotations)
            blobs.append(bytes(rotations.to_string()))
        if relinearise:
            blobs.append(bytes(generator.create_relin_keys().to_string()))
        self.public_blobs = tuple(blobs)

    def __repr__(self) -> str:
        return f"<SEAL key owner, {self.workspace.parameters.scheme}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secret keys are not pickled")

    @property
    def secret_words(self) -> Slots:
        """The secret key at the roots, (primes, degree); for this package's own encryption."""
        degree = self.workspace.parameters.degree
        words = np.frombuffer(self._secret.to_string(), "<u8")
        return words[len(words) % degree :].reshape(-1, degree)

    def encrypt(self, slots: Slots) -> bytes:
        """A fresh ciphertext at the top level (secret-key encryption has less noise)."""
        plain = self.workspace.encode(slots)
        return self.workspace.to_bytes(self._encryptor.encrypt_symmetric(plain))

    def decrypt(self, blob: bytes, level: int | None = None) -> Slots:
        """Numbers of Z_t of all slots; refuses ciphertexts whose noise has eaten the message."""
        plain = self.open(blob, level)
        return np.asarray(self.workspace.encoder.decode_uint64(plain), dtype=np.uint64)

    def open(self, blob: bytes, level: int | None = None) -> seal.Plaintext:
        """The plaintext of a returned ciphertext, as :meth:`decrypt`."""
        level = self.workspace.resting_level if level is None else level
        ciphertext = self.workspace.ciphertext(blob, level)
        if self.noise_budget(ciphertext) < 1:
            raise NoiseExhausted(
                "A returned ciphertext has no noise budget left.",
                "At least one bit is needed to decrypt correctly.",
                "Check that the other party runs the same version of fedsift.",
            )
        return self._decryptor.decrypt(ciphertext)

    def noise_budget(self, ciphertext: seal.Ciphertext) -> int:
        """Bits of noise that still fit; measured with the secret key."""
        return int(self._decryptor.invariant_noise_budget(ciphertext))


class SealPublic:
    """Somebody else's public keys: encrypt for them, compute under their key, hide the way."""

    def __init__(
        self,
        parameters: SealParameters,
        blobs: Sequence[bytes],
        *,
        rotations: bool = False,
        relinearise: bool = False,
    ) -> None:
        self.workspace = workspace(parameters)
        if len(blobs) != 1 + rotations + relinearise:
            raise _bad(f"{len(blobs)} keys", f"{1 + rotations + relinearise}")
        context = self.workspace.context
        try:
            public = context.from_public_str(blobs[0])
            self.rotations = context.from_galois_str(blobs[1]) if rotations else None
            self.relinearisation = context.from_relin_str(blobs[-1]) if relinearise else None
        except MemoryError as error:
            raise OutOfMemory.while_doing("for the keys that arrived") from error
        except (ValueError, RuntimeError, IndexError) as error:
            raise _bad("keys SEAL refuses", "keys of the agreed parameters") from error
        self._encryptor = seal.Encryptor(context, public)
        self._refuse_degenerate(blobs)

    def __repr__(self) -> str:
        return f"<SEAL public keys, {self.workspace.parameters.scheme}>"

    def _refuse_degenerate(self, blobs: Sequence[bytes]) -> None:
        """Keys of zeros, of small or of repeated numbers would not hide anything."""
        parameters, space = self.workspace.parameters, self.workspace
        data = space.context.key_context_data()
        assert data is not None  # noqa: S101 - the parameters are set
        moduli = [int(prime.value()) for prime in data.parms().coeff_modulus()]
        words = public_words(blobs[0], len(moduli), parameters.degree)
        if words is None or not look_uniform(words, moduli) or repeat_numbers(words):
            raise _bad("a degenerate public key", "a key that hides what was computed")
        # The same for the coefficients, which SEAL gives for the primes of ciphertexts.
        raw = bytearray(space.to_bytes(self.zero()))
        raw[_NTT_FLAG] = 1
        raw[HEADER_BYTES:] = words[:, :-1].tobytes()
        coefficients = space.context.from_cipher_str(bytes(raw))
        space.evaluator.transform_from_ntt_inplace(coefficients)
        flat = np.frombuffer(space.to_bytes(coefficients), "<u8", offset=HEADER_BYTES)
        if not look_uniform(flat.reshape(2, len(moduli) - 1, -1), moduli[:-1]):
            raise _bad("a degenerate public key", "a key that hides what was computed")
        for blob in blobs[1:]:
            for switching in switching_words(blob, len(moduli), parameters.degree):
                if switching is None or not look_uniform(switching, moduli):
                    raise _bad("degenerate key-switching keys", "keys made by this package")

    def encrypt(self, slots: Slots) -> bytes:
        """A fresh ciphertext under the owner's public key."""
        return self.workspace.to_bytes(self._encryptor.encrypt(self.workspace.encode(slots)))

    def zero(self) -> seal.Ciphertext:
        """A fresh encryption of zero at the top level."""
        return self._encryptor.encrypt_zero()

    def rotate(self, ciphertext: seal.Ciphertext, steps: int) -> seal.Ciphertext:
        """Both slot rows moved ``steps`` to the left; needs the owner's key for that step."""
        assert self.rotations is not None  # noqa: S101 - the kernel asked for rotation keys
        try:
            return self.workspace.evaluator.rotate_rows(ciphertext, steps, self.rotations)
        except (ValueError, RuntimeError) as error:
            raise _bad("rotation keys of other steps", f"a key for step {steps}") from error

    def swap_rows(self, ciphertext: seal.Ciphertext) -> seal.Ciphertext:
        """The two slot rows exchanged; needs the owner's key for step 0."""
        assert self.rotations is not None  # noqa: S101 - the kernel asked for rotation keys
        try:
            return self.workspace.evaluator.rotate_columns(ciphertext, self.rotations)
        except (ValueError, RuntimeError) as error:
            raise _bad("rotation keys without the row swap", "a key for step 0") from error

    def hide_circuit(self, ciphertext: seal.Ciphertext, noise_bits: float) -> bytes:
        """Re-randomise, flood and shrink a result before it goes back to the key owner.

        Parameters
        ----------
        ciphertext : seal.Ciphertext
            A finished result at the top level.
        noise_bits : float
            Upper bound of log2 of the noise the computation can have left.
        """
        evaluator = self.workspace.evaluator
        flood_bits = self.workspace.parameters.flood_bits
        missing = math.ceil(noise_bits) + FLOODING_BITS - flood_bits
        if missing > 0:
            raise NoiseExhausted(
                f"Hiding this computation needs {missing} bits of modulus more than there are.",
                f"The parameters have {self.workspace.parameters.modulus_bits}.",
                "Use a larger ring or a smaller plaintext modulus.",
            )
        hidden = evaluator.add(ciphertext, self._flooded_zero(ciphertext, flood_bits))
        evaluator.mod_switch_to_inplace(
            hidden, self.workspace.level_id(self.workspace.resting_level)
        )
        return self.workspace.to_bytes(hidden)

    def _flooded_zero(self, like: seal.Ciphertext, flood_bits: int) -> seal.Ciphertext:
        """A fresh encryption of zero with smooth noise of at most ``flood_bits`` bits.

        BGV noise is a multiple of t, BFV noise is not. SEAL offers no call for this, so the noise
        goes into the first polynomial of the serialised ciphertext in coefficient form (SEAL
        transforms BGV ciphertexts back when it loads them).
        """
        parameters = self.workspace.parameters
        zero = self._encryptor.encrypt_zero(like.parms_id())
        factor = 1
        if parameters.scheme == "bgv":
            self.workspace.evaluator.transform_from_ntt_inplace(zero)
            factor = parameters.plain_modulus
        data = self.workspace.context.get_context_data(like.parms_id())
        assert data is not None  # noqa: S101 - the level exists, the ciphertext is at it
        primes = [int(prime.value()) for prime in data.parms().coeff_modulus()]
        raw = bytearray(self.workspace.to_bytes(zero))
        shape = (2, len(primes), parameters.degree)
        words = np.frombuffer(raw, np.uint64, offset=HEADER_BYTES).reshape(shape)
        noise = _smooth_noise(flood_bits - round(math.log2(factor)), parameters.degree)
        for words_of_prime, prime in zip(words[0], primes, strict=True):
            words_of_prime[:] = (words_of_prime + noise(factor, prime)) % np.uint64(prime)
        return self.workspace.context.from_cipher_str(bytes(raw))


def _smooth_noise(bits: int, count: int) -> Callable[[int, int], Slots]:
    """Sums of three integers uniform in [-2**(bits - 2), 2**(bits - 2)), from the system's source.

    They are longer than a machine word and only their residues are needed, so the answer is a
    function of (factor, prime) that gives ``factor * noise`` modulo the prime, byte by byte.
    """
    each = bits - 2
    width = each // 8 + 1
    digits = np.frombuffer(os.urandom(3 * width * count), np.uint8).reshape(3, width, count)
    columns = digits.astype(np.uint64)
    columns[:, -1] &= np.uint64((1 << (each % 8 + 1)) - 1)
    summed = columns.sum(axis=0)

    def residues(factor: int, prime: int) -> Slots:
        total = np.full(count, -3 * (factor << each) % prime, dtype=np.uint64)
        for i, column in enumerate(summed):
            # Below 2**54 + 765 * 2**54 before the reduction, whatever the digits.
            total = (total + column * np.uint64((factor << 8 * i) % prime)) % np.uint64(prime)
        return total

    return residues
