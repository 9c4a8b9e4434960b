# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Ways to alter the ledger and the rest of a result file, and what a check must say about each.

An attacker has the whole file and no secret key. A careful one also repairs what needs no key: the
numbers of entries, their count, the hash over all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsift.crypto.envelope import SigningKey
from fedsift.protocol.commitments import MESSAGES, Signer, head_of
from fedsift.protocol.verify import ADDED, CHANGED, DROPPED, FOREIGN, REORDERED, Verification

RESIGNED = "re-signed"
KINDS = (DROPPED, CHANGED, ADDED, REORDERED, RESIGNED)

Plain = dict[str, Any]
Random = np.random.Generator


@dataclass(frozen=True)
class Altered:
    """An altered result, as plain values.

    Parameters
    ----------
    result : dict
    how : str
        One of ``KINDS``.
    where : str
        The chain that was altered.
    entries : frozenset of int
        Any of them must be named; empty if the chain as a whole must be.
    kinds : frozenset of str
        What the check may call it.
    """

    result: Plain
    how: str
    where: str
    entries: frozenset[int]
    kinds: frozenset[str]

    def is_named_by(self, found: Verification) -> bool:
        """Whether a check says what was done, and where."""
        return any(
            problem.kind in self.kinds
            and problem.where in (self.where, "all chains")
            # The last entry has no number any more if the count of entries was altered too.
            and (not self.entries or problem.entry in self.entries or problem.kind == DROPPED)
            for problem in found.problems
        )


def alter(result: Plain, how: str, random: Random) -> Altered:
    """Alter a copy of a result in one of the ways; which entry and how is drawn."""
    made = copy.deepcopy(result)
    if how == RESIGNED:
        return _re_sign(made, random)
    if random.random() < 0.3:
        return _alter_rows(made, how, random)
    if how == CHANGED and random.random() < 0.3:
        return _alter_outcome(made, random)
    chain = _draw(made["commitments"]["messages"], random)
    place, kinds = _ALTERATIONS[how](chain, random)
    if random.random() < 0.5:
        kinds |= _repair(made, chain, random)
    if made == result:  # a repaired number
        return alter(result, how, random)
    return Altered(made, how, f"messages of {chain['party']!r}", frozenset(place), frozenset(kinds))


# One chain


def _drop(chain: Plain, random: Random) -> tuple[set[int], set[str]]:
    place = _place(chain["entries"], random)
    del chain["entries"][place]
    return {place}, {DROPPED}


def _change(chain: Plain, random: Random) -> tuple[set[int], set[str]]:
    place = _place(chain["entries"], random)
    parts = chain["entries"][place].split("|")
    which = int(random.integers(len(parts)))
    if which in (0, 2, 9):  # own number, round, number of bytes
        parts[which] = str(int(parts[which]) + 1)
    elif which in (10, 11):  # commitment, signature
        parts[which] = ("B" if parts[which][0] == "A" else "A") + parts[which][1:]
    else:
        parts[which] += "x"
    chain["entries"][place] = "|".join(parts)
    return {place}, {CHANGED}


def _add(chain: Plain, random: Random) -> tuple[set[int], set[str]]:
    entries, place = chain["entries"], _place(chain["entries"], random)
    parts = entries[place].split("|")
    if random.random() < 0.5:  # a message that was never sent
        parts[7:10] = ["OwnOutline", "nothing", "13"]
        parts[0] = str(place)
    entries.insert(place, "|".join(parts))
    return set(), {ADDED}


def _reorder(chain: Plain, random: Random) -> tuple[set[int], set[str]]:
    entries = chain["entries"]
    place = int(random.integers(len(entries) - 1))
    entries[place : place + 2] = reversed(entries[place : place + 2])
    return {place, place + 1}, {REORDERED}


_ALTERATIONS: dict[str, Callable[[Plain, Random], tuple[set[int], set[str]]]] = {
    DROPPED: _drop,
    CHANGED: _change,
    ADDED: _add,
    REORDERED: _reorder,
}


def _repair(result: Plain, chain: Plain, random: Random) -> set[str]:
    """Repair what needs no key; entries with new numbers are no longer signed, so changed."""
    renumbered = random.random() < 0.5
    if renumbered:
        entries = enumerate(chain["entries"])
        chain["entries"] = [f"{i}|{entry.partition('|')[2]}" for i, entry in entries]
    if random.random() < 0.5:
        run, lines = result["commitments"]["run"], [_line(entry) for entry in chain["entries"]]
        chain |= {"count": len(lines), "head": head_of(run, MESSAGES, chain["party"], lines)}
    return {CHANGED, DROPPED, ADDED} if renumbered else set()


# Rows of the ledger


def _alter_rows(result: Plain, how: str, random: Random) -> Altered:
    rows = result["disclosures"]
    place = _place(rows, random) if how != REORDERED else int(random.integers(len(rows) - 1))
    entries = {place}
    if how == DROPPED:
        del rows[place]
    elif how == CHANGED:
        name = _draw(["learner", "about", "kind", "what", "form", "times", "n_bytes"], random)
        value = rows[place][name]
        rows[place][name] = value + 1 if isinstance(value, int) else f"{value}x"
    elif how == ADDED:
        rows.insert(place, rows[place] | {"times": rows[place]["times"] + 1})
        entries = set(range(len(rows)))
    else:
        rows[place : place + 2] = reversed(rows[place : place + 2])
        entries = {place, place + 1}
    return Altered(result, how, "ledger", frozenset(entries), frozenset({how}))


# The rest of the result


def _alter_outcome(result: Plain, random: Random) -> Altered:
    """Alter the selection, the scores, the settings or what is said of the protection."""
    names = ["selected", "security", "security_bits", "parameters"]
    names += ["scores"] if any(result["scores"].values()) else []
    name = _draw(names, random)
    value = result[name]
    if name == "selected":
        party = _draw(sorted(value), random)
        value[party] = value[party][1:] if value[party] else ["made up"]
    elif name == "scores":
        party = _draw(sorted(party for party in value if value[party]), random)
        feature = _draw(sorted(value[party]), random)
        value[party][feature] += 1.0
    elif name == "parameters":
        value["made up"] = 1
    else:
        result[name] = value + 1 if isinstance(value, int) else f"{value}x"
    entries = [_line(entry) for entry in result["commitments"]["outcome"]["entries"]]
    place = next(i for i, line in enumerate(entries) if line.startswith(f"{name}|"))
    return Altered(result, CHANGED, "result", frozenset({place}), frozenset({CHANGED}))


# Foreign keys


def _re_sign(result: Plain, random: Random) -> Altered:
    """Alter a chain and sign it again with another key; sometimes all chains, or one entry."""
    commitments = result["commitments"]
    chains = commitments["messages"]
    chain, run = _draw(chains, random), commitments["run"]
    where, key = f"messages of {chain['party']!r}", SigningKey.generate()
    if random.random() < 0.3:  # one entry, under the party's own name
        place = _place(chain["entries"], random)
        line = _line(chain["entries"][place])
        signer = Signer(run, key)
        forged = signer.sign_messages(chain["party"], [line] * (place + 1)).entries[place]
        chain["entries"][place] = forged
        return Altered(result, RESIGNED, where, frozenset({place}), frozenset({CHANGED}))
    how = _draw([DROPPED, CHANGED, ADDED, REORDERED], random)
    _ALTERATIONS[how](chain, random)
    for one in chains if random.random() < 0.3 else [chain]:
        own = SigningKey.generate()
        signed = Signer(run, own).sign_messages(
            one["party"], [_line(entry) for entry in one["entries"]]
        )
        one |= {name: getattr(signed, name) for name in ("key", "entries", "count", "head", "end")}
    return Altered(result, RESIGNED, where, frozenset(), frozenset({FOREIGN}))


def _line(entry: str) -> str:
    return entry.partition("|")[2].rpartition("|")[0]


def _place(values: list[Any], random: Random) -> int:
    return int(random.integers(len(values)))


def _draw(values: list[Any], random: Random) -> Any:
    return values[_place(values, random)]
