"""A score of a made-up number tells as many rows as it has digits, and has to be allowed by name."""

import numpy as np
import pytest

import fedsift as fs
from fedsift.errors import PolicyViolation
from fedsift.lab.attacks.attack import DEFAULT, UNPROTECTED
from fedsift.lab.attacks.label_digits import N_ROWS, N_TOLD, made_label, read_rows
from fedsift.lab.attacks.suite import attack_named

NAMED = fs.Policy(may_reveal=("basic", "feature-count", "numeric-scores"))


def column_of(seed):
    return (np.random.default_rng(seed).random(N_ROWS) < 0.4).astype(float)


def federation(column, label, task="regression"):
    return fs.split_vertical(
        column[:, None], label, 1, label_holder=None, names=["shop"], task=task
    )


@pytest.mark.parametrize("seed", range(3))
def test_one_score_of_a_made_up_number_tells_20_values_of_a_column_of_zeros_and_ones(seed):
    column, label = column_of(seed), made_label()
    assert (N_ROWS, N_TOLD) == (60, 20)
    selector = fs.FilterSelector("f", n_features_to_select=1, policy={"shop": NAMED})
    selector.fit(federation(column, label))
    found = read_rows(selector.scores_[0], label, int(column.sum()))
    assert found.tolist() == column[:N_TOLD].tolist()


@pytest.mark.parametrize("score", ["f", "gini", "chi2"])
@pytest.mark.parametrize("disclose", ["auto", "scores"])
def test_a_policy_that_does_not_name_scores_of_numbers_refuses_them(score, disclose):
    column = np.random.default_rng(0).normal(size=N_ROWS)
    label = np.random.default_rng(1).normal(size=N_ROWS)
    selector = fs.FilterSelector(score, n_features_to_select=1, disclose=disclose)
    every_score = fs.Policy(may_reveal=("basic", "feature-count", "feature-scores", "class-sums"))
    for policy in (fs.Policy(), every_score):
        sent = []
        selector.set_params(policy={"shop": policy})
        with pytest.raises(PolicyViolation, match=r"'numeric-scores'.*may_reveal") as refused:
            selector.run(federation(column, label), observer=sent.append)
        assert refused.value.code == "E501"
        assert not sent
    for policy in ({"shop": NAMED}, fs.Policy(may_reveal=("basic", "scores")), None):
        told = selector.set_params(policy=policy).fit(federation(column, label)).result_.disclosures
        assert "numeric-scores" in {row.kind for row in told}
        assert "feature-scores" not in {row.kind for row in told}


def test_sums_of_products_with_numbers_need_the_same_permission():
    column, label = column_of(0), made_label()
    selector = fs.FilterSelector("f", n_features_to_select=1, disclose="counts")
    selector.set_params(policy={"shop": fs.Policy(may_reveal=("basic", "counts"))})
    with pytest.raises(PolicyViolation, match="'numeric-scores' for NumericSums"):
        selector.fit(federation(column, label))
    selector.set_params(policy={"shop": NAMED})
    told = selector.fit(federation(column, label)).result_.disclosures
    assert {"numeric-scores"} == {row.kind for row in told if row.message == "NumericSums"}


def test_scores_of_classes_need_no_new_permission():
    classes = np.arange(N_ROWS) % 2
    selector = fs.FilterSelector("f", n_features_to_select=1, policy=fs.Policy())
    told = selector.fit(federation(column_of(0), classes, "auto")).result_.disclosures
    assert "feature-scores" in {row.kind for row in told}
    assert "numeric-scores" not in {row.kind for row in told}


def test_the_attack_reads_everything_where_it_is_allowed_and_is_refused_by_default():
    attack = attack_named("label-digits")
    assert attack.trial(UNPROTECTED, 0).found == 1.0
    refused = attack.trial(DEFAULT, 0)
    assert (refused.found, refused.ledger) == (0.0, ())
