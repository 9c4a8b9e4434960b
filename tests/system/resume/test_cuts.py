"""A run that is cut off anywhere and resumed ends like one that was never disturbed."""

import os
import signal
import time

import numpy as np
import pytest

from fedsift.errors import PartyFailed
from fedsift.methods.registry import method_named
from fedsift.protocol import Policy
from helpers.resume import (
    CASES,
    Cut,
    assert_same,
    cut_run,
    failing_party,
    n_messages,
    undisturbed,
    watched,
)
from helpers.vfps import PAIRING

pytestmark = pytest.mark.xdist_group("resume")  # undisturbed runs are kept for all tests

ALLOWING = {
    name: Policy(
        may_reveal=tuple(declaration.kind for _, declaration in method_named(name).declarations()),
        min_security_bits=0,
    )
    for name in ("dcfs", "fpso")
}
"""Lets a run be as its settings want it, the paper's included."""


def cuts(total):
    """The first and the last message, and some in between."""
    return sorted({1, *np.linspace(2, total - 1, 4).astype(int).tolist(), total})


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_is_the_undisturbed_one(name, tmp_path):
    case, whole = CASES[name], undisturbed(name)
    total = n_messages(name)
    n_sent = []
    for at in cuts(total):
        place = tmp_path / str(at)
        cut_run(case.make(place), case.federation(), at)
        resumed = watched(case.make(place), case.federation())
        assert_same(resumed.selector, whole.selector, exact=case.exact)
        assert not list(place.iterdir())  # a finished run leaves nothing behind
        n_sent.append(resumed.count(case.expensive))
    # The later the cut, the less is left to do; at the end nothing.
    assert n_sent == sorted(n_sent, reverse=True)
    assert n_sent[0] == whole.count(case.expensive)
    assert n_sent[-1] == 0


@pytest.mark.parametrize("name", sorted(set(CASES) - {"vfps-greedy"}))
def test_encrypted_runs_resume_as_well(name, tmp_path):
    case, whole = CASES[name], undisturbed(name)
    total = n_messages(name)
    place = tmp_path / "run"
    before = cut_run(case.make(place, security="secure"), case.federation(), 3 * total // 4)
    resumed = watched(case.make(place, security="secure"), case.federation())
    ours, theirs = resumed.selector.result_, whole.selector.result_
    assert ours.selected == theirs.selected
    assert ours.ranking == theirs.ranking
    assert resumed.count(case.expensive) < whole.count(case.expensive)
    assert {"plain"} & {row.form.lower().split()[0] for row in ours.disclosures} == set()
    # What was sent before the cut is told as well, up to the last checkpoint.
    assert len(resumed.messages) < ours.traffic.messages <= len(resumed.messages) + len(before)


@pytest.mark.parametrize("name", CASES)
def test_a_failing_party_is_named_and_the_run_can_be_resumed(name, tmp_path, monkeypatch):
    case, whole = CASES[name], undisturbed(name)
    party = list(case.federation().tables)[-1]
    last = [m for m in whole.messages if m in ("Selected", "Chosen", "GlobalSubset", "Choice")]
    message = (last or ["ReturnTo"])[-1]
    with monkeypatch.context() as patched:
        failing_party(patched, party, message)
        with pytest.raises(PartyFailed) as failed:
            case.make(tmp_path).fit(case.federation())
    assert failed.value.exit_code == 3
    assert (failed.value.party, failed.value.message) == (party, message)
    assert failed.value.round_number > 1
    resumed = watched(case.make(tmp_path), case.federation())
    assert_same(resumed.selector, whole.selector, exact=case.exact)
    assert resumed.count(case.expensive) < whole.count(case.expensive)


@pytest.mark.parametrize("name", ["dcfs", "fpso", "vfps"])
def test_several_interruptions_do_no_more_harm_than_one(name, tmp_path):
    case, whole = CASES[name], undisturbed(name)
    total = n_messages(name)
    place = tmp_path / "run"
    for share in (0.3, 0.4, 0.5):
        cut_run(case.make(place), case.federation(), int(share * total))
    resumed = watched(case.make(place), case.federation())
    assert_same(resumed.selector, whole.selector, exact=case.exact)
    assert resumed.count(case.expensive) < whole.count(case.expensive)


@pytest.mark.parametrize("name", ["filter-horizontal", "interaction", "fpso"])
def test_ctrl_c_leaves_a_run_that_can_be_resumed(name, tmp_path):
    case, whole = CASES[name], undisturbed(name)
    total, place, seen = n_messages(name), tmp_path / "run", []

    def stop(step):
        seen.append(step)
        if len(seen) == total // 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(3)  # long enough for the main thread to notice and to go
            raise Cut

    with pytest.raises(KeyboardInterrupt):
        case.make(place).run(case.federation(), observer=stop)
    resumed = watched(case.make(place), case.federation())
    assert_same(resumed.selector, whole.selector, exact=case.exact)
    assert resumed.count(case.expensive) < whole.count(case.expensive)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("filter", {"score": "mi"}),
        ("filter", {"score": "variance"}),
        ("filter", {"n_permutations": 2}),
        ("filter-horizontal", {"score": "f"}),
        ("interaction", {"n_features_to_select": "auto"}),
        ("interaction", {"n_features_to_select": "auto", "pair_start": "auto"}),
        ("vfps", {"design": "shared", "policy": PAIRING}),
        ("vfps", {"strategy": "shapley", "batching": False, "policy": PAIRING}),
        ("dcfs", {"alignment": "open", "target": "paper"}),
        ("dcfs", {"alignment": "local"}),
        ("dcfs", {"scale": "pooled", "policy": ALLOWING["dcfs"]}),
        ("fpso", {"mode": "federated-fitness"}),
        (
            "fpso",
            {"n_rounds": 1, "aggregation": "third-party", "policy": ALLOWING["fpso"]},
        ),
        ("fedsdg", {"refit": True, "n_features_to_select": 3, "max_epochs": 2}),
    ],
)
def test_other_ways_of_a_method_resume_too(name, settings, tmp_path):
    case, whole = CASES[name], undisturbed(name, **settings)
    total = n_messages(name, **settings)
    for at in (total // 2, total - 2):
        place = tmp_path / str(at)
        cut_run(case.make(place, **settings), case.federation(), at)
        resumed = watched(case.make(place, **settings), case.federation())
        assert_same(resumed.selector, whole.selector, exact=case.exact)


def test_who_has_answered_a_filter_is_not_asked_again(tmp_path, monkeypatch):
    """One of three parties fails; the others' answers are waited for and kept."""
    case, whole = CASES["filter"], undisturbed("filter")
    federation = case.federation()
    first, *others = federation.tables
    with monkeypatch.context() as patched:
        failing_party(patched, first, "EncryptedLabels")
        with pytest.raises(PartyFailed, match=first):
            case.make(tmp_path).fit(federation)
    asked = []

    def watch(step):
        if step.message == "EncryptedLabels":
            asked.append(step.receiver)

    resumed = case.make(tmp_path).run(federation, observer=watch)
    assert asked == [first]
    assert len(others) == 2
    assert_same(resumed, whole.selector)


def test_secret_orders_without_a_seed_outlive_an_interruption(tmp_path):
    """Scores come by secret numbers; a new order would give them to other features."""
    case = CASES["filter"]
    total = n_messages("filter")
    expected = undisturbed("filter").selector.result_
    for at in (total // 2, total - 4):
        place = tmp_path / str(at)
        cut_run(case.make(place, random_state=None), case.federation(), at)
        result = case.make(place, random_state=None).fit(case.federation()).result_
        assert result.scores == expected.scores
        assert result.selected == expected.selected
