"""Filters with differential privacy: exact without noise, honest about what they spent."""

import asyncio

import numpy as np
import pytest

import fedsift as fs
from fedsift.data import PartyTable, Target
from fedsift.errors import ParameterError, PolicyViolation
from fedsift.methods.filter.horizontal_messages import CountsBelow, MomentsWanted
from fedsift.methods.filter.label_holder import FeatureHolder
from fedsift.methods.filter.messages import ScoresWanted
from fedsift.methods.filter.ranking import Params, plain_scores
from fedsift.result import SelectionResult
from helpers.horizontal import first_ask, ready_member

EDGES = [-1.0, -0.5, 0.0, 0.5, 1.0]
NEARLY_NONE = 999_999.0
"""Noise of scale far below one: no draw is ever different from zero."""


def made_up(n_rows=240, n_columns=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 1] += y
    X[:, 4] -= 0.7 * y
    return X, y


def vertical():
    return fs.split_vertical(*made_up(), 3, random_state=0)


def horizontal():
    return fs.split_horizontal(*made_up(), 3, random_state=0)


def selector(epsilon, score="mi", **settings):
    return fs.FilterSelector(
        score, n_features_to_select=2, bins=EDGES, epsilon=epsilon, random_state=0, **settings
    )


@pytest.mark.parametrize(
    ("federation", "settings"),
    [
        (vertical, {}),
        (vertical, {"he": "paillier"}),
        (vertical, {"security": "plain"}),
        (horizontal, {}),
        (horizontal, {"security": "plain"}),
    ],
)
def test_without_noise_scores_are_exact(federation, settings):
    X, y = made_up()
    score = "gini" if settings.get("he") else "mi"
    params = Params(score, bins=EDGES, epsilon=1.0)
    exact = plain_scores(PartyTable.from_any(X, name="all"), Target.from_values(y), params)

    found = selector(NEARLY_NONE, score, **settings).fit(federation())

    np.testing.assert_allclose(found.scores_, exact, rtol=1e-9)
    assert found.get_support(indices=True).tolist() == [1, 4]


def test_noise_blurs_scores_and_is_new_in_every_run():
    one, two = (selector(0.5, security="plain").fit(vertical()).scores_ for _ in range(2))
    assert np.abs(one - two).max() > 0.001


@pytest.mark.usefixtures("repeatable")
def test_encrypted_scores_are_those_of_the_same_noise_without_encryption():
    exact = selector(NEARLY_NONE, security="plain").fit(vertical()).scores_
    noisy = selector(0.5, security="plain").fit(vertical())
    again = selector(0.5).fit(vertical())

    assert np.abs(noisy.scores_ - exact).max() > 0.01
    np.testing.assert_array_equal(noisy.scores_, again.scores_)  # encrypted or not


@pytest.mark.parametrize("federation", [vertical, horizontal])
def test_the_budget_is_in_result_and_ledger(federation, tmp_path):
    result = selector(0.8, delta=1e-6).fit(federation()).result_
    privacy = result.parameters["privacy"]

    assert (privacy["epsilon"], privacy["delta"]) == (0.8, 1e-6)
    told = {"party-2", "party-3"} | ({"party-1"} if result.setting == "horizontal" else set())
    assert set(privacy["spent"]) == told
    label = "and the label " if federation is horizontal else ""
    assert privacy["neighbours"] == f"tables that differ in the values {label}of one row"
    assert all(0 < spent <= 0.8 for spent in privacy["spent"].values())
    priced = [row for row in result.disclosures if "spent epsilon 0.8, delta 1e-06" in row.what]
    assert {row.about for row in priced} == told
    # Nobody saw a count without noise.
    kinds = {row.kind for row in result.disclosures}
    assert not kinds & {"bin-counts", "class-sums", "feature-scores"}
    assert SelectionResult.load(result.save(tmp_path / "result.json")) == result


def test_a_plan_names_noisy_counts():
    plan = selector(1.0).plan(vertical())

    assert "noisy-counts" in {row.kind for row in plan.disclosures}
    assert "bin-counts" not in {row.kind for row in plan.disclosures}
    assert any("epsilon 1" in note for note in plan.notes)


@pytest.mark.parametrize("epsilon", [None, 2.0])
@pytest.mark.parametrize("federation", [vertical, horizontal])
def test_a_party_refuses_too_little_noise(federation, epsilon):
    policy = {"party-2": {"max_epsilon": 1.0, "min_security_bits": 0, "min_bin_size": 1}}

    # Exact counts have to be named, too.
    refused = "epsilon of at most 1" if epsilon else "epsilon of at most 1|'bin-counts'"
    with pytest.raises(PolicyViolation, match=refused):
        selector(epsilon, policy=policy).fit(federation())
    assert selector(1.0, policy=policy).fit(federation()).get_support().sum() == 2


def test_noise_never_follows_a_seed():
    federation = vertical()
    chosen = selector(1.0)

    for simulated in (True, False):
        params = chosen._prepare(federation, None, simulated=simulated).params
        assert params.noise_seed is None
        assert params.noise_source("party-2") is None


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"release_epsilon": 1.0}])
def test_nobody_gets_exact_numbers_by_asking_for_them(budget):
    X, y = made_up()
    table, target = PartyTable.from_any(X, name="own"), Target.from_values(y)
    params = Params("mi", bins=EDGES, **budget)
    holder = FeatureHolder(table, params)
    with pytest.raises(ParameterError, match="asks for variances"):
        asyncio.run(holder.open_scores(ScoresWanted(), None))
    member = ready_member(table, target, params)
    with pytest.raises(ParameterError, match="asks for CountsBelow"):
        asyncio.run(member.counts_below(first_ask(CountsBelow, member), None))
    with pytest.raises(ParameterError, match="asks for MomentsWanted"):
        asyncio.run(member.moments(first_ask(MomentsWanted, member), None))


def test_counts_are_told_once():
    table = PartyTable.from_any(made_up()[0], name="own")
    holder = FeatureHolder(table, Params("mi", bins=EDGES, epsilon=1.0))
    rows, _ = holder._shuffled_bins()
    holder._noise(rows, 3)

    with pytest.raises(PolicyViolation, match="would spend more"):
        holder._noise(rows, 3)
    assert holder.budget.total == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"score": "f"}, "sum of values"),
        ({"score": "variance"}, "sum of values"),
        ({"bins": 10}, "depend on every row"),
        ({"disclose": "scores", "score": "gini"}, "noisy counts"),
        ({"checkpoint": "somewhere"}, "spend the budget again"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"delta": 2}, "delta=2"),
    ],
)
def test_settings_that_do_not_protect_are_refused(settings, words):
    chosen = selector(1.0).set_params(**settings)

    with pytest.raises(ParameterError, match=words):
        chosen.fit(vertical())


def test_a_numeric_label_is_refused():
    X, _ = made_up()
    federation = fs.split_vertical(X, X[:, 0] * 1.5, 2, random_state=0)

    with pytest.raises(ParameterError, match="The label is a number"):
        selector(1.0).fit(federation)


def test_categories_and_missing_values_have_bins_of_their_own():
    import pandas as pd

    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 200)
    frame = pd.DataFrame({"number": rng.normal(size=200), "kind": rng.choice(["a", "b"], 200)})
    frame["number"] += 2 * y
    frame.loc[:20, "number"] = np.nan
    federation = fs.split_horizontal(frame, y, 2, random_state=0)

    found = fs.FilterSelector(
        "iv", n_features_to_select=1, bins=EDGES, epsilon=NEARLY_NONE, random_state=0
    ).fit(federation)

    assert found.get_support().tolist() == [True, False]
