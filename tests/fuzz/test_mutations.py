"""Mutations of JSON and MessagePack stay readable, and the rest is left to the fuzzer."""

import json

import msgspec
import pytest

from fuzz.mutations import mutate

TREE = {"a": [1, 2.5, {"b": "text"}], "c": None, "d": {"e": True}}


def as_bytes(data, longest):
    return b"bytes"


@pytest.mark.parametrize(
    ("encode", "decode"),
    [
        (lambda tree: json.dumps(tree).encode(), json.loads),
        (msgspec.msgpack.encode, msgspec.msgpack.decode),
    ],
)
def test_trees_stay_readable_and_change(encode, decode):
    made = [mutate(encode(TREE), 8192, seed, as_bytes) for seed in range(300)]
    trees = [one for one in made if one != b"bytes"]
    assert len(trees) > 200
    different = {repr(decode(one)) for one in trees}
    assert len(different) > 100


def test_what_has_no_tree_is_changed_as_bytes():
    assert {mutate(data, 9, 1, as_bytes) for data in (b"", b"\xff", b"[", b"7")} == {b"bytes"}


def test_nothing_grows_beyond_the_longest():
    text = json.dumps(TREE).encode()
    assert max(len(mutate(text, 20, seed, as_bytes)) for seed in range(100)) <= 20
