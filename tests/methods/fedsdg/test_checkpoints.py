"""Which epoch to go back to: what is remembered is enough to make the right choice."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.methods.fedsdg.checkpoints import Checkpoints, Epoch


def chosen_with_everything(epochs, first, least_open):
    """The rule, with all epochs at hand."""
    eligible = [e for e in epochs if e.number >= first and e.n_open >= least_open]
    if not eligible:
        return None
    top = max(e.score for e in eligible)
    best = min((e for e in eligible if e.score == top), key=lambda e: e.n_open)
    near = [e for e in eligible if e.score >= best.score - best.standard_error]
    fewest = min(e.n_open for e in near)
    return fewest, max(e.score for e in near if e.n_open == fewest)


def epochs_of(pairs, error=0.02):
    return [Epoch(i, n_open, score / 100, error) for i, (n_open, score) in enumerate(pairs)]


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(50, 99)), min_size=1, max_size=40)


@given(PAIRS, st.integers(0, 5), st.integers(1, 3))
def test_the_choice_is_that_of_somebody_who_forgot_nothing(pairs, first, least_open):
    points = Checkpoints(first, least_open)
    epochs = epochs_of(pairs)
    for epoch in epochs:
        points.add(epoch)
    expected = chosen_with_everything(epochs, first, least_open)
    choice = points.choice()
    if expected is not None:
        assert (choice.n_open, choice.score) == expected
    assert choice.number in points.kept_numbers


@given(PAIRS)
def test_what_is_chosen_later_was_kept_all_the_time(pairs):
    points, kept = Checkpoints(), {}
    for epoch in epochs_of([(n + 1, s) for n, s in pairs]):
        if points.add(epoch):
            kept[epoch.number] = epoch
        kept = {number: e for number, e in kept.items() if number in points.kept_numbers}
        assert points.choice().number in kept


@given(PAIRS, st.integers(0, 30))
def test_a_stored_state_goes_on_the_same(pairs, cut):
    epochs = epochs_of(pairs)
    straight, broken = Checkpoints(3), Checkpoints(3)
    for epoch in epochs:
        straight.add(epoch)
    for epoch in epochs[:cut]:
        broken.add(epoch)
    broken = Checkpoints.from_plain(broken.to_plain())
    for epoch in epochs[cut:]:
        broken.add(epoch)
    assert broken == straight


def test_no_eligible_epoch_falls_back_to_the_best_place():
    points = Checkpoints(first=10, least_open=4)
    for number, n_open in enumerate([9, 5, 2, 0]):
        points.add(Epoch(number, n_open, 0.5, 0.1))
    assert points.choice().number == 1  # the latest with enough open gates
    starved = Checkpoints(least_open=4)
    for number, n_open in enumerate([1, 3, 2, 0]):
        starved.add(Epoch(number, n_open, 0.5, 0.1))
    assert starved.choice().n_open == 3
    assert starved.kept_numbers == (1,)


def test_an_eligible_epoch_ends_the_fallback():
    points = Checkpoints(first=2)
    for number in itertools.count():
        points.add(Epoch(number, 5, 0.5, 0.1))
        if number == 2:
            break
    assert points.choice().number == 2
    assert points.kept_numbers == (2,)


def test_last_change_counts_improvements_only():
    points = Checkpoints()
    points.add(Epoch(0, 5, 0.8, 0.01))
    assert points.last_change == 0
    assert not points.add(Epoch(1, 5, 0.8, 0.01))
    assert not points.add(Epoch(2, 6, 0.7, 0.01))
    assert points.last_change == 0
    assert points.add(Epoch(3, 4, 0.1, 0.01))
    assert points.last_change == 3


@pytest.mark.parametrize(("error", "expected"), [(0.0, 50), (0.011, 9), (0.2, 9)])
def test_one_standard_error_buys_fewer_features(error, expected):
    points = Checkpoints()
    points.add(Epoch(0, 50, 0.80, error))
    points.add(Epoch(1, 9, 0.79, error))
    assert points.choice().n_open == expected
