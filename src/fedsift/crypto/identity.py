# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Proof that a key which a third party passed on is its owner's own, made for this run.

Keys for masks and dealt secrets travel through a coordinator, which between organisations is the
hub, and the hub may lie. So the owner adds one proof per receiver: a code under the secret that the
two share by the keys they have pinned of each other, bound to the job, the run, the protocol and
the two names. The receiver checks it before it sends anything that the key protects.

In one process nothing is pinned, and keys travel without proofs.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from typing import NoReturn, Protocol

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedsift.crypto.envelope import OrganisationKey
from fedsift.crypto.wire import PublicKeys
from fedsift.errors import KeySwapped

PROOF_BYTES = 16
_DOMAIN = b"fedsift key proof v1"


class Identity:
    """One party in one protocol of one run, to those who have pinned its key.

    Parameters
    ----------
    party : str
    key : OrganisationKey
        Of the organisation that the party belongs to.
    pinned : mapping of str to bytes
        Public keys of the organisations of all parties, by party.
    scope : tuple of str
        Names job, run and protocol, the same at all parties; proofs of another one are refused.

    Examples
    --------
    >>> bank, shop = OrganisationKey.generate(), OrganisationKey.generate()
    >>> at_bank = Identity("bank", bank, {"shop": shop.public}, ("job", "run 1"))
    >>> at_shop = Identity("shop", shop, {"bank": bank.public}, ("job", "run 1"))
    >>> at_shop.check("bank", b"a key", at_bank.vouch(b"a key", ["shop"]))
    """

    def __init__(
        self,
        party: str,
        key: OrganisationKey,
        pinned: Mapping[str, bytes],
        scope: tuple[str, ...],
    ) -> None:
        self._party = party
        self._scope = scope
        self._secrets = {peer: key.agree(public) for peer, public in pinned.items()}

    def __repr__(self) -> str:
        return f"<identity of {self._party!r} to {len(self._secrets)} parties>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")

    def vouch(self, public: bytes, receivers: Iterable[str]) -> tuple[bytes, ...]:
        """Make the proofs of an own key, one per receiver, in the order of their names."""
        return tuple(self._proof(self._party, name, name, public) for name in sorted(receivers))

    def check(self, owner: str, public: bytes, proofs: Iterable[bytes]) -> None:
        """Refuse a key that its alleged owner did not make for this party and this run."""
        if owner in self._secrets:
            right = self._proof(owner, self._party, owner, public)
            if any(hmac.compare_digest(right, proof) for proof in proofs):
                return
        raise KeySwapped(
            f"The key that arrived at {self._party!r} as that of {owner!r} was swapped: "
            f"{owner!r} did not make it for this run.",
            "A key that is passed on carries a proof under the keys that organisations pinned.",
            "Nothing was sent under it. Compare the pinned keys with its owner by a way you trust; "
            "if they are right, whoever passed the key on tampers with the run.",
        )

    def _proof(self, owner: str, receiver: str, peer: str, public: bytes) -> bytes:
        info = _DOMAIN
        for text in (*self._scope, owner, receiver):
            # Lengths make the joined names unambiguous.
            encoded = text.encode()
            info += len(encoded).to_bytes(4, "big") + encoded
        key = HKDF(hashes.SHA256(), length=32, salt=None, info=info).derive(self._secrets[peer])
        return hmac.digest(key, public, "sha256")[:PROOF_BYTES]


class KeyedParty(Protocol):
    """What keys are announced and checked with: a role's network has both."""

    party: str
    identity: Identity | None
    """None in one process, where nothing is pinned."""


def addressed(keys: Mapping[str, PublicKeys], receiver: str) -> dict[str, PublicKeys]:
    """Keys as one receiver needs them: without the proofs that are for others."""
    place, found = sorted(keys).index(receiver), {}
    for owner, announced in keys.items():
        public, proofs = announced.blobs[:1], announced.blobs[1:]
        if len(proofs) == len(keys):
            proofs = proofs[place : place + 1]
        found[owner] = PublicKeys(announced.scheme, announced.numbers, (*public, *proofs))
    return found
