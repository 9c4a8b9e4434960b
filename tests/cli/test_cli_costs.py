"""What 'plan' predicts, 'run' compares and keeps; budgets of noise from a job file."""

import pytest

from fedsift.cli.predicting import amount_of_bytes, amount_of_seconds
from fedsift.result import SelectionResult


def test_plan_and_run_agree_on_the_counts(workshop):
    planned = workshop.plan("--json").json["cost"]
    ran = workshop.run("--json").json["result"]

    assert ran["predicted"]["bytes"] == planned["bytes"]
    for count in ("rounds", "messages", "ciphertexts"):
        assert planned[count] == ran["traffic"][count], count
    assert planned["bytes"] == pytest.approx(ran["traffic"]["n_bytes"], rel=0.05)
    took = ran["predicted"]["took"]
    assert took["cpu_seconds"] > 0
    assert took["seconds"] > 0
    assert SelectionResult.load(workshop.out / "result.json").predicted == ran["predicted"]


def test_plan_prints_the_cost_and_run_compares_it(workshop):
    planned = workshop.plan()
    assert "Predicted cost" in planned.out
    assert "bytes between parties" in planned.out
    assert "typical machine" in planned.out  # the tests measure nothing

    ran = workshop.run()
    line = next(line for line in ran.out.splitlines() if line.startswith("Prediction: "))
    assert "predicted" in line
    assert "took" in line


def test_a_run_without_encryption_is_predicted_too(workshop):
    secure = workshop.plan("--json").json["cost"]
    workshop.sections["method"]["security"] = "plain"

    planned = workshop.plan("--json").json["cost"]
    traffic = workshop.run("--json").json["result"]["traffic"]

    for count in ("rounds", "messages", "ciphertexts"):
        assert planned[count] == traffic[count], count
    assert planned["bytes"] == pytest.approx(traffic["n_bytes"], rel=0.02)
    assert planned["cpu_seconds"] < secure["cpu_seconds"]


def test_what_is_not_predicted_is_said(workshop, monkeypatch):
    monkeypatch.setattr("fedsift.costs.chain.estimate", lambda *_: None)

    assert workshop.plan("--json").json["cost"] is None
    assert "not predicted" in workshop.plan().out
    ran = workshop.run()
    assert ran.exit_code == 0
    assert "Prediction:" not in ran.out


def test_a_prediction_that_fails_does_not_stop_the_run(workshop, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("fedsift.costs.chain.tally_joint", broken)

    ran = workshop.run("--json")
    assert ran.exit_code == 0
    assert ran.json["result"]["predicted"] == {}


def noisy(workshop, epsilon):
    workshop.sections["method"] = {
        "score": "mi",
        "n_features_to_select": 2,
        "bins": [-0.5, 0.5, 1.5],
        "epsilon": epsilon,
    }


def test_a_job_file_gives_a_budget(workshop):
    noisy(workshop, 1.5)
    result = workshop.run("--json").json["result"]

    assert result["parameters"]["privacy"]["spent"] == {"shop": 1.5}
    rows = [row for row in result["disclosures"] if row["kind"] == "noisy-counts"]
    assert [row["learner"] for row in rows] == ["bank"]
    assert "spent epsilon 1.5" in rows[0]["what"]
    assert result["predicted"]["ciphertexts"] == result["traffic"]["ciphertexts"]


def test_noise_between_tables_does_not_follow_the_seed(workshop):
    """Everybody knows the seed of a job: noise that followed it could be taken off."""
    noisy(workshop, 0.2)
    first = workshop.run("--json").json["result"]["scores"]["shop"]
    second = workshop.run("--json").json["result"]["scores"]["shop"]

    assert first != second


def test_a_policy_limits_the_budget(workshop):
    noisy(workshop, 1.5)
    workshop.parties[1]["policy"] = {"max_epsilon": 1, "min_bin_size": 1}
    refused = workshop.plan()
    assert refused.exit_code == 4
    assert "at most 1" in refused.err

    workshop.parties[1]["policy"]["max_epsilon"] = 0
    wrong = workshop.plan()
    assert wrong.exit_code == 2
    assert "max_epsilon" in wrong.err


def test_amounts_in_words():
    assert [amount_of_seconds(s) for s in (0.0123, 12.345, 600, 36_000)] == [
        "12 ms",
        "12.3 s",
        "10.0 min",
        "10.0 h",
    ]
    assert [amount_of_bytes(n) for n in (12, 1234, 5_678_901, 3e9)] == [
        "12 B",
        "1.234 kB",
        "5.679 MB",
        "3 GB",
    ]
