# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Pairwise one-time masks: a sum over parties, and nothing of what each one adds.

Every two parties agree on a secret (X25519), stretch it to a key stream per *context* (HKDF-SHA256,
then ChaCha20) and add it, one with plus, the other with minus. A masked array looks uniform to
everybody else; in the sum over all parties the masks cancel. No party may be missing: if one drops
out, the round is repeated with a new context.

Whoever adds up learns the sum. A party's own number stays hidden as long as at least one other
honest party takes part, since all the others together could subtract theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsift.crypto.identity import Identity, KeyedParty
from fedsift.crypto.kernels import count_work
from fedsift.crypto.wire import PublicKeys
from fedsift.errors import BadCiphertext, FixedPointOverflow, ParameterError

SCHEME = "x25519"
Limbs = npt.NDArray[np.uint64]
"""Numbers modulo ``2**(64 * limbs)``, lowest limb first, shape (n_numbers, limbs)."""

_KEY_BYTES = 32
_LIMB_BITS = 64
_WORDS_MODULO = 3
_DOMAIN = b"fedsift pairwise mask v1"


class MaskingKey:
    """One party's key for agreeing on masks; made anew for every run."""

    def __init__(self, secret: X25519PrivateKey) -> None:
        self._secret = secret
        self._has_masks = False

    def __repr__(self) -> str:
        return "<masking key>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secret keys are not pickled")

    @classmethod
    def generate(cls) -> MaskingKey:
        """Make a key from the operating system's random source."""
        return cls(X25519PrivateKey.generate())

    @property
    def public(self) -> PublicKeys:
        """What the other parties need."""
        return PublicKeys(SCHEME, {}, (self._secret.public_key().public_bytes_raw(),))

    def announce(self, at: KeyedParty, receivers: Iterable[str]) -> PublicKeys:
        """Make what the other parties need, with a proof for each if their keys are pinned."""
        own = self.public
        if at.identity is None:
            return own
        proofs = at.identity.vouch(own.blobs[0], receivers)
        return PublicKeys(SCHEME, {}, (*own.blobs, *proofs))

    def make_masks(
        self, at: KeyedParty, publics: Mapping[str, PublicKeys], members: Collection[str]
    ) -> PairwiseMasks:
        """Agree on masks with exactly these members, once."""
        if set(publics) != set(members) or self._has_masks:
            raise ParameterError(
                f"Keys of {len(publics)} parties arrived at {at.party!r}"
                f"{' a second time' if self._has_masks else ''}.",
                f"Masks are agreed on once, with all {len(members)} parties of the sum.",
                "Run the same job at every party; if all do, whoever passed keys on is lying.",
            )
        masks = PairwiseMasks(at.party, self, publics, at.identity)
        self._has_masks = True
        return masks

    def agree(self, owner: str, public: PublicKeys, identity: Identity | None) -> bytes:
        """The secret shared with the owner of a public key; refuses keys that give none.

        All that is masked or dealt rests on this secret. Where organisations have pinned keys of
        each other, a key without its owner's proof is refused.
        """
        raw = _key_bytes(public)
        if identity is not None:
            identity.check(owner, raw, public.blobs[1:])
        try:
            peer = X25519PublicKey.from_public_bytes(raw)
            return self._secret.exchange(peer)
        except ValueError as error:
            # Points of small order give an all-zero secret that everybody knows.
            raise _bad_key("it gives no secret") from error


class PairwiseMasks:
    """One party's masks against all others.

    Parameters
    ----------
    name : str
        This party.
    key : MaskingKey
    publics : mapping of str to PublicKeys
        The public keys of all parties, this one's own included or not.
    identity : Identity, optional
        Checks whose keys they are, where organisations have pinned keys of each other.

    Examples
    --------
    >>> keys = {name: MaskingKey.generate() for name in ("ann", "bob", "cy")}
    >>> publics = {name: key.public for name, key in keys.items()}
    >>> masked = [
    ...     PairwiseMasks(name, key, publics).mask([value, -1], context="round 1")
    ...     for (name, key), value in zip(keys.items(), (5, -7, 1))
    ... ]
    >>> unmask_sum(masked)
    [-1, -3]
    """

    def __init__(
        self,
        name: str,
        key: MaskingKey,
        publics: Mapping[str, PublicKeys],
        identity: Identity | None = None,
    ) -> None:
        own = _key_bytes(key.public)
        peers = {peer: keys for peer, keys in publics.items() if peer != name}
        if not peers:
            raise ParameterError(
                f"Party {name!r} has no one to share masks with.",
                "Masks need two parties at least.",
                "Add the other parties' public keys.",
            )
        if name in publics and _key_bytes(publics[name]) != own:
            raise _bad_key("another key is announced under this party's own name")
        seen = [own, *(_key_bytes(keys) for keys in peers.values())]
        if len(set(seen)) < len(seen):
            raise _bad_key("two parties announce the same key")
        self._name = name
        self._secrets = {
            peer: key.agree(peer, keys, identity) for peer, keys in sorted(peers.items())
        }
        self._used: set[str] = set()

    def __repr__(self) -> str:
        return f"<pairwise masks of {self._name!r} against {len(self._secrets)} parties>"

    def mask(
        self, values: Sequence[int] | npt.NDArray[np.integer], context: str, limbs: int = 1
    ) -> Limbs:
        """Add this party's masks to its values.

        Parameters
        ----------
        values : sequence of int
            Signed numbers; the sum over all parties must fit ``64 * limbs`` bits with its sign.
        context : str
            Names the sum, the same at all parties (method, round, quantity). Never twice.
        limbs : int
            Words per number.

        Returns
        -------
        ndarray of uint64, shape (n_values, limbs)
        """
        total = to_limbs(values, limbs)
        self._use(context)
        count_work("mask", "mask number", len(total))
        count_work("mask", "mask number peer", len(total) * len(self._secrets))
        for peer, secret in self._secrets.items():
            first, second = sorted((self._name, peer))
            stream = _stream(secret, (context, first, second), total.shape)
            total = _add(total, stream if self._name == first else _negate(stream))
        return total

    def mask_modulo(self, values: npt.NDArray[np.int64], context: str, modulus: int) -> Limbs:
        """As :meth:`mask`, for numbers of Z_t whose sum is wanted modulo t too.

        A sum modulo a power of two would tell how often parties' numbers passed t.

        Returns
        -------
        ndarray of uint64, the shape of ``values``
            Residues modulo t; add them up with :func:`unmask_modulo`.
        """
        self._use(context)
        total = (values % modulus).astype(np.uint64)
        for peer, secret in self._secrets.items():
            first, second = sorted((self._name, peer))
            words = _stream(secret, (context, first, second), (values.size, _WORDS_MODULO))
            stream = _uniform(words, modulus).reshape(values.shape)
            added = stream if self._name == first else np.uint64(modulus) - stream
            total = (total + added) % np.uint64(modulus)
        return total

    def _use(self, context: str) -> None:
        if context in self._used:
            raise ParameterError(
                f"The masks of context {context[:40]!r} were used before.",
                "A mask hides one number only.",
                "Give every sum its own context.",
            )
        self._used.add(context)


def masks_modulo(
    secret: bytes, context: str, shape: tuple[int, ...], modulus: int
) -> npt.NDArray[np.uint64]:
    """Masks of Z_t that all who know a secret can make; never twice with one context.

    Examples
    --------
    >>> bool((masks_modulo(bytes(32), "round 1", (2, 3), 97) < 97).all())
    True
    """
    words = _stream(secret, (context, str(modulus), ""), (int(np.prod(shape)), _WORDS_MODULO))
    return _uniform(words, modulus).reshape(shape)


def _uniform(words: Limbs, modulus: int) -> npt.NDArray[np.uint64]:
    # Each word modulo t is uniform but for 2**-16 at most (t < 2**48); in a sum of three
    # the deviations multiply: 2**-45.
    return np.asarray((words % np.uint64(modulus)).sum(axis=1) % np.uint64(modulus))


def unmask_sum(arrays: Iterable[Limbs], limbs: int = 1) -> list[int]:
    """Add the masked arrays of all parties: the masks cancel, the signed sums remain."""
    total: Limbs | None = None
    for array in arrays:
        checked = np.asarray(array)
        expected = (len(checked), limbs) if total is None else total.shape
        if checked.dtype != np.uint64 or checked.shape != expected:
            raise ParameterError(
                f"A masked array has shape {checked.shape} and type {checked.dtype}.",
                f"Shape {expected} and type uint64 are needed.",
                "Use the same values, context and limbs at all parties.",
            )
        total = checked if total is None else _add(total, checked)
    if total is None:
        raise ParameterError(
            "No masked arrays to add.", "All parties' arrays are needed.", "Pass them in a list."
        )
    count_work("mask", "mask number", len(total))
    return from_limbs(total)


def unmask_modulo(arrays: Sequence[npt.NDArray[np.uint64]], modulus: int) -> npt.NDArray[np.int64]:
    """Add what :meth:`PairwiseMasks.mask_modulo` gave; signed numbers nearest to zero."""
    total = np.zeros_like(arrays[0])
    for array in arrays:
        if array.dtype != np.uint64 or array.shape != total.shape or (array >= modulus).any():
            raise ParameterError(
                f"A masked array of shape {array.shape} and type {array.dtype} is not usable.",
                f"Residues of shape {total.shape} are needed.",
                "Use the same values, context and modulus at all parties.",
            )
        total = (total + array) % np.uint64(modulus)
    signed = total.astype(np.int64)
    return np.where(signed > modulus // 2, signed - modulus, signed)


def to_limbs(values: Sequence[int] | npt.NDArray[np.integer], limbs: int) -> Limbs:
    """Signed integers in two's complement, least significant limb first."""
    if limbs == 1 and isinstance(values, np.ndarray) and values.dtype == np.int64:
        return values.reshape(len(values), 1).view(np.uint64).copy()
    numbers = [_integer(value) for value in values]
    half = 1 << (_LIMB_BITS * limbs - 1) if limbs > 0 else 0
    if not all(-half <= number < half for number in numbers):
        raise FixedPointOverflow(
            f"A number does not fit {limbs} limbs of {_LIMB_BITS} bits.",
            "Values and their sum must keep to that size.",
            "Use more limbs.",
        )
    width = 8 * limbs
    raw = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
    return np.frombuffer(raw, "<u8").reshape(len(numbers), limbs).astype(np.uint64)


def from_limbs(array: Limbs) -> list[int]:
    """Signed integers from two's complement."""
    rows = np.ascontiguousarray(array, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little", signed=True) for row in rows]


def _integer(value: object) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise ParameterError(
        f"A value of type {type(value).__name__} was to be masked.",
        "Masks hide integers only.",
        "Encode reals with FixedPoint first.",
    )


def _add(left: Limbs, right: Limbs) -> Limbs:
    """Sum modulo ``2**(64 * limbs)``, carries included."""
    total = left + right  # unsigned words wrap around
    carry = total < left
    for limb in range(1, total.shape[1]):
        word = total[:, limb] + carry[:, limb - 1]
        # Either the addition of the words or that of the carry can overflow, never both.
        carry[:, limb] |= word < total[:, limb]
        total[:, limb] = word
    return total


def _negate(array: Limbs) -> Limbs:
    one = np.zeros_like(array)
    one[:, 0] = 1
    return _add(~array, one)


def _stream(secret: bytes, names: tuple[str, str, str], shape: tuple[int, ...]) -> Limbs:
    """Key stream of one pair and context; lengths make the joined names unambiguous."""
    info = _DOMAIN
    for name in names:
        encoded = name.encode()
        info += len(encoded).to_bytes(4, "big") + encoded
    key = HKDF(hashes.SHA256(), length=_KEY_BYTES, salt=None, info=info).derive(secret)
    # Every key is used for one stream only, so a fixed nonce repeats nothing.
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    raw = cipher.update(bytes(8 * shape[0] * shape[1]))
    return np.frombuffer(raw, "<u8").reshape(shape).astype(np.uint64)


def _key_bytes(public: PublicKeys) -> bytes:
    if public.scheme != SCHEME or public.numbers or not public.blobs:
        raise _bad_key("it is of another scheme")
    if len(public.blobs[0]) != _KEY_BYTES:
        raise _bad_key(f"it has {len(public.blobs[0])} bytes, not {_KEY_BYTES}")
    return public.blobs[0]


def _bad_key(reason: str) -> BadCiphertext:
    return BadCiphertext(
        f"A masking key cannot be used: {reason}.",
        "Every party needs an X25519 key of its own, made for this run.",
        "Ask its owner to make and send the key again.",
    )
