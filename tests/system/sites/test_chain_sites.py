"""Chained jobs on the parties' own tables: in one process, and at sites of their own."""

import shutil
from collections import Counter

import msgspec
import numpy as np
import pytest

import fedsift as fs
from fedsift.data.part import read_part
from fedsift.errors import AlignmentError, PolicyViolation
from fedsift.jobs.chain_run import ChainRun
from fedsift.jobs.run import LocalParty, plan_joint, run_joint
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.methods.registry import joint_declarations, list_methods
from fedsift.testing.draws import let_seeds_drive_everything
from helpers.joint import CLASSES, at_sites, columns_homes, people, rows_homes

pytestmark = pytest.mark.xdist_group("chain")

PLAIN = {"security": "plain"}
BLIND = PLAIN | {"max_epochs": 2, "outputs": 2, "batch_size": 64}
NETWORK = PLAIN | {
    "protocol": "paper",
    "max_epochs": 2,
    "min_epochs": 1,
    "embedding": 2,
    "outputs": 2,
    "batch_size": 64,
}
FOUR = ("bank", "shop", "store", "mill")
COLUMNS = {
    "bank": ["income", "age"],
    "shop": ["visits", "spend"],
    "store": ["clicks"],
    "mill": ["hours"],
}
WHOLE = (
    ("vfps", PLAIN | {"n_participants": 2, "n_queries": 4}),
    ("filter", PLAIN | {"n_features_to_select": 4}),
    ("interaction", PLAIN | {"n_features_to_select": 3, "pair_start": "none"}),
    ("train", NETWORK),
    ("predict", {"rows": "held-out", "share": 0.25}),
)


def chained(*steps, parties=FOUR, **fields):
    job = JointJob(
        method="chain",
        setting="vertical",
        parties=parties,
        label_party="bank",
        labelled=True,
        aligned=True,
        steps=tuple(
            JointStep(method=name, parameters=dict(own), seed=number)
            for number, (name, own) in enumerate(steps)
        ),
        **{"seed": 7, **fields},
    )
    job.check()
    return job


OPENED = ("embedding-gradients", "layer-outputs", "single-layer-outputs")
LEAVE = fs.Policy(
    may_reveal=tuple(
        {
            declaration.kind
            for method in list_methods()
            for _, declaration in method.declarations()
            if not declaration.optional or declaration.kind in OPENED
        }
        | {declaration.kind for declaration in joint_declarations()}
    ),
    min_security_bits=0,
    min_bin_size=1,
)
"""What any method needs, and what the paper's FedSDG-FS opens of single rows."""


def homes_of(job, policies=None):
    if policies is None and any("protocol" in step.parameters for step in job.steps):
        policies = dict.fromkeys(job.parties, LEAVE)
    return columns_homes(job, columns=COLUMNS, policies=policies)


def learned(rows):
    """Who learned what in which step; sizes of a few messages vary."""
    return Counter((r.step, r.message, r.learner, r.about, r.kind, r.times) for r in rows)


class Cut(Exception):
    """Ends a run in these tests."""


class Observed:
    """Counts messages by type, and ends the run when one of a type is seen."""

    def __init__(self, at=None, after=""):
        self.seen = Counter()
        self._at, self._after = at, after

    def __call__(self, step):
        self.seen[step.message] += 1
        if step.message == self._at and (not self._after or self.seen[self._after]):
            raise Cut


@pytest.fixture(scope="module")
def whole():
    """A chain with every kind of step, in one process: job, homes, plan, result, predictions."""
    job = chained(*WHOLE)
    homes = homes_of(job)
    _, plan = plan_joint(job, homes)
    texts = []
    result = run_joint(job, homes, keep_predictions=texts.append)
    return job, homes, plan, result, texts


def test_each_step_sees_what_the_one_before_left(whole):
    job, _, _, result, _ = whole

    assert [step.method for step in result.steps] == [name for name, _ in WHOLE]
    before = COLUMNS
    for step in result.steps:
        for party, names in step.selected.items():
            assert set(names) <= set(before[party])
        before = step.selected
    assert sum(bool(names) for names in result.steps[0].selected.values()) == 3
    assert [step.n_selected for step in result.steps][1:] == [4, 3, 3, 3]
    last = result.steps[2]
    assert result.selected == {party: last.selected.get(party, ()) for party in job.parties}
    assert (result.method, result.scores, result.seed) == ("interaction", last.scores, 7)
    assert result.shape["n_rows"] == result.steps[0].shape["n_rows"] == 56


def test_costs_and_disclosures_are_those_of_all_steps(whole):
    _, _, plan, result, _ = whole

    start = [row for row in result.disclosures if row.step == 0]
    each = [row for step in result.steps for row in step.disclosures]
    assert [*start, *each] == list(result.disclosures)
    assert {row.step for row in result.disclosures} == {0, 1, 2, 3, 4, 5}
    assert Counter(row.message for row in start)["CommonRows"] == 3
    assert result.traffic.messages > sum(step.traffic.messages for step in result.steps)
    assert result.timings["total"] > sum(step.timings["total"] for step in result.steps)
    kinds = {(row.step, row.kind) for row in plan.disclosures}
    assert {(row.step, row.kind) for row in result.disclosures} <= kinds


def test_who_has_left_learns_and_tells_nothing_more(whole):
    _, _, _, result, _ = whole

    left = {party for party, names in result.steps[0].selected.items() if not names} - {"bank"}
    for row in result.disclosures:
        if row.step > 1:
            assert not left & {row.learner, *row.about.split(", ")}
    assert left


def test_predictions_are_the_label_holders_alone(whole):
    _, _, _, result, texts = whole
    (text,) = texts
    frame = people().set_index("id")

    lines = [line.split(",") for line in text.splitlines()]
    assert lines[0] == ["id", "prediction", "probability"]
    assert len(lines) - 1 == result.steps[-1].parameters["n_rows"] == 18
    right = [frame.loc[name, "paid"] == predicted for name, predicted, _ in lines[1:]]
    assert result.steps[-1].parameters["score"] == pytest.approx(np.mean(right))
    assert not any(word in result.to_json() for word in ("customer-number", *CLASSES))


def test_sites_come_to_the_same_result(whole, tmp_path):
    job, homes, _, here, texts = whole
    kept = {}

    def script(job, own, engine):
        for party in own:
            kept[party] = []
        first = next(iter(own), "hub")
        return run_joint(job, own, engine, keep_predictions=lambda text: kept[first].append(text))

    with let_seeds_drive_everything():
        coordinator, ended = at_sites(job, homes, script)

    assert {site: end.error for site, end in ended.items()} == dict.fromkeys(ended)
    assert [site for site, end in ended.items() if end.value is not None] == [coordinator]
    there = ended[coordinator].value
    assert there.selected == here.selected
    for one, other in zip(there.steps, here.steps, strict=True):
        # Noise of the interaction method differs from run to run.
        near = 2.0**-12 if one.method == "interaction" else 0
        for party, scores in one.scores.items():
            assert scores == pytest.approx(other.scores[party], abs=near, rel=0)
    assert [step.parameters for step in there.steps] == [step.parameters for step in here.steps]
    assert learned(there.disclosures) == learned(here.disclosures)
    assert there.traffic.rounds == here.traffic.rounds
    assert there.warnings == here.warnings
    assert kept == {"bank": texts, "shop": [], "store": [], "mill": []}


def predicted_by(folder, text):
    """What the model of a folder predicts for the rows of a file of predictions."""
    model = fs.FedSDGSelector.load(folder, policy=LEAVE)
    rows = [line.split(",")[0] for line in text.splitlines()[1:]]
    frame = people().set_index("id").loc[rows].reset_index()
    parties = {party: list(part["columns"]) for party, part in model._parts.items()}
    tables = {party: frame[own] for party, own in parties.items() if own}
    return model.predict(fs.Federation.vertical(tables, ("bank", frame["paid"]))).tolist()


def test_every_site_keeps_its_own_part_of_the_model(whole, tmp_path):
    """Together they are the model: it predicts what was predicted in the run."""
    job, homes, _, result, texts = whole
    models = {}

    def script(job, own, engine):
        (site,) = own or ["hub"]
        return run_joint(job, own, engine, keep_model=lambda model: models.update({site: model}))

    with let_seeds_drive_everything():
        at_sites(job, homes, script)
    in_model = {party for party, names in result.steps[3].scores.items() if names} | {"bank"}

    assert set(models) == in_model
    for site, model in models.items():
        assert list(model.parts) == [site]
        model.save(tmp_path / site)
        files = sorted(path.name for path in (tmp_path / site).iterdir())
        header = ["model.json"] if site == "bank" else []
        assert files == [f"{site}.fedsift-part", *header]
        for path in (tmp_path / site).iterdir():
            shutil.copy(path, tmp_path)
    predictions = [line.split(",")[1] for line in texts[0].splitlines()[1:]]
    assert predicted_by(tmp_path, texts[0]) == predictions
    header = (tmp_path / "model.json").read_text()
    assert not any(name in header for own in COLUMNS.values() for name in own)


def test_a_training_that_opens_no_row_leaves_its_parts_and_predicts_too(tmp_path):
    steps = (WHOLE[1], ("train", BLIND), ("predict", {"rows": "held-out", "share": 0.25}))
    job = chained(*steps, parties=("bank", "shop", "store"))
    models, texts = {}, []

    def script(job, own, engine):
        (site,) = own
        keep = texts.append if site == "bank" else None
        return run_joint(
            job,
            own,
            engine,
            keep_model=lambda model: models.update({site: model}),
            keep_predictions=keep,
        )

    coordinator, ended = at_sites(job, homes_of(job), script)
    assert {site: end.error for site, end in ended.items()} == dict.fromkeys(ended)
    kinds = {row.kind for row in ended[coordinator].value.disclosures}
    assert not kinds & {*OPENED, "gate-sums"}
    assert "predictions" in kinds
    for model in models.values():
        model.save(tmp_path)
    known = [line.split(",")[1] for line in texts[0].splitlines()[1:]]
    again = predicted_by(tmp_path, texts[0])
    # Masks are new in every prediction: a row in between may fall to the other class.
    assert np.mean(np.array(again) == np.array(known)) > 0.8


def test_the_same_steps_horizontally():
    steps = (
        JointStep(method="filter", parameters=PLAIN | {"score": "mi", "n_features_to_select": 2}),
        JointStep(
            method="fpso",
            parameters=PLAIN | {"n_particles": 3, "n_iterations": 2, "n_rounds": 1},
            seed=3,
        ),
    )
    job = JointJob(
        method="chain",
        setting="horizontal",
        parties=("north", "south", "west"),
        labelled=True,
        seed=7,
        steps=steps,
    )
    job.check()
    homes = rows_homes(["income", "clicks", "visits"])

    here = run_joint(job, homes)
    with let_seeds_drive_everything():
        coordinator, ended = at_sites(job, homes, run_joint)

    assert ended[coordinator].error is None, ended[coordinator].error
    assert coordinator == "hub"
    assert ended[coordinator].value.selected == here.selected
    assert set(here.selected) == {"north", "south", "west"}
    assert set(here.steps[1].selected["north"]) <= set(here.steps[0].selected["north"])


class TestRefusals:
    def test_a_policy_stops_all_steps_before_the_first_message(self):
        job = chained(*WHOLE[1:3])
        only = {"shop": fs.Policy(methods=("filter",), min_security_bits=0)}
        observed = Observed()

        with pytest.raises(
            PolicyViolation, match="'interaction', which the policy of party 'shop'"
        ):
            run_joint(job, homes_of(job, only), observer=observed)
        assert not observed.seen

    def test_at_sites_nothing_but_the_meeting_is_held(self):
        job = chained(*WHOLE[1:3])
        only = {"shop": fs.Policy(methods=("filter",), min_security_bits=0)}
        seen = {}

        def script(job, own, engine):
            mine = seen.setdefault(next(iter(own), "hub"), Observed())
            return run_joint(job, own, engine, observer=mine)

        coordinator, ended = at_sites(job, homes_of(job, only), script)

        assert ended[coordinator].error.exit_code == PolicyViolation.exit_code
        assert "'shop'" in str(ended[coordinator].error)
        assert {*seen[coordinator].seen} <= {"HolderInvitation", "OwnOutline", "HolderAgreement", "Done",
                                       "Fault", "Briefing"}  # fmt: skip

    def test_a_step_may_be_refused_for_those_who_are_left(self):
        """Three participants are enough for sums over two; two that are left are not."""
        job = chained(WHOLE[0], ("vfps", PLAIN | {"n_participants": 1, "n_queries": 4}))
        with pytest.raises(PolicyViolation, match="single-party-distances"):
            plan_joint(job, homes_of(job))


def test_rows_without_a_label_are_predicted():
    two = ("filter", PLAIN | {"n_features_to_select": 2})
    job = chained(
        two, ("train", BLIND), ("predict", {"rows": "unlabelled"}), parties=("bank", "shop")
    )
    frame = people()
    frame.loc[3:12, "paid"] = None
    homes = {
        "bank": LocalParty.of(
            read_part("bank", frame[["id", "income", "paid"]], ids=["id"], label="paid")
        ),
        "shop": LocalParty.of(
            read_part("shop", frame[["id", "visits", "spend"]].iloc[::-1][:78], ids=["id"])
        ),
    }
    texts = []

    _, plan = plan_joint(job, homes)
    result = run_joint(job, homes, keep_predictions=texts.append)
    with let_seeds_drive_everything():
        coordinator, ended = at_sites(job, homes, run_joint)

    predicted = {line.split(",")[0] for line in texts[0].splitlines()[1:]}
    assert predicted == set(frame["id"].iloc[3:13])
    assert result.shape["n_rows"] == 68
    assert result.steps[-1].parameters == {"rows": "unlabelled", "n_rows": 10}
    assert "unlabelled-rows" in {row.kind for row in plan.disclosures if row.step == 0}
    assert ended[coordinator].error is None, ended[coordinator].error
    assert ended[coordinator].value.selected == result.selected


@pytest.fixture(scope="module")
def undisturbed():
    job = chained(*TestGoingOn.steps)
    return run_joint(job, homes_of(job))


class TestGoingOn:
    steps = (WHOLE[1], WHOLE[2], WHOLE[3], WHOLE[4])

    @pytest.mark.parametrize(
        ("at", "after", "not_again"),
        [
            ("SealedScores", "", "CommonRows"),
            ("WeightTerms", "", "SealedScores"),
            ("LayerWanted", "NamedGates", "TrainingStart"),
        ],
        ids=["first", "second", "last"],
    )
    def test_finished_steps_are_not_run_again(self, undisturbed, tmp_path, at, after, not_again):
        job = chained(*self.steps)
        with pytest.raises(Cut):
            run_joint(job, homes_of(job), observer=Observed(at, after=after), place=tmp_path)

        again, texts = Observed(), []
        script = ChainRun(
            job, homes_of(job), observer=again, place=tmp_path, keep_predictions=texts.append
        )
        result = script.run()

        assert result.selected == undisturbed.selected
        assert [s.method for s in result.steps] == [s.method for s in undisturbed.steps]
        assert result.steps[-1].parameters == undisturbed.steps[-1].parameters
        assert not again.seen[not_again]
        assert not list(tmp_path.iterdir())
        assert {row.step for row in result.disclosures} == {0, 1, 2, 3, 4}
        script.model_.save(tmp_path / "model")
        predictions = [line.split(",")[1] for line in texts[0].splitlines()[1:]]
        assert predicted_by(tmp_path / "model", texts[0]) == predictions

    def test_sites_agree_on_the_last_finished_step(self, undisturbed, tmp_path):
        job = chained(*self.steps)
        homes = homes_of(job)

        def script(observer):
            def play(job, own, engine):
                name = next(iter(own), "hub")
                mine = observer if name == "bank" else None
                return run_joint(job, own, engine, observer=mine, place=tmp_path / name)

            return play

        coordinator, ended = at_sites(job, homes, script(Observed("WeightTerms")))
        assert ended[coordinator].error is not None
        again = Observed()
        coordinator, ended = at_sites(job, homes, script(again))

        assert ended[coordinator].error is None, ended[coordinator].error
        assert ended[coordinator].value.selected == undisturbed.selected
        assert not again.seen["SealedScores"]
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_other_data_or_another_job_is_refused(self, tmp_path):
        job = chained(*self.steps[:2])
        with pytest.raises(Cut):
            run_joint(job, homes_of(job), observer=Observed("WeightTerms"), place=tmp_path)

        other = msgspec.structs.replace(job, seed=8)
        with pytest.raises(fs.errors.ParameterError, match="another job"):
            run_joint(other, homes_of(other), place=tmp_path)
        homes = homes_of(job)
        part = homes["shop"].load()
        changed = LocalParty.of(part.take(np.arange(part.n_rows)[::-1]))
        with pytest.raises(AlignmentError, match="'shop' is not what it was"):
            run_joint(job, homes | {"shop": changed}, place=tmp_path)

    def test_an_interrupt_leaves_the_finished_steps(self, undisturbed, monkeypatch):
        monkeypatch.setattr(fs.InteractionSelector, "keep_result", pressed)
        job = chained(*self.steps)
        script = ChainRun(job, homes_of(job))

        result = script.run()

        assert script.interrupted_
        assert [step.method for step in result.steps] == ["filter"]
        assert result.selected == {
            party: undisturbed.steps[0].selected.get(party, ()) for party in FOUR
        }
        assert "Interrupted: 1 of 4 steps are finished." in result.warnings

    def test_an_interrupt_in_the_first_step_leaves_nothing(self, monkeypatch):
        monkeypatch.setattr(fs.FilterSelector, "keep_result", pressed)
        job = chained(*self.steps[:2])
        with pytest.raises(KeyboardInterrupt):
            run_joint(job, homes_of(job))


def pressed(*_):
    """Ctrl-C while a selector runs."""
    raise KeyboardInterrupt


def test_a_label_holder_without_features_stays():
    job = chained(WHOLE[1], ("filter", PLAIN | {"n_features_to_select": 2}))
    homes = columns_homes(job, columns=COLUMNS | {"bank": []})

    result = run_joint(job, homes)

    assert result.selected["bank"] == ()
    assert [step.n_selected for step in result.steps] == [4, 2]


def test_steps_that_need_no_label():
    steps = [
        JointStep(method="filter", parameters=PLAIN | {"score": "variance", **wanted})
        for wanted in ({"n_features_to_select": 3}, {"n_features_to_select": 1})
    ]
    job = JointJob(
        method="chain", setting="vertical", parties=FOUR, aligned=True, seed=7, steps=tuple(steps)
    )
    job.check()
    homes = columns_homes(job, label=None, columns=COLUMNS)

    result = run_joint(job, homes)
    with let_seeds_drive_everything():
        coordinator, ended = at_sites(job, homes, run_joint)

    assert [step.n_selected for step in result.steps] == [3, 1]
    assert ended[coordinator].error is None, ended[coordinator].error
    assert ended[coordinator].value.selected == result.selected
