"""The same job at sites of their own: same result as in one process, and every party may refuse."""

import dataclasses

import msgspec
import pytest

import fedsift as fs
from fedsift.errors import PartyFailed, PolicyViolation
from fedsift.jobs.run import run_joint
from fedsift.protocol.policy import expand_kinds
from fedsift.testing.draws import let_seeds_drive_everything
from helpers.fedsdg import PAPER
from helpers.joint import (
    COLUMNS,
    HUB,
    at_sites,
    columns_homes,
    horizontal,
    people,
    refusal,
    rows_homes,
    rows_sources,
    vertical,
    without_proofs,
)

FIELDS = ("selected", "scores", "ranking")
QUICK_NETWORK = {
    "max_epochs": 2,
    "min_epochs": 1,
    "embedding": 2,
    "outputs": 2,
    "init": "constant",
    "batch_size": 64,
}
FOUR = ("bank", "shop", "store", "mill")
COUNTS = ("basic", "common-ids", "counts")


def played(job, homes):
    """The coordinator's result; all other sites end in order and with nothing.

    Private draws follow the seed, as they do in one process, so that numbers can be compared.
    """
    with let_seeds_drive_everything():
        coordinator, ended = at_sites(job, homes)
    assert {site: end.error for site, end in ended.items()} == dict.fromkeys(ended)
    assert [site for site, end in ended.items() if end.value is not None] == [coordinator]
    return ended[coordinator].value


def assert_same(here, there, *, but=()):
    for name in FIELDS:
        if name not in but:
            assert getattr(here, name) == getattr(there, name), name
    assert here.warnings == there.warnings
    assert here.shape == there.shape
    assert here.participants == there.participants
    ours, theirs = without_proofs(here), without_proofs(there)
    for name, own in ours.items():
        if name not in but:
            assert own == theirs[name], name


class TestVertical:
    @pytest.mark.parametrize(
        ("parameters", "label", "columns"),
        [
            ({"score": "gini"}, "paid", COLUMNS),
            ({"score": "mi", "disclose": "counts"}, "paid", COLUMNS),
            ({"score": "f"}, "amount", COLUMNS | {"mill": ["spend"]}),
            ({"score": "gini"}, "paid", COLUMNS | {"bank": []}),
            ({"score": "variance"}, None, COLUMNS | {"mill": ["spend"]}),
        ],
        ids=["gini", "counts", "regression", "labels only", "no label"],
    )
    def test_filter(self, parameters, label, columns):
        """Categories, missing values, rows that not all have, in another order at every party."""
        job = vertical("filter", FOUR, label=label, n_features_to_select=2, **parameters)
        homes = columns_homes(job, label=label, columns=columns)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        assert here.shape["n_rows"] == 74
        assert any("takes part with 74 of 80 rows" in text for text in here.warnings)
        assert here.selected == plain(job, label, columns).selected

    def test_filter_of_rows_in_the_same_order(self):
        job = vertical("filter", ids=False, n_features_to_select=2)
        homes = columns_homes(job)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        frame = people()
        federation = fs.Federation.vertical(
            {
                "bank": frame[["income", "age", "paid"]],
                "shop": frame[["visits", "spend"]],
                "store": frame[["clicks", "hours"]],
            },
            ("bank", "paid"),
        )
        alone = job.selector().fit(federation).result_
        assert (here.selected, here.scores) == (alone.selected, alone.scores)

    def test_interaction(self):
        """Its noise comes from the operating system, so scores agree up to that noise only."""
        job = vertical("interaction", n_features_to_select=2)
        homes = columns_homes(job)

        here, there = run_joint(job, homes), played(job, homes)

        assert_same(here, there, but=("scores", "history"))
        for party, scores in here.scores.items():
            assert there.scores[party] == pytest.approx(scores, abs=2**-12)
        for ours, theirs in zip(here.history, there.history, strict=True):
            assert ours.keys() == theirs.keys()
            for told in ("relevance", "weights"):
                for party, values in ours.get(told, {}).items():
                    assert theirs[told][party] == pytest.approx(values, abs=2**-12)
        assert here.parameters["operations"] == there.parameters["operations"]
        assert here.selected == plain(job).selected

    def test_stepwise(self):
        job = vertical("stepwise", n_features_to_select=2)
        homes = columns_homes(job)

        here, there = run_joint(job, homes), played(job, homes)

        assert_same(here, there)
        assert here.selected == plain(job).selected

    def test_vfps(self):
        job = vertical("vfps", FOUR, n_participants=2, n_queries=40)
        homes = columns_homes(job)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        assert any("a category of its own" in text for text in here.warnings)
        assert here.selected == plain(job).selected

    @pytest.mark.parametrize("model", ["network", "linear"])
    def test_fedsdg(self, model):
        paper = {"protocol": "paper", "model": model}
        job = vertical("fedsdg", ("bank", "shop"), **paper, **QUICK_NETWORK)
        homes = columns_homes(job, policies=dict.fromkeys(job.parties, PAPER["policy"]))

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        assert here.selected == plain(job, policy=PAPER["policy"]).selected


class TestHorizontal:
    @pytest.mark.parametrize("seed", [7, None])
    def test_filter_with_categories_and_missing_values(self, seed):
        columns = ["income", "age", "region"]
        job = horizontal("filter", score="mi", n_features_to_select=2, seed=seed)
        homes = rows_homes(columns)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        alone = plain_rows(job, columns)
        assert here.selected == alone.selected
        for party, scores in alone.scores.items():
            # A small category joins its neighbour, and without a seed their order is secret.
            compared = columns if seed is not None else ["income", "age"]
            for name in compared:
                assert here.scores[party][name] == pytest.approx(scores[name], rel=1e-12)

    def test_filter_of_a_numeric_label(self):
        job = horizontal("filter", score="f", n_features_to_select=1)
        homes = rows_homes(["income", "hours"], "amount")

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        assert here.selected == plain_rows(job, ["income", "hours"], "amount").selected

    @pytest.mark.parametrize(
        ("columns", "label"),
        [(["income", "age", "region"], "paid"), (["income", "hours", "clicks"], "amount")],
        ids=["categories and missing values", "numeric label"],
    )
    def test_stepwise(self, columns, label):
        job = horizontal("stepwise", n_features_to_select=2)
        homes = rows_homes(columns, label)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        alone = plain_rows(job, columns, label)
        assert here.selected == alone.selected
        for party, scores in alone.scores.items():
            assert here.scores[party] == pytest.approx(scores, rel=1e-6)

    def test_dcfs_uses_no_labels(self):
        job = horizontal("dcfs", labelled=False, n_features_to_select=2)
        columns = ["income", "visits", "spend", "clicks", "hours"]
        homes = rows_homes(columns)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        assert here.selected == plain_rows(job, columns, labelled=False).selected

    def test_fpso_keeps_every_partys_own_accuracy_at_home(self):
        job = horizontal("fpso", n_rounds=2, n_iterations=4)
        columns = ["income", "visits", "spend", "hours"]
        homes = rows_homes(columns)

        here = run_joint(job, homes)

        assert_same(here, played(job, homes))
        assert here.participants == {}
        assert {entry["party"] for entry in here.history[:-1]} == {"*"}
        assert set(here.history[-1]) == {"found_in", "n_subsets"}  # of subsets without owners
        alone = plain_rows(job, columns)
        assert here.selected == alone.selected
        assert set(alone.participants) == set(job.parties)


def plain(job, label="paid", columns=COLUMNS, policy=None):
    """The estimator alone, on the rows that all parties have, in the bank's order."""
    frame = people().drop(index=[10 * n + k for n in range(1, len(job.parties)) for k in (0, 1)])
    tables = {
        party: frame[[*columns[party], *([label] if label and party == "bank" else [])]]
        for party in job.parties
    }
    federation = fs.Federation.vertical(tables, None if label is None else ("bank", label))
    return job.selector(policy=policy).fit(federation).result_


def plain_rows(job, columns, label="paid", labelled=True):
    sources = rows_sources(columns, label)
    if not labelled:
        sources = {party: rows.drop(columns=label) for party, rows in sources.items()}
    federation = fs.Federation.horizontal(sources, label if labelled else None)
    return job.selector().fit(federation).result_


def refused_with(job, homes, party, policy):
    """The error of a run with another policy of one party, and the messages that it sent."""
    homes = {**homes, party: dataclasses.replace(homes[party], policy=policy)}
    received = []

    def watching(job, own, engine):
        return run_joint(job, own, engine, observer=received.append)

    error = refusal(job, homes, watching)
    return error, {step.message for step in received if step.sender == party}


class TestRefusals:
    @pytest.mark.parametrize(
        ("policy", "word"),
        [
            (fs.Policy(methods=("vfps",)), "'filter'"),
            (fs.Policy(min_security_bits=256, may_reveal=COUNTS), "128-bit"),
            (fs.Policy(min_bin_size=30, may_reveal=COUNTS), "bins of 5 rows"),
            (fs.Policy(min_rows=79), "at least 79 rows"),
            (fs.Policy(min_rows=77, may_reveal=COUNTS), "at least 77 rows"),
            (fs.Policy(may_not_reveal=("outline",)), "'outline'"),
            (fs.Policy(may_not_reveal=("common-ids",)), "'common-ids'"),
            (fs.Policy(may_not_reveal=("named-scores",)), "'named-scores'"),
            (fs.Policy(may_reveal=("outline", "row-count", "common-ids", "counts")), "'remarks'"),
            (fs.Policy(may_reveal=("basic", "feature-count", "common-ids")), "'bin-counts'"),
            (fs.Policy(may_not_reveal=("bin-counts",)), "'bin-counts'"),
        ],
        ids=[
            "method",
            "weak key",
            "small bins",
            "few rows",
            "few common rows",
            "outline",
            "alignment",
            "findings",
            "remarks not listed",
            "not listed",
            "forbidden",
        ],
    )
    def test_a_party_refuses_by_its_own_policy(self, policy, word):
        job = vertical("filter", score="mi", n_features_to_select=2)
        homes = columns_homes(job, policies={"shop": policy})
        received = []

        def watching(job, own, engine):
            observer = received.append if "bank" in engine.home else None
            return run_joint(job, own, engine, observer=observer)

        error = refusal(job, homes, watching)

        assert isinstance(error, PolicyViolation)
        assert error.exit_code == 4
        assert "'shop'" in str(error)
        assert word in str(error)
        messages = {step.message for step in received if step.receiver == "bank"}
        allowed = {"OwnOutline", "Done", "Fault"}
        if (policy.may_reveal and word.startswith("'")) or policy.may_not_reveal:
            # Lists of kinds are compared with the job before the shop says anything.
            assert not [s for s in received if s.sender == "shop" and s.message == "OwnOutline"]
        if policy.min_rows == 77:  # how many rows are common is known only after the alignment
            allowed |= {"BlindedSet", "TwiceBlinded"}
        assert messages <= allowed

    @pytest.mark.parametrize(
        ("method", "kind", "options"),
        [
            ("filter", "feature-scores", {"n_features_to_select": 5}),
            ("filter", "feature-count", {"score": "f", "label": "amount"}),
            ("filter", "feature-count", {"score": "variance", "label": None}),
            ("interaction", "feature-count", {"n_features_to_select": 2}),
            ("vfps", "shuffled-sums", {"n_participants": 2, "n_queries": 12}),
            ("fedsdg", "gate-sums", {}),
        ],
    )
    def test_a_party_that_misses_a_kind_of_the_method_sends_nothing(self, method, kind, options):
        """Neither a participant nor the coordinator, whatever the method needs."""
        label = options.get("label", "paid")
        job = vertical(method, FOUR, **options)
        columns = COLUMNS | {"mill": ["spend"]}
        missing = fs.Policy(may_not_reveal=(kind,))

        error, sent = refused_with(
            job, columns_homes(job, label=label, columns=columns), "shop", missing
        )

        assert f"{kind!r}" in str(error)
        assert "'shop'" in str(error)
        assert sent <= {"Fault", "Done"}

    @pytest.mark.parametrize("score", ["f", "gini"])
    def test_scores_of_a_numeric_label_have_to_be_named_before_a_party_says_anything(self, score):
        job = vertical("filter", FOUR, score=score, label="amount", n_features_to_select=2)
        homes = columns_homes(job, label="amount", columns=COLUMNS | {"mill": ["spend"]})

        error, sent = refused_with(job, homes, "shop", fs.Policy())

        assert isinstance(error, PolicyViolation)
        assert "add 'numeric-scores' to may_reveal (or the set 'scores')" in str(error)
        assert sent <= {"Fault", "Done"}
        allowing = fs.Policy(may_reveal=("basic", "common-ids", "scores"))
        homes["shop"] = dataclasses.replace(homes["shop"], policy=allowing)
        assert_same(run_joint(job, homes), played(job, homes))

    @pytest.mark.parametrize(
        ("method", "kind", "options"),
        [
            ("filter", "class-count", {"n_features_to_select": 2}),
            ("fedsdg", "training-rows", {}),
            ("interaction", "class-count", {"n_features_to_select": 2}),
        ],
    )
    def test_a_coordinator_that_misses_a_kind_does_not_even_invite(self, method, kind, options):
        job = vertical(method, **options)
        missing = fs.Policy(may_not_reveal=(kind,))

        error, sent = refused_with(job, columns_homes(job), "bank", missing)

        assert f"{kind!r}" in str(error)
        assert sent <= {"Fault", "Done"}

    @pytest.mark.parametrize(
        ("method", "kind", "options", "labelled"),
        [
            ("filter", "pooled-sums", {"score": "mi"}, True),
            ("dcfs", "anchor-images", {"n_features_to_select": 1}, False),
            ("fpso", "unnamed-subsets", {"n_rounds": 2, "n_iterations": 4}, True),
        ],
    )
    def test_a_party_with_its_own_rows_sends_nothing_either(self, method, kind, options, labelled):
        job = horizontal(method, labelled=labelled, **options)
        homes = rows_homes(["income", "visits", "spend"])
        missing = fs.Policy(may_not_reveal=(kind,))

        error, sent = refused_with(job, homes, "south", missing)

        assert f"{kind!r}" in str(error)
        assert sent <= {"Fault", "Done"}

    def test_lists_that_fit_the_job_and_not_each_other_stop_it_later(self):
        """The shop gives scores only and the store counts only, which neither could know before."""
        job = vertical("filter", score="gini", n_features_to_select=2)
        counts = tuple(kind for kind in expand_kinds(COUNTS) if kind != "feature-scores")
        homes = columns_homes(job, policies={"store": fs.Policy(may_reveal=counts)})
        scores = fs.Policy(may_reveal=("basic", "common-ids", "scores"))

        error, sent = refused_with(job, homes, "shop", scores)

        assert isinstance(error, PolicyViolation)
        assert "'store'" in str(error)
        assert "OwnOutline" in sent

    def test_a_count_that_a_policy_wants_to_see_is_not_told(self):
        job = vertical("filter", n_features_to_select=2)
        homes = columns_homes(job, policies={"shop": fs.Policy(min_rows=90)})

        assert "78" not in str(refusal(job, homes))

    def test_the_coordinators_own_policy_holds_too(self):
        job = vertical("filter", n_features_to_select=2)
        homes = columns_homes(job, policies={"bank": fs.Policy(may_not_reveal=("outline",))})

        assert isinstance(refusal(job, homes), PolicyViolation)

    def test_what_a_policy_allows_decides_settings_at_every_site(self):
        """The store gives counts only, so all take counts; nobody else knows its policy."""
        job = vertical("filter", score="gini", n_features_to_select=2)
        kinds = ("basic", "common-ids", "feature-count", "bin-counts")
        homes = columns_homes(job, policies={"store": fs.Policy(may_reveal=kinds)})

        result = played(job, homes)

        assert result.parameters["disclose"] == "counts"
        assert_same(run_joint(job, homes), result)

    def test_a_site_with_another_version_is_refused(self):
        job = vertical("filter", n_features_to_select=2)
        older = msgspec.structs.replace(job, version="0.0.1")

        def script(job, own, engine):
            return run_joint(older if "shop" in engine.home else job, own, engine)

        error = refusal(job, columns_homes(job), script)

        assert isinstance(error, PartyFailed)
        assert (error.party, error.cause_code) == ("shop", "E404")
        assert "0.0.1" in str(error)

    def test_a_site_with_another_job_is_refused(self):
        job = vertical("filter", n_features_to_select=2)
        other = vertical("filter", n_features_to_select=3)

        def script(job, own, engine):
            return run_joint(other if "store" in engine.home else job, own, engine)

        error = refusal(job, columns_homes(job), script)

        assert (error.party, error.cause_code) == ("store", "E404")

    def test_data_that_does_not_fit_is_found_before_it_is_used(self):
        job = vertical("filter", FOUR, score="f", n_features_to_select=2)

        error = refusal(job, columns_homes(job))

        assert isinstance(error, PartyFailed)
        assert (error.party, error.message, error.cause_code) == ("mill", "HolderAgreement", "E101")

    def test_other_columns_at_one_party(self):
        job = horizontal("dcfs", labelled=False, n_features_to_select=1)
        homes = rows_homes(["income", "spend"])
        homes["south"] = rows_homes(["income", "clicks"])["south"]

        coordinator, ended = at_sites(job, homes)

        assert coordinator == HUB
        assert ended[HUB].error.code == "E101"
        assert "'south'" in str(ended[HUB].error)
