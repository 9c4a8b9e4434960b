"""Before it decides, a member sees the plan of the very job that waits: who learns what about whom."""

import msgspec
import numpy as np
import pytest

from fedsift.deploy.kits import PartyData, set_party
from fedsift.deploy.outlook import Outlooks, budget_now, look_ahead
from fedsift.deploy.site import policy_of
from fedsift.deploy.site_files import load_site
from fedsift.jobs.history import History, JobRecord
from fedsift.jobs.inbox import Inbox
from fedsift.jobs.run import plan_joint, run_joint
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.protocol import Policy
from fedsift.report.inbox import learned_lines, render, request_facts
from helpers.deploy import ANN
from helpers.flare import BLIND
from helpers.joint import columns_homes, people

PARTIES = ("bank", "shop-2", "store")
COLUMNS = {"bank": ["income", "age"], "shop-2": ["visits", "spend"], "store": ["clicks", "hours"]}


def vertical(method="filter", steps=(), columns=None, **parameters):
    return JointJob(
        method="chain" if steps else method,
        setting="vertical",
        parties=PARTIES,
        label_party="bank",
        labelled=True,
        aligned=True,
        columns=columns or {},
        parameters=parameters,
        steps=tuple(steps),
        submitter=ANN,
        nonce="1",
    )


@pytest.fixture
def member(kits, tmp_path):
    """Settings of a member with the columns of one party and the ids of all people."""

    def made(name, policy=None, columns=("visits", "spend"), **changes):
        path = tmp_path / f"{name}.csv"
        frame = people()
        label = changes.pop("label", None)
        frame[["id", *columns, *([label] if label else [])]].to_csv(path, index=False)
        set_party(kits[name], PartyData(path, ("id",), label), policy, **changes)
        return load_site(kits[name].settings)

    return made


def told(outlook):
    return {(one.about, one.learner, one.kind, one.message, one.step) for one in outlook.planned}


@pytest.mark.parametrize(
    "job",
    [
        vertical(score="gini", n_features_to_select=2),
        vertical(score="mi", disclose="counts", n_features_to_select=2),
        vertical("interaction", n_features_to_select=2),
        vertical("fedsdg", **BLIND),
    ],
    ids=["gini", "counts", "interaction", "fedsdg"],
)
def test_the_plan_is_that_of_the_run(member, job):
    """Settings of this job and parties by name, as all parties together would plan it."""
    kinds = ("basic", "common-ids", "counts", "training", "relevance", "interaction-weights")
    settings = member("shop-2", {"may_reveal": list(kinds)})

    outlook = look_ahead(job, settings)

    homes = columns_homes(job, columns=COLUMNS)
    _, plan = plan_joint(job, homes, simulated=False)
    expected = {(o.about, o.learner, o.kind, o.message, o.step) for o in plan.disclosures}
    assert outlook.refusal == ""
    assert told(outlook) == expected
    assert outlook.columns == ("visits", "spend")
    named = {name for one in outlook.planned for name in one.about.split(", ")}
    assert {"shop-2"} <= named <= set(PARTIES)


def test_scores_and_counts_are_different_plans(member):
    settings = member("shop-2", {"may_reveal": ["basic", "common-ids", "counts"]})
    kinds = [
        {one.kind for one in look_ahead(vertical(**own), settings).planned if one.about == "shop-2"}
        for own in ({"score": "gini"}, {"score": "mi", "disclose": "counts"})
    ]
    assert ("bin-counts" in kinds[0], "bin-counts" in kinds[1]) == (False, True)


def test_the_cost_is_near_that_of_the_run(member):
    job = vertical(score="gini", n_features_to_select=2)

    predicted = look_ahead(job, member("shop-2")).predicted

    sent = run_joint(job, columns_homes(job, columns=COLUMNS)).traffic
    assert predicted["rounds"] == sent.rounds
    assert predicted["bytes"] == pytest.approx(sent.n_bytes, rel=0.3)
    assert predicted["seconds"] > 14  # FLARE's start


def test_columns_that_the_job_names(member):
    job = vertical(score="gini", columns={"shop-2": ("spend",), "store": ("clicks", "hours")})
    outlook = look_ahead(job, member("shop-2"))
    assert outlook.columns == ("spend",)
    assert not outlook.refusal

    closed = vertical(score="gini", columns={"shop-2": ("id",)})
    assert "has not released" in look_ahead(closed, member("shop-2")).refusal


def test_what_the_own_policy_forbids_is_said_before_somebody_decides(member):
    settings = member("shop-2", {"may_reveal": ["basic"]})
    outlook = look_ahead(vertical(score="gini"), settings)
    assert "'common-ids'" in outlook.refusal
    assert outlook.planned == ()
    assert outlook.columns == ("visits", "spend")


def test_a_label_holder_plans_with_its_own_classes(member):
    settings = member("bank", columns=("income", "age"), label="paid")
    outlook = look_ahead(vertical(score="gini", n_features_to_select=2), settings)
    assert outlook.refusal == ""
    assert ("shop-2", "bank") in {(one.about, one.learner) for one in outlook.planned}
    assert "two classes" not in " ".join(outlook.notes)
    assert "two classes" in " ".join(look_ahead(vertical(score="gini"), member("shop-2")).notes)


def test_parties_with_the_same_columns(member):
    job = msgspec.structs.replace(
        vertical(score="mi", n_features_to_select=1), setting="horizontal", label_party=None,
        aligned=False,
    )  # fmt: skip
    outlook = look_ahead(job, member("shop-2", label="paid"))
    assert (outlook.refusal, outlook.columns) == ("", ("visits", "spend"))
    assert ("shop-2", "coordinator", "pooled-sums") in {
        (one.about, one.learner, one.kind) for one in outlook.planned
    }
    assert outlook.predicted["rounds"] > 0


def test_steps_and_rows_that_are_predicted(member, kits):
    steps = (
        JointStep(method="filter", parameters={"score": "gini", "n_features_to_select": 4}),
        JointStep(method="train", parameters={k: BLIND[k] for k in BLIND if "features" not in k}),
        JointStep(method="predict", parameters={"share": 0.25}),
    )
    job = vertical(steps=steps)
    settings = member("shop-2", {"may_reveal": ["basic", "common-ids", "training"]})
    Inbox(settings.folder).ask(job, 60)

    (request,) = Inbox(settings.folder).list_requests(
        policy_of(settings), Outlooks(settings.folder)
    )

    assert request.refusal == "", request.refusal
    assert {one.step for one in request.planned} == {0, 1, 2, 3}
    facts = dict(request_facts(request))
    assert facts["held-out rows"] == "25% of the rows are held out and predicted"
    assert facts["columns asked"] == "bank, shop-2, store: all that they release"
    assert "rounds" in facts["predicted cost"]


def test_the_page_shows_plan_columns_cost_and_budget(member):
    job = vertical(score="gini", n_features_to_select=2, columns={"shop-2": ("spend",)})
    settings = member("shop-2", {"max_jobs_per_table": 3, "max_epsilon_total": 2})
    Inbox(settings.folder).ask(job, 60)
    outlooks = Outlooks(settings.folder)

    def listed():
        return Inbox(settings.folder).list_requests(policy_of(settings), outlooks)

    (request,) = listed()
    assert request.left == {"jobs": 3, "epsilon_total": 2.0}
    assert request.may_reveal == ()
    assert ("shop-2", "bank") in {line[:2] for line in learned_lines(request)}
    page = render("shop-2", [request])
    for words in ("Who would learn what", "shop-2: spend", "jobs 3, epsilon_total 2", "rounds"):
        assert words in page
    # Another job of these rows, in a file of another name, spends what the next look shows.
    history = History(settings.folder)
    other = msgspec.structs.replace(job, nonce="2")
    history.begin(other, "may.csv")
    seen = outlooks(job)
    JobRecord(history, other, "shop-2", Policy(), "may.csv").charge(seen.digests)
    assert listed()[0].left == {"jobs": 2, "epsilon_total": 2.0}
    assert budget_now(settings).jobs == 1


def test_long_tables_are_planned_with_some_of_their_rows(member, monkeypatch):
    monkeypatch.setattr("fedsift.deploy.outlook._MOST_CELLS", 300)
    monkeypatch.setattr("fedsift.deploy.outlook._FEWEST_ROWS", 50)
    outlook = look_ahead(vertical(score="gini", n_features_to_select=2), member("shop-2"))
    assert outlook.planned
    assert "a run with 50 rows; the table here has 80" in outlook.notes[-1]


def test_without_a_table_there_is_no_plan(kits, member):
    member("shop-2")
    hub = load_site(kits["hub"].settings)
    assert "no table of this job" in look_ahead(vertical(), hub).notes[0]
    Inbox(hub.folder).ask(vertical(score="gini"), 60)
    (request,) = Inbox(hub.folder).list_requests(Policy(), Outlooks(hub.folder))
    assert request.may_reveal
    assert {line[1] for line in learned_lines(request)} & {"coordinator", "label holder"}
    assert "There is no plan" in render("hub", [request])


def test_a_table_that_cannot_be_read_is_said(member, tmp_path):
    settings = member("shop-2")
    (tmp_path / "shop-2.csv").unlink()
    outlook = look_ahead(vertical(), settings)
    assert "The plan cannot be made here: E105" in outlook.notes[0]
    assert np.size(outlook.planned) == 0
