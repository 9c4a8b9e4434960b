"""Job files with steps on the command line."""

import pytest

import fedsift as fs
from helpers.cli import Workshop, call

STEPS = """
[[step]]
method = "filter"
n_features_to_select = 4
security = "plain"

[[step]]
method = "interaction"
n_features_to_select = 2
security = "plain"
"""
MODEL = """
[[step]]
method = "train"
max_epochs = 2
min_epochs = 1
embedding = 2
outputs = 2
security = "plain"

[[step]]
method = "predict"
share = 0.25
"""


@pytest.fixture
def chained(tmp_path):
    workshop = Workshop(tmp_path)
    workshop.sections = {"job": {"seed": 7}, "data": workshop.sections["data"]}
    # Only numbers go through all methods.
    workshop.parties[1]["columns"] = ["visits", "spend"]
    return workshop


def test_a_chain_writes_one_result_and_predictions(chained):
    text = chained.text() + STEPS + MODEL
    outcome = chained.run(text=text)

    assert outcome.exit_code == 0, outcome.err
    assert "filter > interaction > train > predict" in outcome.out
    assert "predictions: " in outcome.out
    result = fs.SelectionResult.load(chained.out / "result.json")
    assert [step.method for step in result.steps] == ["filter", "interaction", "train", "predict"]
    lines = (chained.out / "predictions.csv").read_text().splitlines()
    assert (lines[0], len(lines)) == ("id,prediction,probability", 16)
    assert {line.split(",")[1] for line in lines[1:]} <= {"yes", "no"}
    ledger = (chained.out / "ledger.jsonl").read_text().splitlines()
    assert len(ledger) == len(result.disclosures)
    assert '"step":3' in "".join(ledger)
    model = fs.FedSDGSelector.load(chained.out / "model")
    assert sorted(model.classes_) == ["no", "yes"]
    some_id = lines[1].split(",")[0]
    assert f'"{some_id}"' not in (chained.out / "result.json").read_text()
    text_report = call("report", chained.out / "result.json", "--format", "text")
    assert "Steps\n-----" in text_report.out


def test_a_plan_shows_all_steps_and_sends_nothing(chained):
    chained.write(chained.text() + STEPS)

    plan = call("plan", chained.folder / "job.toml", "--json").json
    shown = call("plan", chained.folder / "job.toml").out

    assert plan["steps"] == ["filter", "interaction"]
    assert {row["step"] for row in plan["disclosures"]} == {0, 1, 2}
    assert "Plan of job.toml: filter > interaction" in shown
    assert "start" in shown


def test_an_interrupt_leaves_what_is_finished(chained, monkeypatch):
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fs.InteractionSelector, "keep_result", pressed)
    outcome = chained.run(text=chained.text() + STEPS)

    assert outcome.exit_code == 130
    assert "what was reached so far has been written" in outcome.err
    result = fs.SelectionResult.load(chained.out / "result.json")
    assert [step.method for step in result.steps] == ["filter"]


def test_a_policy_that_forbids_a_later_step(chained):
    chained.parties[1]["policy"] = {"methods": ["filter"], "min_security_bits": 0}
    outcome = chained.run(text=chained.text() + STEPS)

    assert outcome.exit_code == 4
    assert "'interaction'" in outcome.err
    assert not chained.out.exists()


def test_the_cost_of_all_steps_is_predicted(chained):
    text = (chained.text() + STEPS).replace('security = "plain"\n', "")
    alone = text.replace(STEPS.split("[[step]]")[2].replace('security = "plain"\n', ""), "")
    both = call("plan", chained.write(text), "--json")
    first = call("plan", chained.write(alone.rstrip().removesuffix("[[step]]")), "--json")

    assert (both.exit_code, first.exit_code) == (0, 0), (both.err, first.err)
    assert first.json["steps"] == ["filter"]
    for what in ("seconds", "bytes", "rounds", "ciphertexts"):
        assert both.json["cost"][what] > first.json["cost"][what] > 0
    assert "same share of features" in " ".join(both.json["cost"]["remarks"])
    # Meetings and lists of what stays are not counted, ciphertexts are.
    ran = chained.run("--json", text=text)
    assert ran.exit_code == 0, ran.err
    assert ran.json["result"]["traffic"]["ciphertexts"] == pytest.approx(
        both.json["cost"]["ciphertexts"], rel=0.5
    )
