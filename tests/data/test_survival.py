"""Survival times as labels: residuals, concordance, and what is refused."""

import msgspec
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedsift as fs
from fedsift.data import Target
from fedsift.data.part import read_part
from fedsift.data.survival import concordance_index, martingale_residuals
from fedsift.errors import DataError, FedsiftError, PolicyViolation, ValueProblem
from fedsift.jobs.run import LocalParty
from fedsift.lab.compare import compare
from fedsift.protocol import Policy
from fedsift.report import html, text
from helpers import joint


def followed(n_rows=200, n_columns=6, seed=0, ties=False):
    """Columns, events and times; the first column shortens the times."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    came, left = rng.exponential(np.exp(-0.7 * X[:, 0])), rng.exponential(1.5, n_rows)
    time = np.minimum(came, left)
    time = np.ceil(4 * time) if ties else time
    return X, (came <= left).astype(float), time


def structured(event, time):
    made = np.empty(len(event), dtype=[("dead", bool), ("weeks", float)])
    made["dead"], made["weeks"] = event, time
    return made


def cox_scores(X, event, time):
    """Score and information of Cox's partial likelihood at zero, risk set by risk set (Breslow)."""
    score, information = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for row in np.flatnonzero(event):
        at_risk = X[time >= time[row]]
        score += X[row] - at_risk.mean(axis=0)
        information += at_risk.var(axis=0)
    return score, information


@pytest.mark.parametrize("ties", [False, True])
def test_columns_times_residuals_are_the_score_of_coxs_model(ties):
    X, event, time = followed(ties=ties)

    residuals = martingale_residuals(event, time)

    np.testing.assert_allclose(X.T @ residuals, cox_scores(X, event, time)[0], atol=1e-9)
    assert residuals.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
@pytest.mark.parametrize("ties", [False, True])
def test_p_values_are_those_of_the_score_test_with_shuffled_rows(ties, setting):
    """Encrypted, against scores of risk sets; with strata where parties have different rows."""
    X, event, time = followed(n_rows=160, ties=ties)
    y = structured(event, time)
    strata = [np.arange(160)]
    if setting == "horizontal":
        federation = fs.split_horizontal(X, y, 2, random_state=0)
        strata = list(federation.row_order.values())
    else:
        federation = fs.split_vertical(X, y, 3, random_state=0)
    selector = fs.FilterSelector("f", n_features_to_select=2).fit(federation)

    score = sum(cox_scores(X[rows], event[rows], time[rows])[0] for rows in strata)
    residuals = np.concatenate([martingale_residuals(event[r], time[r]) for r in strata])
    spread = 160 * X.var(axis=0) * (residuals**2).sum()
    share = score**2 / spread
    expected = stats.f.sf(share / (1 - share) * 158, 1, 158)
    np.testing.assert_allclose(selector.p_values_, expected, rtol=1e-6)
    assert selector.support_[0]


@pytest.mark.parametrize("ties", [False, True])
def test_the_variance_of_shuffles_is_near_that_of_coxs_model(ties):
    """With many ties Breslow's information overstates the variance, and its p-values are larger.

    Not so that of the counts of events among the rows at risk, which allows for ties.
    """
    X, event, time = followed(n_rows=600, n_columns=40, ties=ties)
    X[:, 0] = X[::-1, 0]
    score, information = cox_scores(X, event, time)
    of_cox = stats.chi2.sf(score**2 / information, 1)

    found = fs.FilterSelector("f", n_features_to_select=2, security="plain")
    found.fit(X, structured(event, time))

    exact = stats.chi2.sf(score**2 / information_with_ties(X, event, time), 1)

    np.testing.assert_allclose(found.p_values_, exact, atol=0.025)
    np.testing.assert_allclose(found.p_values_, of_cox, atol=0.08 if ties else 0.025)
    assert not ties or (found.p_values_ < of_cox).all()
    assert stats.spearmanr(found.p_values_, of_cox)[0] > 0.99


def information_with_ties(X, event, time):
    """As in the log-rank test: events that come together are drawn from the rows at risk."""
    information = np.zeros(X.shape[1])
    for moment in np.unique(time[event == 1]):
        at_risk, n_events = X[time >= moment], int(event[time == moment].sum())
        n_rows = len(at_risk)
        free = (n_rows - n_events) / max(1, n_rows - 1)
        information += n_events * free * at_risk.var(axis=0)
    return information


def rejected(followed_shortly=None, ties=False, n_tables=400, n_columns=1, n_rows=120):
    """Share of p-values of 0.05 and less of `f`, and of Cox's score test, where nothing is told.

    How long a row is followed may depend on its first column.
    """
    rng, small = np.random.default_rng(0), []
    for _ in range(n_tables):
        X = rng.normal(size=(n_rows, n_columns))
        shortly = np.zeros(n_rows) if followed_shortly is None else followed_shortly(X[:, 0])
        came, left = rng.exponential(size=n_rows), rng.exponential(np.where(shortly, 0.2, 3.0))
        event, time = (came <= left).astype(float), np.minimum(came, left)
        time = np.ceil(4 * time) if ties else time
        score, information = cox_scores(X, event, time)
        residuals = martingale_residuals(event, time)
        share = score**2 / (n_rows * X.var(axis=0) * (residuals**2).sum())
        of_f = stats.f.sf(share / (1 - share) * (n_rows - 2), 1, n_rows - 2)
        small.append([of_f <= 0.05, stats.chi2.sf(score**2 / information, 1) <= 0.05])
    return np.mean(small, axis=(0, 2))


def test_p_values_hold_where_follow_up_does_not_depend_on_the_column():
    """Two standard errors of 4,000 columns are 0.007."""
    many = {"n_tables": 40, "n_columns": 100, "n_rows": 250}
    of_f, of_cox = rejected(**many)
    tied_f, tied_cox = rejected(ties=True, **many)

    assert [of_f, of_cox, tied_f] == pytest.approx([0.05] * 3, abs=0.007)
    assert tied_cox < 0.035  # Breslow's way is conservative


def test_p_values_do_not_hold_where_follow_up_depends_on_the_column():
    """Shuffling moves the larger residuals of rows that are followed for long to other values."""
    far, of_cox = rejected(lambda x: np.abs(x) > 1)
    near, of_cox_too = rejected(lambda x: np.abs(x) < 1)

    assert far < 0.025  # conservative
    assert near > 0.1  # liberal
    assert [of_cox, of_cox_too] == pytest.approx([0.05, 0.05], abs=0.022)


def by_hand(event, time, risk):
    """Every pair of rows."""
    right, pairs = 0.0, 0
    for i in range(len(event)):
        for j in range(len(event)):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                pairs += 1
                right += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    return right / pairs


@pytest.mark.parametrize("seed", range(6))
def test_the_concordance_index_is_that_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    X, event, time = followed(60, seed=seed, ties=seed % 2 == 1)
    risk = np.round(X[:, 0] + rng.normal(size=60), seed % 3)

    assert concordance_index(event, time, risk) == pytest.approx(by_hand(event, time, risk))


def test_without_a_pair_there_is_no_concordance():
    assert np.isnan(concordance_index([0, 0], [1.0, 2.0], [1.0, 2.0]))


FORMS = {
    "structured": structured,
    "frame": lambda event, time: pd.DataFrame({"time": time, "event": event}),
    "dictionary": lambda event, time: {"event": list(event), "time": list(time)},
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_come_in_two_parts(form):
    X, event, time = followed()
    y = FORMS[form](event, time)

    target = Target.from_values(y)

    np.testing.assert_array_equal(target.values, martingale_residuals(event, time))
    np.testing.assert_array_equal(target.event, event)
    np.testing.assert_array_equal(target.time, time)
    assert repr(target) == "Target(survival, 200 rows)"
    part = target.take(np.arange(50))
    np.testing.assert_array_equal(part.values, martingale_residuals(event[:50], time[:50]))
    settings = {"n_features_to_select": 1, "random_state": 0, "security": "plain"}
    assert fs.FilterSelector("f", **settings).fit(X, y).support_[0]


def frame(n_rows=120):
    X, event, time = followed(n_rows)
    table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return table.assign(days=time, died=event)


LABEL = {"time": "days", "event": "died"}


def test_parties_name_two_columns():
    table = frame()
    parties = {"bank": table[["x0", "days", "died"]], "shop": table[["x1", "x2"]]}
    vertical = fs.Federation.vertical(parties, label=("bank", LABEL))
    horizontal = fs.Federation.horizontal({"a": table[:60], "b": table[60:]}, LABEL)

    assert vertical.tables["bank"].feature_names == ("x0",)
    assert vertical.target.has_times
    assert horizontal.tables["b"].feature_names[0] == "x0"
    assert horizontal.n_features == 6
    for party, rows in (("a", slice(60)), ("b", slice(60, None))):
        own = table[rows]
        expected = martingale_residuals(own["died"], own["days"])
        np.testing.assert_array_equal(horizontal.targets[party].values, expected)


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("died", 2.0, "other than 0 and 1"),
        ("died", np.nan, "missing in 1 of 120"),
        ("days", np.nan, "missing in 1 of 120"),
        ("days", -3.0, "negative or infinite time in 1"),
        ("days", np.inf, "negative or infinite time in 1"),
    ],
)
def test_what_cannot_be_is_refused(column, value, match):
    table = frame()
    table.loc[7, column] = value
    given = {"bank": table[["x0", "days", "died"]], "shop": table[["x1"]]}

    with pytest.raises(ValueProblem, match=match) as caught:
        fs.Federation.vertical(given, label=("bank", LABEL))
    assert f" {value} " not in caught.value.found
    with pytest.raises(ValueProblem, match=match):
        fs.Federation.horizontal({"a": table[:60], "b": table[60:]}, LABEL)


def test_other_labels_are_refused():
    X, event, time = followed(40)
    y = structured(event, time)
    three = np.zeros(40, dtype=[("a", float), ("b", float), ("c", float)])
    texts = pd.DataFrame({"time": time, "event": ["yes"] * 40})
    for labels, settings, match in [
        (three, {}, "3 fields"),
        (texts, {}, "not numeric"),
        (structured(0 * event, time), {}, "no event"),
        (y, {"task": "classification"}, "events and times"),
        (time, {"task": "survival"}, "no times"),
        ({"event": [1], "time": [1.0, 2.0]}, {}, "1 events and 2 times"),
    ]:
        with pytest.raises(ValueProblem, match=match):
            Target.from_values(labels, **settings)
    with pytest.raises(FedsiftError, match="names 2 columns"):
        fs.Federation.vertical({"a": {"x": [1, 2]}}, label=("a", {"time": "x", "dead": "x"}))
    with pytest.raises(DataError, match="no column 'weeks'"):
        fs.Federation.horizontal({"a": frame()}, LABEL | {"time": "weeks"})
    with pytest.raises(FedsiftError, match="others do not"):
        fs.Federation.horizontal({"a": (X, y), "b": (X, time)})


def test_residuals_that_mark_a_row_are_refused():
    """One row was followed long, alone; its expected events are many, and its residual is large."""
    X, event, time = followed(40)
    event[:] = 0
    event[3] = 1

    with pytest.raises(PolicyViolation, match="variance of the label"):
        fs.FilterSelector("f", n_features_to_select=1).fit(X, structured(event, time))


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
def test_comparisons_show_the_concordance_index(setting):
    X, event, time = followed(160)
    split = {"vertical": fs.split_vertical, "horizontal": fs.split_horizontal}[setting]
    federation = split(X, structured(event, time), 2, random_state=0)

    methods = {"f": fs.FilterSelector("f", n_features_to_select=2)}
    found = compare(federation, methods, folds=2, models=["ridge"], permutations=2).data[0]

    assert found.metric == "concordance"
    assert 0.6 < found.row("f").scores["ridge"]["concordance"].value < 0.9
    assert found.guessing == {"concordance": 0.5}
    assert found.row("f").leak["ridge"].passed


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
def test_reports_say_that_labels_are_times_and_where_the_concordance_index_is(setting):
    X, event, time = followed(120)
    split = {"vertical": fs.split_vertical, "horizontal": fs.split_horizontal}[setting]
    selector = fs.FilterSelector("f", n_features_to_select=2)

    of_times = selector.fit(split(X, structured(event, time), 2, random_state=0)).result_
    of_classes = selector.fit(split(X, event.astype(int), 2, random_state=0)).result_

    for report in (text, html):
        assert "fedsift compare" in report.render(of_times)
        assert "martingale residuals" in report.render(of_times)
        assert "martingale residuals" not in report.render(of_classes)
    assert "labels" not in of_classes.shape


@pytest.mark.parametrize("score", ["gini", "mi", "chi2", "iv"])
def test_scores_of_classes_take_quartiles_of_residuals(score):
    X, event, time = followed(200)
    settings = {"n_features_to_select": 1, "random_state": 0, "security": "plain"}

    assert fs.FilterSelector(score, **settings).fit(X, structured(event, time)).support_[0]


def test_other_methods_take_them_too():
    X, event, time = followed(200, 4)
    y = structured(event, time)
    plain = {"random_state": 0, "security": "plain"}

    for selector in (
        fs.InteractionSelector(n_features_to_select=2, **plain),
        fs.FedSDGSelector(n_features_to_select=2, max_epochs=6, min_epochs=1, **plain),
    ):
        assert selector.fit(X, y).support_[0]
    worth = fs.VFPSSelector(n_participants=1, parties=3, **plain).fit(X, y).result_.participants
    assert len(worth) > 0


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
def test_sites_select_what_one_process_does(setting):
    table = frame(240)
    if setting == "vertical":
        sources = {"bank": table[["x0", "x1", "days", "died"]], "shop": table[["x2", "x3"]]}
        federation = fs.Federation.vertical(sources, label=("bank", LABEL))
        job = joint.vertical("filter", sources, ids=False, score="f", n_features_to_select="fdr")
    else:
        sources = {"north": table[:80], "south": table[80:160], "west": table[160:]}
        federation = fs.Federation.horizontal(sources, LABEL)
        job = joint.horizontal("filter", score="f", n_features_to_select="fdr")
    job = msgspec.structs.replace(job, task="survival")
    numbers = Policy(may_reveal=("basic", "feature-count", "numeric-scores"))
    homes = {
        party: LocalParty.of(
            read_part(party, rows, label=LABEL if "days" in rows else None),
            numbers if setting == "vertical" and party == "shop" else None,
        )
        for party, rows in sources.items()
    }

    coordinator, ended = joint.at_sites(job, homes)

    assert ended[coordinator].error is None, ended[coordinator].error
    result = ended[coordinator].value
    here = fs.FilterSelector("f", n_features_to_select="fdr").fit(federation).result_
    assert result.selected == here.selected
    assert any(result.selected.values())
    assert result.shape == here.shape
    for party, own in result.p_values.items():
        for name, value in own.items():
            assert value == pytest.approx(here.p_values[party][name])
