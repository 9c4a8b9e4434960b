# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checks a result against the signatures of its parties; needs no data and no secret.

Every chain is checked by itself, the chains of sender and receiver against each other, the ledger
against what the chains say was sent, and the other parts of the result against their digests. What
is wrong is named by its place: the party's chain
and the number of the entry, as its owner signed it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedsift.crypto.envelope import is_signed
from fedsift.protocol.commitments import (
    MESSAGES,
    NOT_COVERED,
    OUTCOME,
    ROWS,
    MessageLine,
    end_statement,
    entry_statement,
    from_base64,
    head_of,
    mark_selected,
    outcome_digests,
    row_digest,
    to_base64,
)
from fedsift.protocol.message import NOTHING, Done, Fault
from fedsift.result import Disclosure, SelectionResult, SignedChain

DROPPED, CHANGED, ADDED, REORDERED = "dropped", "changed", "added", "reordered"
FOREIGN, MISSING, CONTRADICTED = "foreign key", "missing", "contradicted"
_HUB = "hub"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Problem:
    """Something that does not fit.

    Parameters
    ----------
    kind : str
        ``dropped``, ``changed``, ``added`` or ``reordered`` for one entry; ``foreign key`` or
        ``missing`` for a whole chain; ``contradicted`` if what was signed does not fit together.
    where : str
        The chain: ``messages of 'bank'``, ``ledger`` or ``result``.
    entry : int or None
        Number of the entry in it.
    text : str
        A sentence.
    """

    kind: str
    where: str
    entry: int | None
    text: str


@dataclass(frozen=True)
class Verification:
    """What a check found.

    Parameters
    ----------
    signed : bool
        Whether the result carries signatures at all.
    problems : tuple of Problem
    parties : tuple of str
        Who signed.
    n_messages : int
        Different messages that were checked.
    fingerprint : str
        Of the keys in the result.
    pinned : bool
        Whether keys were given to compare with; otherwise they are those of the result itself.
    covered : dict of str to tuple of str
        Parts of the result that are signed, and by whom.
    not_covered : tuple of str
        Parts that anybody may change without being noticed.
    """

    signed: bool
    problems: tuple[Problem, ...] = ()
    parties: tuple[str, ...] = ()
    n_messages: int = 0
    fingerprint: str = ""
    pinned: bool = False
    covered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    not_covered: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are signatures and everything fits."""
        return self.signed and not self.problems

    @property
    def summary(self) -> str:
        """Return one sentence on what was checked, and against which keys."""
        against = (
            "with keys that were given"
            if self.pinned
            else "with the keys in the result itself; compare their fingerprint or give --keys"
        )
        return f"{self.n_messages} messages, signed by sender and receiver, {against}."


def verify_result(
    result: SelectionResult,
    keys: Mapping[str, bytes] | None = None,
    fingerprint: str | None = None,
    *,
    quick: bool = False,
) -> Verification:
    """Check the ledger of a result, its selection and all the rest that is signed.

    Parameters
    ----------
    result : SelectionResult
    keys : mapping of name to bytes, optional
        Public signing keys that are known to belong to the parties. Without them the signatures are
        checked against the keys in the result itself. A party that is not among them lives at the
        hub.
    fingerprint : str, optional
        Of all keys of the run, as it was printed.
    quick : bool
        Whether to skip the signatures of single entries where that of the whole chain fits.
    """
    commitments = result.commitments
    if commitments is None:
        return Verification(signed=False)
    chains: dict[str, _Checked] = {}
    problems: list[Problem] = []
    for chain in commitments.messages:
        if chain.party in chains:
            text = f"There are two chains of {chain.party!r}."
            problems.append(Problem(ADDED, _name(MESSAGES, chain.party), None, text))
            continue
        chains[chain.party] = _Checked(commitments.run, MESSAGES, chain, keys, quick)
    rows = _Checked(commitments.run, ROWS, commitments.rows, keys, quick)
    outcome = None
    if commitments.outcome is not None:
        outcome = _Checked(commitments.run, OUTCOME, commitments.outcome, keys, quick)
    for checked in (*chains.values(), rows, *([] if outcome is None else [outcome])):
        problems += checked.problems
    if fingerprint is not None and fingerprint.split() != commitments.fingerprint.split():
        text = f"The keys have the fingerprint {commitments.fingerprint}, not {fingerprint}."
        problems.append(Problem(FOREIGN, "all chains", None, text))
    problems += _compare_rows(result.disclosures, rows)
    problems += _compare_outcome(result, outcome, rows)
    problems += _compare_chains(chains)
    problems += _compare_selected(result, chains)
    if not problems:
        problems += _compare_counts(result, chains)
    sent = [
        one for own, chain in chains.items() for one in chain.messages.values() if one.sender == own
    ]
    return Verification(
        True,
        tuple(problems),
        tuple(chains) or (commitments.rows.party,),
        len(sent),
        commitments.fingerprint,
        keys is not None or fingerprint is not None,
        _covered(chains, rows, outcome),
        NOT_COVERED,
    )


def _name(purpose: str, party: str) -> str:
    return {ROWS: "ledger", OUTCOME: "result"}.get(purpose, f"messages of {party!r}")


def _covered(
    chains: Mapping[str, _Checked], rows: _Checked, outcome: _Checked | None
) -> dict[str, tuple[str, ...]]:
    """Say which parts of a result are signed, and by whom."""
    found = {"messages": tuple(chains), "disclosures": (rows.chain.party,)}
    if outcome is not None:
        writer = outcome.chain.party
        names = (line.partition("|")[0] for line in outcome.lines.values())
        found |= dict.fromkeys(names, (writer,))
        own = [party for party, chain in chains.items() if chain.selected and party != writer]
        found["selected"] = (writer, *own)
    return found


@dataclass
class _Checked:
    """One chain, checked by itself."""

    run: str
    purpose: str
    chain: SignedChain
    keys: Mapping[str, bytes] | None
    quick: bool
    lines: dict[int, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    entries_fit: bool = True

    def __post_init__(self) -> None:
        chain = self.chain
        self.where, self.public = _name(self.purpose, chain.party), from_base64(chain.key)
        said = end_statement(self.run, self.purpose, chain.party, chain.count, chain.head)
        self.end_is_signed = is_signed(self.public, said, from_base64(chain.end))
        if self.keys is not None:
            self._check_key(self.keys.get(chain.party, self.keys.get(_HUB)))
        before = len(self.problems)
        order = self._read_entries()
        self.entries_fit = len(self.problems) == before
        self._check_end(order)
        read = {index: MessageLine.from_text(line) for index, line in self.lines.items()}
        if self.purpose == MESSAGES:
            for index in (i for i, one in read.items() if one is None):
                self._add(CONTRADICTED, index, f"Entry {index} is no message.")
        self.messages = {i: one for i, one in read.items() if one and not one.is_mark}
        self.resumed = any(one is not None and one.is_resumption for one in read.values())
        self.selected = [i for i, one in read.items() if one and one.marks_selection]

    def _check_key(self, expected: bytes | None) -> None:
        party = self.chain.party
        if expected is None:
            self._add(MISSING, None, f"No key of {party!r} is among the given ones.")
        elif to_base64(expected) != self.chain.key:
            self._add(
                FOREIGN, None, f"The chain is signed with another key than that of {party!r}."
            )

    def index_of(self, line: str) -> int | None:
        """Number of an entry."""
        return next((i for i, own in self.lines.items() if own == line), None)

    def _read_entries(self) -> list[int]:
        """Keep the entries that were really signed; say what is wrong with the others."""
        chain, bad = self.chain, list[tuple[int, int | None]]()
        order, moved = list[int](), list[int]()
        parts = [_split(entry) for entry in chain.entries]
        if self.quick and self._has_signed_head([(number, line) for number, line, _ in parts]):
            self.lines = {index: line for index, (_, line, _) in enumerate(parts)}
            return list(self.lines)
        for place, (number, line, signature) in enumerate(parts):
            said = int(number) if _NUMBER.fullmatch(number) else None
            index = None if said is None else self._signed_index(said, line, signature)
            if index is None:
                bad.append((place, said))
            elif index in self.lines:
                self._add(ADDED, index, f"Entry {index} is there twice.")
            else:
                self.lines[index] = line
                order.append(index)
                moved += [index] if index != said else []
        if bad and not order and not self.end_is_signed:
            text = f"No signature fits the key of {chain.party!r}, or all entries were replaced."
            self._add(FOREIGN, None, text)
            return order
        # Without a signed end, an entry behind all others may have taken the last one's place.
        last = max(order, default=-1) + (bool(bad) and bad[-1][0] == len(parts) - 1)
        expected = set(range(chain.count if self.end_is_signed else last + 1))
        lost = sorted(expected - set(order))
        for place, index in bad:
            found = index if index in lost else self._gap_at(place, order, lost)
            if found is None:
                text = f"Entry {place} (counted from 0) was added: {chain.party!r} did not sign it."
                self._add(ADDED, place, text)
            else:
                lost.remove(found)
                self._add(CHANGED, found, f"Entry {found} was changed after it was signed.")
        for index in lost:
            self._add(DROPPED, index, f"Entry {index} was dropped.")
        for before, after in itertools.pairwise(order):
            if before > after:
                self._add(REORDERED, after, f"Entry {after} was moved behind entry {before}.")
        if not any(one.entry is not None for one in self.problems):
            for index in moved:
                self._add(CHANGED, index, f"Entry {index} was given another number.")
        return order

    def _signed_index(self, said: int, line: str, signature: str) -> int | None:
        """Number under which an entry was signed; entries around an altered one may have moved."""
        raw = from_base64(signature)
        for index in (said, said + 1, said - 1):
            statement = entry_statement(self.run, self.purpose, self.chain.party, index, line)
            if is_signed(self.public, statement, raw):
                return index
        return None

    def _has_signed_head(self, entries: Sequence[tuple[str, str]]) -> bool:
        """Whether the end fits all entries, which then are all signed with it."""
        in_order = [number for number, _ in entries] == [str(i) for i in range(len(entries))]
        if not in_order or not self.end_is_signed or self.chain.count != len(entries):
            return False
        lines = [line for _, line in entries]
        return head_of(self.run, self.purpose, self.chain.party, lines) == self.chain.head

    def _gap_at(self, place: int, order: Sequence[int], lost: Sequence[int]) -> int | None:
        """Number that is missing where an entry without a readable number stands."""
        before = order[place - 1] if 0 < place <= len(order) else -1
        return before + 1 if before + 1 in lost else None

    def _check_end(self, order: Sequence[int]) -> None:
        chain = self.chain
        if any(one.kind == FOREIGN and one.entry is None for one in self.problems) and not order:
            return
        if not self.end_is_signed:
            text = f"The end of the chain was changed: {chain.party!r} did not sign it."
            self._add(CHANGED, None, text)
        elif order == list(range(chain.count)):
            lines = [self.lines[i] for i in order]
            if head_of(self.run, self.purpose, chain.party, lines) != chain.head:
                self._add(CHANGED, None, "The hash over all entries is not that of the end.")

    def _add(self, kind: str, entry: int | None, text: str) -> None:
        self.problems.append(Problem(kind, self.where, entry, text))


def _split(entry: str) -> tuple[str, str, str]:
    """Number, content and signature of an entry."""
    number, _, rest = entry.partition("|")
    line, _, signature = rest.rpartition("|")
    return number, line, signature


def _compare_rows(rows: Sequence[Disclosure], signed: _Checked) -> Iterable[Problem]:
    """Find rows of the ledger that are not those that were signed."""
    where, order = "ledger", list[int]()
    left = dict(signed.lines)
    strange: list[int] = []
    for place, row in enumerate(rows):
        digest = row_digest(row)
        index = next((i for i, own in left.items() if own == digest), None)
        if index is None:
            strange.append(place)
        else:
            del left[index]
            order.append(index)
    lost = sorted(left)
    for place in strange:
        row = rows[place]
        said = f"{row.learner!r} learns {row.kind!r} of {row.about!r}"
        if lost:
            index = place if place in lost else lost[0]
            lost.remove(index)
            yield Problem(CHANGED, where, index, f"Row {index} was changed to: {said}.")
        else:
            yield Problem(ADDED, where, place, f"Row {place} was added: {said}.")
    for index in lost:
        yield Problem(DROPPED, where, index, f"Row {index} was dropped.")
    for before, after in itertools.pairwise(order):
        if before > after:
            yield Problem(REORDERED, where, after, f"Row {after} was moved behind row {before}.")


def _compare_outcome(
    result: SelectionResult, signed: _Checked | None, rows: _Checked
) -> Iterable[Problem]:
    """Find parts of the result other than its ledger that are not those that were signed."""
    if signed is None:
        text = "The selection, the scores and the settings are not signed."
        yield Problem(MISSING, "result", None, text)
        return
    if signed.chain.party != rows.chain.party:
        text = f"{rows.chain.party!r} signed the ledger, and {signed.chain.party!r} the rest."
        yield Problem(CONTRADICTED, "result", None, text)
    if not signed.entries_fit:
        return
    found = dict(outcome_digests(result))
    for index, line in signed.lines.items():
        name, _, digest = line.partition("|")
        if name not in found:
            yield Problem(DROPPED, "result", index, f"Its {name!r} was dropped.")
        elif found.pop(name) != digest:
            text = f"Its {name!r} was changed after {signed.chain.party!r} signed it."
            yield Problem(CHANGED, "result", index, text)
    # A part that a later version knows, and that is empty, was not there to be signed.
    empty = outcome_digests(SelectionResult(method="", setting="", selected={}))
    for name, digest in found.items():
        if digest != empty.get(name.rpartition(": ")[2]):
            text = f"Its {name!r} was added: {signed.chain.party!r} did not sign it."
            yield Problem(ADDED, "result", None, text)


def _compare_selected(result: SelectionResult, chains: Mapping[str, _Checked]) -> Iterable[Problem]:
    """Find parties that learned of other selected columns than the result has of them."""
    for party, chain in chains.items():
        if party in result.selected and not chain.selected and not chain.end_is_signed:
            text = f"What {party!r} signed of its own selected columns was dropped."
            yield Problem(DROPPED, chain.where, None, text)
        expected = mark_selected(party, result.selected.get(party, ()))
        for index in chain.selected if chain.entries_fit else ():
            if chain.lines[index] != expected:
                text = f"{party!r} signed other selected columns of its own than the result has."
                yield Problem(CONTRADICTED, chain.where, index, text)


def _compare_chains(chains: Mapping[str, _Checked]) -> Iterable[Problem]:
    """Find messages that only one of the two sides signed."""
    for party, chain in chains.items():
        if not chain.entries_fit:
            continue
        peers = {one.receiver for one in chain.messages.values()}
        peers |= {one.sender for one in chain.messages.values()}
        for peer in sorted(peers - {party}):
            other = chains.get(peer)
            if other is None:
                text = f"{party!r} signed messages to or from {peer!r}, whose chain is not there."
                yield Problem(MISSING, _name(MESSAGES, peer), None, text)
            elif other.entries_fit:
                yield from _contradictions(chain, other)


def _contradictions(sender: _Checked, receiver: _Checked) -> Iterable[Problem]:
    """Messages of one party to another that one of them signed and the other did not."""
    a, b = sender.chain.party, receiver.chain.party

    def between(checked: _Checked) -> Counter[str]:
        return Counter(
            checked.lines[i]
            for i, one in checked.messages.items()
            if (one.sender, one.receiver) == (a, b)
        )

    sent, received = between(sender), between(receiver)
    both = ((sender, receiver, sent - received), (receiver, sender, received - sent))
    for owner, other, lines in both:
        for line in lines:
            one, index = MessageLine.from_text(line), owner.index_of(line)
            what = "a message" if one is None else f"{one.message} from {a!r} to {b!r}"
            if not other.end_is_signed:
                text = f"Entry with {what} was dropped; {owner.chain.party!r} has it as {index}."
                yield Problem(DROPPED, other.where, None, text)
            else:
                text = f"Entry {index} ({what}) is not in the chain of {other.chain.party!r}."
                yield Problem(CONTRADICTED, owner.where, index, text)


def _compare_counts(result: SelectionResult, chains: Mapping[str, _Checked]) -> Iterable[Problem]:
    """Compare the ledger and the traffic with the messages that were signed."""
    received = [
        one
        for party, chain in chains.items()
        for one in chain.messages.values()
        if one.receiver == party
    ]
    named = {row.message for row in result.traffic.rows} - {Done.__name__, Fault.__name__}
    # An alignment of rows before the run is in the ledger, and not in the traffic of the run.
    counted = {one.protocol for one in received if one.message in named}
    signed, said = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for one in received:
        if one.kind != NOTHING:
            who = (one.receiver, one.receiver_role, one.kind, one.message)
            signed.update({(*who, "disclosures"): 1, (*who, "bytes disclosed"): one.n_bytes})
        if one.protocol in counted:
            flow = (one.message, one.sender, one.receiver)
            signed.update({(*flow, "messages"): 1, (*flow, "bytes sent"): one.n_bytes})
    for row in result.disclosures:
        learned = (row.learner, row.learner_role, row.kind, row.message)
        said.update(
            {(*learned, "disclosures"): row.times, (*learned, "bytes disclosed"): row.n_bytes}
        )
    for flow_row in result.traffic.rows:
        flow = (flow_row.message, flow_row.sender, flow_row.receiver)
        said.update(
            {(*flow, "messages"): flow_row.messages, (*flow, "bytes sent"): flow_row.n_bytes}
        )
    resumed = any(chain.resumed for chain in chains.values())
    for key in sorted({*signed, *said}):
        if signed[key] != said[key] and not (resumed and signed[key] < said[key]):
            text = (
                f"{' '.join(map(repr, key[:-1]))}: the result counts {said[key]} {key[-1]}, "
                f"the signed messages {signed[key]}."
            )
            yield Problem(CONTRADICTED, "ledger", None, text)
