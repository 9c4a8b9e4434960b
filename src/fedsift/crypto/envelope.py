# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Signatures and sealed envelopes of organisations, for what a hub carries between them.

Each organisation pins the X25519 public keys of the others. Both sides of a pair derive one
AES-256-GCM key per direction, role of the message (request or reply) and session, so an envelope
opens only at its receiver, only as what it was sent as, and only in its own session. Sequence
numbers are part of what is authenticated: an envelope that was changed, repeated, reflected, or
delivered out of turn is refused. The hub sees who writes to whom, when, and how much.

A *letter* is one sealed message without a conversation around it, for what is left with a hub and
picked up later: a submitter's word that a job is its own, and the result that goes back. Its keys
come from both organisations' own keys, so the receiver knows who wrote, and from a key made for
this letter alone, so that the writer's key, if it is stolen later, does not open it.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Mapping
from typing import Generic, Literal, NoReturn, TypeVar

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsift.errors import BadEnvelope, ParameterError

Kind = Literal["request", "reply"]
_DOMAIN = b"fedsift envelope v1"
_KEY_BYTES = 32
_SEED_BYTES = 32
_NONCE_BYTES = 12
_HEAD = struct.Struct(">4sQ")
_MAGIC = b"fse\x01"
Secret = TypeVar("Secret", bound=Ed25519PrivateKey | X25519PrivateKey)


class _SecretKey(Generic[Secret]):
    """A secret key; only its public part is ever handed out."""

    def __init__(self, secret: Secret) -> None:
        self._secret: Secret = secret

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secret keys are not pickled")

    @property
    def public(self) -> bytes:
        """What others pin, and check signatures with."""
        return self._secret.public_key().public_bytes_raw()


class SigningKey(_SecretKey[Ed25519PrivateKey]):
    """Signs for its owner."""

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a key from the operating system's random source."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def derive(cls, secret: bytes) -> SigningKey:
        """Make the key that belongs to another secret; that secret does not follow from it."""
        info = b"fedsift signing key v1"
        seed = HKDF(hashes.SHA256(), length=_SEED_BYTES, salt=None, info=info).derive(secret)
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def sign(self, content: bytes) -> bytes:
        """Sign some bytes."""
        return self._secret.sign(content)


def is_signed(public: bytes, content: bytes, signature: bytes) -> bool:
    """Whether the owner of a public key signed these bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


class OrganisationKey(_SecretKey[X25519PrivateKey]):
    """The long-lived key of one organisation."""

    @classmethod
    def generate(cls) -> OrganisationKey:
        """Make a key from the operating system's random source."""
        return cls(X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, raw: bytes) -> OrganisationKey:
        """Read what :meth:`to_bytes` gave; a file with it belongs to its owner alone."""
        return cls(X25519PrivateKey.from_private_bytes(raw))

    def to_bytes(self) -> bytes:
        """The secret, for the owner's own file."""
        return self._secret.private_bytes_raw()

    @property
    def signing(self) -> SigningKey:
        """Key that signs for this organisation; made from the same secret."""
        return SigningKey.derive(self.to_bytes())

    def agree(self, public: bytes) -> bytes:
        """The secret shared with the owner of a pinned key."""
        try:
            return self._secret.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise ParameterError(
                "A pinned key is not usable.",
                f"A public key of {_KEY_BYTES} bytes is needed.",
                "Ask its owner for the key again, by a way you trust.",
            ) from error


class Envelopes:
    """Seals and opens the messages of one organisation in one session.

    Parameters
    ----------
    name : str
        This organisation.
    key : OrganisationKey
    pinned : mapping of str to bytes
        Public keys of the others.
    session : str
        Names the run, the same at all organisations; envelopes of another one do not open.
    fresh : mapping of str to bytes, optional
        Secrets agreed with the others for this session alone. They become part of the keys, so
        that an organisation's key that is stolen later does not open recorded envelopes.

    Examples
    --------
    >>> bank, shop = OrganisationKey.generate(), OrganisationKey.generate()
    >>> at_bank = Envelopes("bank", bank, {"shop": shop.public}, "job 1")
    >>> at_shop = Envelopes("shop", shop, {"bank": bank.public}, "job 1")
    >>> at_shop.open("bank", "request", at_bank.seal("shop", "request", b"hello"))
    b'hello'
    """

    def __init__(
        self,
        name: str,
        key: OrganisationKey,
        pinned: Mapping[str, bytes],
        session: str,
        fresh: Mapping[str, bytes] | None = None,
    ) -> None:
        self._name = name
        self._keys: dict[tuple[str, str, Kind], AESGCM] = {}
        self._sent: dict[tuple[str, Kind], int] = {}
        self._received: dict[tuple[str, Kind], int] = {}
        kinds: tuple[Kind, ...] = ("request", "reply")
        for peer, public in pinned.items():
            if peer == name:
                continue
            shared = key.agree(public) + (fresh or {}).get(peer, b"")
            for sender, receiver in ((name, peer), (peer, name)):
                for kind in kinds:
                    derived = _derived(shared, session, sender, receiver, kind)
                    self._keys[sender, receiver, kind] = AESGCM(derived)

    def __repr__(self) -> str:
        return f"<envelopes of {self._name!r} with {len(self._keys) // 4} organisations>"

    def seal(self, receiver: str, kind: Kind, content: bytes) -> bytes:
        """An envelope that only the receiver can open, once, in turn."""
        number = self._sent.get((receiver, kind), 0) + 1
        self._sent[receiver, kind] = number
        head, nonce = _HEAD.pack(_MAGIC, number), secrets.token_bytes(_NONCE_BYTES)
        cipher = self._key(self._name, receiver, kind)
        return head + nonce + cipher.encrypt(nonce, content, head)

    def open(self, sender: str, kind: Kind, envelope: bytes) -> bytes:
        """The content, if it is the next envelope of this kind from that sender."""
        if len(envelope) < _HEAD.size + _NONCE_BYTES:
            raise _refused(sender, "it is too short")
        head, rest = envelope[: _HEAD.size], envelope[_HEAD.size :]
        magic, number = _HEAD.unpack(head)
        if magic != _MAGIC:
            raise _refused(sender, "it is of another format")
        cipher = self._key(sender, self._name, kind)
        try:
            content = cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], head)
        except InvalidTag:
            raise _refused(sender, "it was not sealed by that organisation for this") from None
        # Only an authentic number may move the counter, or a forger could block the line.
        expected = self._received.get((sender, kind), 0) + 1
        if number < expected:
            raise _refused(sender, "it was received before")
        if number > expected:
            raise _refused(sender, "one before it is missing")
        self._received[sender, kind] = number
        return content

    def _key(self, sender: str, receiver: str, kind: Kind) -> AESGCM:
        known = self._keys.get((sender, receiver, kind))
        if known is None:
            other = receiver if sender == self._name else sender
            raise ParameterError(
                f"No key of organisation {other!r} is pinned.",
                "Messages go only to and from organisations whose key is known.",
                f"Add the public key of {other!r} to this organisation's file.",
            )
        return known


def share_secret(key: OrganisationKey, public: bytes, session: str) -> bytes:
    """Derive what two organisations share in a session besides the keys of their envelopes."""
    return _derived(key.agree(public), session, "", "", "secret")


def _derived(shared: bytes, session: str, sender: str, receiver: str, kind: str) -> bytes:
    """One key per direction, kind and session; lengths make the joined names unambiguous."""
    info = _DOMAIN
    for text in (session, sender, receiver, kind):
        encoded = text.encode()
        info += len(encoded).to_bytes(4, "big") + encoded
    return HKDF(hashes.SHA256(), length=_KEY_BYTES, salt=None, info=info).derive(shared)


def _refused(sender: str, reason: str) -> BadEnvelope:
    return BadEnvelope(
        f"An envelope that claims to come from {sender!r} was refused: {reason}.",
        "Envelopes must be sealed by the pinned key, in this session, and arrive in order.",
        "Check the pinned keys; if they are right, someone on the way is tampering with messages.",
    )


def seal_letter(
    sender: str, key: OrganisationKey, receiver: str, public: bytes, topic: str, content: bytes
) -> bytes:
    """Seal a letter.

    Parameters
    ----------
    sender, key
        Who writes, and its own key.
    receiver, public
        Who may read, and its pinned key.
    topic : str
        What the letter is about; it opens only where the same is expected.

    Examples
    --------
    >>> bank, ann = OrganisationKey.generate(), OrganisationKey.generate()
    >>> letter = seal_letter("bank", bank, "ann", ann.public, "result of job 1", b"seven")
    >>> open_letter("ann", ann, "bank", bank.public, "result of job 1", letter)
    b'seven'
    """
    fresh = OrganisationKey.generate()
    secret = fresh.agree(public)
    session = _session(topic, fresh.public)
    envelopes = Envelopes(sender, key, {receiver: public}, session, {receiver: secret})
    return fresh.public + envelopes.seal(receiver, "request", content)


def open_letter(
    receiver: str, key: OrganisationKey, sender: str, public: bytes, topic: str, letter: bytes
) -> bytes:
    """Open a letter, if that sender wrote it to this receiver about this."""
    fresh, envelope = letter[:_KEY_BYTES], letter[_KEY_BYTES:]
    try:
        secret = key.agree(fresh)
    except ParameterError:
        raise BadEnvelope(
            f"What claims to be a letter from {sender!r} is none.",
            "A letter holds a key and an envelope.",
            "Ask for it to be sent again.",
        ) from None
    session = _session(topic, fresh)
    return Envelopes(receiver, key, {sender: public}, session, {sender: secret}).open(
        sender, "request", envelope
    )


def _session(topic: str, fresh: bytes) -> str:
    return f"letter {fresh.hex()} {topic}"
