# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Common numbers for categories and classes of parties that do not tell each other the words.

Every party sends digests of its words under a secret that the parties share and the coordinator
does not know. The coordinator sees which digests are equal, numbers them, and tells each party the
numbers of its own words. A party learns how many words there are in all, and no word that it does
not have.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedsift.data.part import Part
from fedsift.data.state_files import fingerprint
from fedsift.data.target import Target
from fedsift.errors import BadFrame
from fedsift.protocol import PublicArray

Codes = npt.NDArray[np.int64]
Digest = tuple[int, int]
_DOMAIN = b"fedsift words v1"


def make_secret(part: Part, target: Target | None, run: str) -> bytes:
    """The secret that one party deals: as hard to guess as all of its data, new for every job.

    It comes from the data and not from the operating system, so that a run that is resumed, or
    repeated in one process, numbers the words in the same order.
    """
    ids = "" if part.ids is None else "\0".join(part.ids.tolist())
    own = fingerprint(part.table, target) + hashlib.sha256(ids.encode()).hexdigest()
    return hmac.new(own.encode(), _DOMAIN + run.encode(), hashlib.sha256).digest()


def digest_words(words: Mapping[str, Sequence[str]], secret: bytes) -> dict[str, PublicArray]:
    """Digests of the words of every list, in the list's own order."""
    return {
        name: PublicArray.of(
            np.array([_digest(secret, name, text) for text in texts], dtype=np.uint64).reshape(
                len(texts), 2
            )
        )
        for name, texts in words.items()
    }


def number_words(
    sent: Mapping[str, Mapping[str, PublicArray]],
) -> tuple[dict[str, dict[str, Codes]], dict[str, int]]:
    """Common numbers of every party's words, and how many there are, by list.

    Parameters
    ----------
    sent : mapping of party to digests by list

    Returns
    -------
    codes : dict of party to codes by list
    sizes : dict of list to int
    """
    by_list: dict[str, dict[str, list[Digest]]] = {}
    for party, lists in sent.items():
        for name, array in lists.items():
            by_list.setdefault(name, {})[party] = _pairs(array)
    codes: dict[str, dict[str, Codes]] = {party: {} for party in sent}
    sizes = {}
    for name, parties in by_list.items():
        known = sorted({digest for pairs in parties.values() for digest in pairs})
        place = {digest: number for number, digest in enumerate(known)}
        sizes[name] = len(known)
        for party, pairs in parties.items():
            codes[party][name] = np.array([place[digest] for digest in pairs], dtype=np.int64)
    return codes, sizes


def check_digests(sent: Mapping[str, PublicArray]) -> None:
    """Refuse digests in another form, or twice the same in one list."""
    for array in sent.values():
        _pairs(array)


def find_own_codes(
    codes: Mapping[str, PublicArray], sizes: Mapping[str, int], words: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Codes, int]]:
    """What the coordinator says about the own words, checked: different numbers in their range."""
    checked = {}
    for name, texts in words.items():
        array, size = codes.get(name), sizes.get(name, 0)
        if array is None:
            raise _no_numbers()
        numbers = array.array(shape=(len(texts),))
        in_range = numbers.dtype == np.int64 and bool(((numbers >= 0) & (numbers < size)).all())
        if not in_range or len(np.unique(numbers)) != len(texts):
            raise _no_numbers()
        checked[name] = (numbers, size)
    return checked


def _digest(secret: bytes, name: str, text: str) -> Digest:
    # The length keeps ("ab", "c") and ("a", "bc") apart.
    encoded = name.encode()
    content = len(encoded).to_bytes(8, "big") + encoded + text.encode()
    raw = hmac.new(secret, _DOMAIN + content, hashlib.sha256).digest()
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:16], "little")


def _pairs(array: PublicArray) -> list[Digest]:
    values = array.array(shape=(array.shape[0], 2))
    if values.dtype != np.uint64 or len(np.unique(values, axis=0)) != len(values):
        raise _no_numbers()
    return [(int(first), int(second)) for first, second in values]


def no_secret() -> BadFrame:
    """Build the error for words that are wanted before a secret was dealt."""
    return BadFrame(
        "There is no secret to hide words under.",
        "One party deals a secret to all others first.",
        "Check that all sites run the same version of fedsift.",
    )


def _no_numbers() -> BadFrame:
    return BadFrame(
        "Words arrived without digests or numbers of their own.",
        "Every category and class has one, different from all others of its column.",
        "Check that all parties run the same version of fedsift.",
    )
