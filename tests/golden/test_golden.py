# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Selections, scores, traffic and ledgers of all methods are what they were when they were stored."""

import copy

import pytest

from golden.cases import CASES, SITES
from golden.record import UNITS_OFF, VARYING_SIZES, differences, load, stored_form
from helpers.joint import WITH_KEYS

ALL = [(method, case) for method, cases in CASES.items() for case in cases]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("method", "case"), ALL, ids=["/".join(pair) for pair in ALL])
def test_a_run_is_what_it_was(method, case):
    name = f"{method}/{case}"
    varies = name in VARYING_SIZES or name in UNITS_OFF
    now = stored_form(CASES[method][case]())
    within = 0.03 if varies else 0.0
    found = differences(load(method)[case], now, sizes_within=within, near=UNITS_OFF.get(name))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("method", CASES)
def test_every_stored_run_has_a_case(method):
    assert list(load(method)) == list(CASES[method])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", SITES)
def test_at_sites_it_is_the_same(case):
    stored, now = load("job")[case], stored_form(SITES[case]())
    # Keys that are passed on carry proofs between organisations; nothing else has another size.
    found = differences(stored, now, sizes_within=1.0)
    assert not found, "\n".join(found)
    assert sizes(now) == sizes(stored)


def sizes(run):
    """Bytes of all messages without keys, by type and parties."""
    return {
        (message, pair): row[-1]
        for message, pairs in run["traffic"].items()
        if message not in WITH_KEYS
        for pair, row in pairs.items()
    }


class TestComparing:
    """Every kind of change is seen, and said in a line that names the place."""

    @pytest.fixture
    def stored(self):
        return load("filter")["gini vertical secure"]

    @pytest.fixture
    def now(self, stored):
        return copy.deepcopy(stored)

    def test_nothing_has_changed(self, stored, now):
        assert differences(stored, now) == []

    def test_a_score(self, stored, now):
        was = now["scores"]["bank"]["age"]
        now["scores"]["bank"]["age"] = was * (1 + 1e-12)
        assert differences(stored, now) == []
        now["scores"]["bank"]["age"] = was * (1 + 1e-8)
        assert differences(stored, now) == [
            f"/scores/bank/age: was {was!r}, now {now['scores']['bank']['age']!r}"
        ]

    def test_a_selected_feature(self, stored, now):
        kept = now["selected"]["bank"]
        now["selected"]["bank"] = kept[:-1]
        assert differences(stored, now) == [f"/selected/bank: was {kept}, now {kept[:-1]}"]

    def test_a_byte_and_a_message(self, stored, now):
        messages, ciphertexts, n_bytes = stored["traffic"]["SealedScores"]["shop > bank"]
        for changed, within in (
            ([messages, ciphertexts, n_bytes + 1], 0.0),
            ([messages + 1, ciphertexts, n_bytes], 0.03),
            ([messages, ciphertexts + 1, n_bytes], 0.03),
        ):
            now["traffic"]["SealedScores"]["shop > bank"] = changed
            assert differences(stored, now, sizes_within=within) == [
                "/traffic/SealedScores/shop > bank: was "
                f"{[messages, ciphertexts, n_bytes]}, now {changed}"
            ]

    def test_a_ledger_row(self, stored, now):
        name, rows = next(iter(now["ledger"].items()))
        gone = rows.pop("shop < bank")
        place = f"/ledger/{name}/shop < bank"
        assert name.startswith("0 Introduction: feature holder learns row-count of label holder (")
        assert differences(stored, now) == [f"{place}: missing, was {gone}"]
        assert differences(now, stored) == [f"{place}: new, {gone}"]

    def test_what_a_message_tells(self, stored, now):
        was = next(iter(now["ledger"]))
        rows = now["ledger"].pop(was)
        now["ledger"][was.replace("open numbers", "masked")] = rows
        missing, new = differences(stored, now)
        assert missing.startswith(f"/ledger/{was}: missing")
        assert new.startswith("/ledger/0 Introduction: ")

    def test_the_order_of_messages(self, stored, now):
        now["traffic"] = dict(reversed(now["traffic"].items()))
        (line,) = differences(stored, now)
        assert line.startswith("/traffic: other order")

    def test_a_round_of_a_step_of_a_chain(self):
        stored = load("chain")["vertical plain"]
        now = copy.deepcopy(stored)
        now["steps"][1]["total"]["rounds"] += 1
        (line,) = differences(stored, now)
        assert line.startswith("/steps/1/total/rounds: was ")

    def test_numbers_of_a_method_with_noise(self):
        stored = load("interaction")["secure"]
        now = copy.deepcopy(stored)
        now["scores"]["bank"]["age"] += 1e-5
        assert differences(stored, now) == []
        now["ranking"]["bank"]["age"] += 1
        assert len(differences(stored, now)) == 1
