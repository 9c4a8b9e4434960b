# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Mutations that keep JSON and MessagePack readable.

Decoders written in C show the fuzzer nothing of what they do, and refuse nearly every input whose
bytes were changed. An input that can be decoded is therefore changed as a tree most of the time, so
that the code behind the decoder is reached.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import msgspec

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), "", "\0", "\ud800", "=1+1", "../..", "<b>", "x" * 300,
    b"", bytes(32), [], {}, [[]], {"": None},
)  # fmt: skip
_KEPT_BYTES = 0.2
"""Share of inputs that are changed as bytes although they can be decoded."""

Mutate = Callable[[bytes, int], bytes]
_JSON = (json.loads, lambda tree: json.dumps(tree, default=str).encode(errors="surrogatepass"))
_PACKED = (msgspec.msgpack.decode, msgspec.msgpack.encode)


def mutate(data: bytes, longest: int, seed: int, mutate_bytes: Mutate) -> bytes:
    """Change one place of the tree in an input, or its bytes if there is none."""
    random = Random(seed)  # noqa: S311 - hides nothing
    for decode, encode in (_JSON, _PACKED):
        try:
            tree = decode(data)
            if isinstance(tree, dict | list) and tree and random.random() >= _KEPT_BYTES:
                for _ in range(random.choice((1, 1, 2, 4))):
                    _change(tree, random)
                return encode(tree)[:longest]
        except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
            continue
    return mutate_bytes(data, longest)


def _change(tree: Any, random: Random) -> None:
    """Replace, remove or double one place of a tree, or copy another one over it."""
    places = _places(tree)
    if not places:
        return
    inside, key = random.choice(places)
    match random.randrange(5):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, list):
            inside.insert(key, inside[key])
        case 2:
            other, place = random.choice(places)
            inside[key] = deepcopy(other[place])
        case 3:
            inside[key] = _near(inside[key], random)
        case _:
            inside[key] = random.choice(ODD)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    left = [tree]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        found += [(one, key) for key in keys]
        left += [one[key] for key in keys if isinstance(one[key], dict | list) and one[key]]
    return found


def _near(value: Any, random: Random) -> Any:
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + random.choice((-1, 1, 1 << random.randrange(70)))
    if isinstance(value, float):
        return value * random.choice((-1, 1e-300, 1e300, 0))
    if isinstance(value, str | bytes) and value:
        place = random.randrange(len(value))
        return value[:place] + value[place : place + 1] * random.randrange(3) + value[place + 1 :]
    return random.choice(ODD)
