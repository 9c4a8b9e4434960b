"""``Chain`` on federations of one process."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

import fedsift as fs
from fedsift.config.steps import step_seed
from fedsift.errors import ParameterError, PolicyViolation
from helpers.fedsdg import PAPER

NETWORK = {
    "max_epochs": 2,
    "min_epochs": 1,
    "embedding": 2,
    "outputs": 2,
    "batch_size": 64,
    "security": "plain",
}


@pytest.fixture(scope="module")
def federation():
    X, y = make_classification(90, 8, n_informative=4, n_redundant=0, random_state=4)
    return fs.split_vertical(X, y, parties=4, random_state=0)


def steps(**network):
    return [
        fs.VFPSSelector(n_participants=3, n_queries=4, security="plain"),
        fs.FilterSelector("f", n_features_to_select=4, security="plain"),
        fs.FedSDGSelector(gates="none", init="constant", **NETWORK, **network),
    ]


class Cut(Exception):
    """Ends a run in these tests."""


def cut_at(name):
    def observer(step):
        if step.message == name:
            raise Cut

    return observer


def test_steps_and_predictions(federation):
    chain = fs.Chain(steps(), held_out=0.2, random_state=5)
    plan = chain.plan(federation)
    result = chain.fit(federation).result_

    assert [step.method for step in result.steps] == ["vfps", "filter", "train", "predict"]
    assert plan.method == "vfps > filter > train > predict"
    assert result.headline().startswith("vfps > filter > train > predict: 4 features selected")
    assert {(r.step, r.kind) for r in result.disclosures} <= {
        (r.step, r.kind) for r in plan.disclosures
    }
    assert sum(len(names) for names in result.selected.values()) == 4
    assert set(result.selected) == set(federation.parties)
    assert [s.random_state for s in chain.selectors_] == [step_seed(5, n) for n in (1, 2, 3)]
    assert chain.federation_.n_features == 4
    assert len(chain.predictions_) == len(chain.predicted_rows_) == 18
    truth = np.asarray(federation.target.classes)[federation.target.codes]
    score = np.mean(chain.predictions_ == truth[chain.predicted_rows_])
    assert result.steps[-1].parameters["score"] == pytest.approx(score)
    assert result.steps[2].shape["n_rows"] == 72
    rows = chain.files()["predictions.csv"].splitlines()
    assert rows[0] == "row,prediction,probability"
    assert [int(row.split(",")[0]) for row in rows[1:]] == chain.predicted_rows_.tolist()
    assert len(chain.predict(federation)) == 90
    assert chain.transform(federation).n_features == 4
    again = fs.Chain(steps(), held_out=0.2, random_state=5).fit(federation)
    assert again.result_.selected == result.selected
    # Shares are shortened under new masks in every run: a unit here and there.
    assert again.probabilities_ == pytest.approx(chain.probabilities_, abs=0.05)


def test_a_selection_without_open_rows_then_the_network_of_the_paper(federation):
    blind = fs.FedSDGSelector(n_features_to_select=3, outputs=2, max_epochs=2, security="plain")
    trained = fs.FedSDGSelector(gates="none", init="constant", protocol="paper", **NETWORK)
    with pytest.raises(PolicyViolation, match="'embedding-gradients'") as refused:
        fs.Chain([blind, trained], held_out=0.2).fit(federation)
    assert "protocol='blind'" in str(refused.value)

    chain = fs.Chain([blind, trained], held_out=0.2, policy=PAPER["policy"]).fit(federation)
    result = chain.result_
    assert [step.method for step in result.steps] == ["fedsdg", "train", "predict"]
    assert result.n_selected == chain.model_.n_features_in_ == 3
    opened = {"embedding-gradients", "layer-outputs", "single-layer-outputs"}
    assert not opened & {row.kind for row in result.disclosures if row.step == 1}
    assert "embedding-gradients" in {row.kind for row in result.disclosures if row.step == 2}
    assert len(chain.predictions_) == 18


def test_what_stepwise_adds_is_trained_on(federation):
    stepwise = fs.StepwiseSelector(n_features_to_select=2, keep_own=False, security="plain")
    chain = fs.Chain([stepwise, *steps()[-1:]], held_out=0.2, random_state=0)
    planned = {(row.step, row.kind) for row in chain.plan(federation).disclosures}
    result = chain.fit(federation).result_
    assert [step.method for step in result.steps] == ["stepwise", "train", "predict"]
    added = chain.selectors_[0].added_
    assert {(p, name) for p, own in result.selected.items() for name in own} == set(added)
    assert result.n_selected == chain.model_.n_features_in_ == len(added) == 2
    assert {(row.step, row.kind) for row in result.disclosures} <= planned
    assert len(chain.predictions_) == 18


def test_a_training_opens_no_row_unless_its_step_says_so(federation):
    result = fs.Chain(steps()[1:], held_out=0.2, random_state=5).fit(federation).result_
    kinds = {row.kind for row in result.disclosures}
    assert "predictions" in kinds
    assert not kinds & {"embedding-gradients", "layer-outputs", "single-layer-outputs"}


def test_an_elimination_may_stand_before_a_training(federation):
    exact = fs.FedSDGSelector(
        n_features_to_select=3, gates="none", init="constant", **NETWORK, **PAPER
    )
    chain = fs.Chain([exact, *steps()[-1:]], random_state=0)
    result = chain.fit(federation).result_
    assert [step.method for step in result.steps] == ["fedsdg", "train"]
    assert result.n_selected == 3


def test_a_result_survives_its_file(federation, tmp_path):
    result = fs.Chain(steps()[:2], random_state=5).fit(federation).result_

    assert fs.SelectionResult.load(result.save(tmp_path / "result.json")) == result
    page = result.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Steps of the chain" in page
    old = result.to_json().replace('"steps"', '"stages"')
    (tmp_path / "other.json").write_text(old, encoding="utf-8")
    with pytest.raises(fs.errors.FileProblem):
        fs.SelectionResult.load(tmp_path / "other.json")


@pytest.mark.parametrize(("at", "left"), [("SealedScores", 2), ("BlindStart", 1)])
def test_an_interrupted_chain_goes_on(federation, tmp_path, at, left):
    def chain():
        return fs.Chain(steps(), held_out=0.2, checkpoint=tmp_path / "kept", random_state=5)

    whole = fs.Chain(steps(), held_out=0.2, random_state=5).fit(federation)
    with pytest.raises(Cut):
        chain().run(federation, observer=cut_at(at))
    resumed = chain().fit(federation)

    assert len(resumed.selectors_) == left
    assert resumed.result_.selected == whole.result_.selected
    assert resumed.probabilities_ == pytest.approx(whole.probabilities_, abs=0.05)
    assert not list((tmp_path / "kept").iterdir())


def test_a_policy_of_somebody_who_left_is_no_obstacle(federation):
    policies = {party: fs.Policy(min_security_bits=0) for party in federation.parties}
    chain = fs.Chain(steps()[:2], policy=policies, random_state=5).fit(federation)
    assert len(chain.federation_.parties) < 5

    policies["party-3"] = fs.Policy(methods=("vfps",), min_security_bits=0)
    with pytest.raises(PolicyViolation, match="'filter'"):
        fs.Chain(steps()[:2], policy=policies, random_state=5).fit(federation)


@pytest.mark.parametrize(
    ("chain", "text"),
    [
        (fs.Chain([]), "no steps"),
        (fs.Chain(steps()[::-1]), "not the last step"),
        (fs.Chain(steps()[:1], held_out=0.2), "no model is trained"),
        (fs.Chain(steps(), held_out=0.999), "Rows to learn from"),
    ],
    ids=["empty", "order", "no model", "no rows"],
)
def test_what_cannot_be_a_chain(federation, chain, text):
    with pytest.raises(ParameterError, match=text):
        chain.fit(federation)


def test_arrays_are_no_federation():
    with pytest.raises(ParameterError, match="Federation is needed"):
        fs.Chain(steps()).fit(np.ones((4, 4)))
