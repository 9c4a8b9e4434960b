"""A letter opens for its reader, from its writer, about its topic, and in no other case."""

import pytest

from fedsift.crypto.envelope import OrganisationKey, open_letter, seal_letter
from fedsift.errors import BadEnvelope

MARKER = b"a marker that must not be readable"


@pytest.fixture
def keys():
    return {name: OrganisationKey.generate() for name in ("bank", "ann", "hub")}


def sealed(keys, topic="result"):
    return seal_letter("bank", keys["bank"], "ann", keys["ann"].public, topic, MARKER)


def test_the_reader_reads(keys):
    letter = sealed(keys)
    assert MARKER not in letter
    for _ in range(2):  # a letter may be read again
        opened = open_letter("ann", keys["ann"], "bank", keys["bank"].public, "result", letter)
        assert opened == MARKER
    assert sealed(keys) != letter


@pytest.mark.parametrize(
    ("reader", "key", "writer", "public", "topic"),
    [
        ("hub", "hub", "bank", "bank", "result"),
        ("ann", "hub", "bank", "bank", "result"),
        ("bank", "bank", "ann", "ann", "result"),
        ("ann", "ann", "bank", "hub", "result"),
        ("ann", "ann", "shop", "bank", "result"),
        ("ann", "ann", "bank", "bank", "another"),
    ],
    ids=["hub", "hub as ann", "its writer", "forged writer", "other name", "other topic"],
)
def test_nobody_else_reads(keys, reader, key, writer, public, topic):
    letter = sealed(keys)
    with pytest.raises(BadEnvelope):
        open_letter(reader, keys[key], writer, keys[public].public, topic, letter)


def test_any_change_is_noticed(keys):
    letter = sealed(keys)
    for position in range(len(letter)):
        changed = bytearray(letter)
        changed[position] ^= 1
        with pytest.raises(BadEnvelope):
            open_letter("ann", keys["ann"], "bank", keys["bank"].public, "result", bytes(changed))


@pytest.mark.parametrize("letter", [b"", b"x", bytes(32), bytes(100), b"x" * 100])
def test_what_is_no_letter_is_refused(keys, letter):
    with pytest.raises(BadEnvelope):
        open_letter("ann", keys["ann"], "bank", keys["bank"].public, "result", letter)
