"""Selected features are left out one by one: who goes, who joins, and that the number is fixed."""

import numpy as np
import pytest

from fedsift.data import split_vertical
from fedsift.errors import ParameterError
from fedsift.methods.fedsdg.blind import messages as wire
from fedsift.methods.fedsdg.blind import settings
from fedsift.methods.fedsdg.blind.label_holder import PROTOCOL
from fedsift.methods.fedsdg.blind.params import BlindParams, check_opened, most_trials
from fedsift.methods.fedsdg.blind.training import BlindTraining
from fedsift.methods.fedsdg.selector import FedSDGSelector
from helpers.blind import params, train
from helpers.fedsdg import moons, parties
from helpers.runs import received


def blind(**given):
    small = {"max_epochs": 40, "outputs": 8, "security": "plain", "random_state": 0, "lam": 0.3}
    return FedSDGSelector(**{**small, **given})


def noisy(n_rows=800, n_features=40, seed=0):
    """Three columns tell the class, the first most; the others nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    score = 2 * X[:, 0] + X[:, 1] + X[:, 2] + rng.normal(size=n_rows)
    return X, (score > 0).astype(int)


@pytest.fixture
def gates_say(monkeypatch):
    """Lets gates select the features that a test names."""
    chosen = BlindTraining._select

    def say(*features):
        def select(self):
            chosen(self)
            self.selected = np.array(features)

        monkeypatch.setattr(BlindTraining, "_select", select)

    return say


def numbers(support):
    return set(np.flatnonzero(support).tolist())


def test_columns_that_do_not_help_go(gates_say):
    gates_say(0, 1, 2, 20, 21, 22)
    X, y = noisy()
    # All columns of one feature holder, so that they are numbered as here.
    selector = blind(init="constant", parties=[list(range(40))])
    kept = numbers(selector.fit(X, y).support_)
    assert kept >= {0, 1, 2}
    assert len(kept) <= 4


def test_the_filter_proposes_what_gates_closed(gates_say):
    gates_say(1, 2)
    X, y = noisy()
    assert 0 in numbers(blind(parties=[list(range(40))]).fit(X, y).support_)
    constant = blind(parties=[list(range(40))], init="constant").fit(X, y)
    assert 0 not in numbers(constant.support_)


def test_an_exact_number_stays_exact_and_gets_better():
    X, y = noisy()
    support = blind(n_features_to_select=3).fit(X, y).support_
    assert support.sum() == 3
    assert support[:3].all()


def test_what_was_not_tried_to_the_end_does_not_count(gates_say, monkeypatch):
    gates_say(30, 31)
    X, y = noisy()
    asked, passes = blind(), BlindTraining._pass
    found = {}

    async def watched(self, net, stopped, *, fixed):
        if self._n_settled == 1:
            found["by gates"], found["candidates"] = self._by_gates, self.selected
            return False
        return await passes(self, net, stopped, fixed=fixed)

    monkeypatch.setattr(BlindTraining, "_pass", watched)
    support = asked.fit(X, y).support_
    assert support.sum() == len(found["by gates"])
    assert len(found["by gates"]) < len(found["candidates"])


def test_as_many_losses_are_opened_whatever_is_selected():
    counts = []
    for price in (0.0, 50.0):
        asked = params(n_openings=2, n_settling=1, trials=5, lam=price, init="gini")
        outcome, made = train(parties(*moons(200, 40), 2), asked)
        told = [received(outcome, p, wire.LossesWanted, protocol=PROTOCOL) for p in made]
        counts.append(sum(map(len, told)))
    assert counts == [asked.n_judgements] * 2
    assert asked.n_judgements == 2 + 2 + 5 * 2


def test_trials_leave_numbers_for_what_else_is_opened():
    asked = BlindParams(n_openings=10, n_settling=4, trials=30, n_blocks=2)
    assert asked.trial_passes == (8, 10, 12)
    assert asked.n_after == 16
    assert most_trials(asked, n_validation=100, n_hidden=10) == (50 - 12) // 3
    with pytest.raises(ParameterError, match="12 trials in a round"):
        check_opened(asked, 1000, 100, 10, 10)
    check_opened(BlindParams(n_openings=10, n_settling=4, trials=12, n_blocks=2), 1000, 100, 10, 10)


@pytest.mark.parametrize(("n_rows", "n_features", "has_some"), [(60, 4, False), (2000, 400, True)])
def test_trials_are_left_out_where_they_would_open_too_much(n_rows, n_features, has_some):
    X, y = noisy(n_rows=n_rows, n_features=n_features)
    federation = split_vertical(X, y, 2, random_state=0, label_holder=None)
    found = settings.blind_params_for(FedSDGSelector(), federation)
    assert (found.trials > 0) == has_some
    assert found.n_blocks >= 1
