# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One sealed message from one organisation to another, without a conversation around it.

For what is left with a hub and picked up later: a submitter's word that a job is its own, and the
result that goes back. The keys come from both organisations' own keys, so the receiver knows who
wrote, and from a key made for this letter alone, so that the writer's key, if it is stolen later,
does not open it.
"""

from __future__ import annotations

from fedsift.crypto.envelope import Envelopes, OrganisationKey
from fedsift.errors import BadEnvelope, ParameterError

_KEY_BYTES = 32


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
