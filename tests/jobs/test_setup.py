"""Meeting and findings: what each role is told is what is declared, and lies are noticed."""

import numpy as np
import pytest

import fedsift as fs
from fedsift.data.part import read_part
from fedsift.engine import LocalEngine, run_local
from fedsift.errors import PartyFailed, PolicyViolation
from fedsift.jobs import collect, setup
from fedsift.jobs.collect import ResultNeeds, is_fixed
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.setup_terms import (
    Agreement,
    Briefing,
    HolderAgreement,
    HolderInvitation,
    Invitation,
    OwnOutline,
    PartySetup,
    WordNumbers,
    Words,
    WordsWanted,
)
from fedsift.jobs.spec import JointJob
from fedsift.protocol import Codec, Message, PublicArray
from fedsift.protocol.policy import OPEN
from helpers.joint import (
    CLASSES,
    COLUMNS,
    REGIONS,
    columns_homes,
    horizontal,
    people,
    rows_homes,
    rows_sources,
    vertical,
)


def meet(job, homes, tamper=None):
    """The meeting of a job in one process, with all frames kept."""
    terms = job.terms(job.selector())
    setups = {party: PartySetup(home.policy, home.load) for party, home in homes.items()}
    if job.neutral is not None:
        setups[job.neutral] = PartySetup(OPEN)
    nodes = setup.build_nodes(terms, setups)
    if tamper is not None:
        tamper(nodes)
    policies = {party: home.policy for party, home in homes.items()}
    return run_local(setup.PROTOCOL, nodes, keep_frames=True, policies=policies), nodes


def told(outcome, party, protocol=setup.PROTOCOL):
    """Everything a party received, decoded from its bytes."""
    codec = Codec(protocol.messages)
    return list(outcome.transcript.messages(party, codec, list(protocol.messages)))


def leaves(value):
    """All texts and numbers in a message."""
    if isinstance(value, Message):
        value = [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, PublicArray):
        return {value.data}
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        return set().union(*(leaves(one) for one in value))
    return {value}


class TestWhoLearnsWhat:
    def test_the_coordinator_of_a_vertical_job_learns_outlines(self):
        job = vertical("filter", ("bank", "shop", "mill"), n_features_to_select=1)

        outcome, _ = meet(job, columns_homes(job))

        # Who answers first is chance.
        outlines = sorted(told(outcome, "bank"), key=lambda outline: outline.features)
        kinds = ("bin-counts", "noisy-counts", "feature-scores", "class-sums")
        assert outlines == [
            OwnOutline(78, ("region",), (), "none", kinds, None),
            OwnOutline(78, ("visits", "spend"), (), "none", kinds, None),
        ]

    def test_a_participant_learns_no_names_and_no_rows_of_other_participants(self):
        job = vertical("filter", ("bank", "shop", "mill"), n_features_to_select=1)
        terms = job.terms(job.selector())

        outcome, _ = meet(job, columns_homes(job))

        invited, agreed = told(outcome, "shop")
        assert invited == HolderInvitation(terms.version, terms.job, 80, "classes", 0)
        assert isinstance(agreed, HolderAgreement)
        assert (agreed.tables, agreed.n_features) == (("bank", "shop", "mill"), 5)
        others = {*COLUMNS["bank"], *COLUMNS["mill"], "paid", *CLASSES, *REGIONS}
        assert not others & (leaves(invited) | leaves(agreed))

    def test_only_a_setting_that_needs_it_makes_the_number_of_classes_known(self):
        for settings, n_classes in (({"outputs": 16}, 0), ({}, 2), ({"model": "linear"}, 2)):
            settings = {"protocol": "paper", **settings}
            job = vertical("fedsdg", ("bank", "shop"), **settings)
            outcome, _ = meet(job, columns_homes(job))
            assert told(outcome, "shop")[0].n_classes == n_classes

    def test_a_neutral_party_learns_totals(self):
        job = vertical("interaction", n_features_to_select=1)

        outcome, _ = meet(job, columns_homes(job))

        (brief,) = told(outcome, "cloud")
        assert isinstance(brief, Briefing)
        assert (brief.n_rows, brief.n_features, brief.labels) == (80, 6, "classes")
        assert not {name for own in COLUMNS.values() for name in own} & leaves(brief)

    def test_words_reach_a_neutral_coordinator_as_digests_and_others_not_at_all(self):
        columns = ["income", "region"]
        job = horizontal("filter", score="mi", n_features_to_select=1)

        outcome, nodes = meet(job, rows_homes(columns))

        seen = told(outcome, "coordinator")
        digests = [message.digests for message in seen if isinstance(message, Words)]
        assert len(digests) == 3
        assert all(set(one) == {"column:region", "label"} for one in digests)
        for party in ("coordinator", *job.parties):
            frames = b"".join(entry.frame for entry in outcome.transcript.view(party))
            assert not [word for word in (*CLASSES, *REGIONS) if word.encode() in frames]
        for party in job.parties:
            kinds = [type(message) for message in told(outcome, party)]
            assert Words not in kinds
            assert kinds[0] is Invitation
            assert Agreement in kinds
            assert kinds[-1] is WordNumbers
        assert nodes["west"][0].agreed.codes["west"]["label"][1] == 2

    def test_digests_of_another_job_have_nothing_to_do_with_these(self):
        columns = ["income", "region"]
        seen = []
        for score in ("mi", "gini"):
            job = horizontal("filter", score=score, n_features_to_select=1)
            outcome, _ = meet(job, rows_homes(columns))
            words = [m for m in told(outcome, "coordinator") if isinstance(m, Words)]
            seen.append({w.digests["label"].data for w in words})
        assert not seen[0] & seen[1]

    def test_no_values_and_no_labels_where_codes_are_not_common(self):
        """FPSO-FS compares no classes of different parties, so nobody is told any."""
        job = horizontal("fpso", n_rounds=1, n_iterations=1)

        outcome, _ = meet(job, rows_homes(["income", "hours"]))

        assert {type(m) for m in told(outcome, "coordinator")} == set()
        kinds = {type(message) for message in told(outcome, "third-party")}
        assert kinds == {OwnOutline}

    def test_the_ledger_names_every_disclosure_of_the_meeting(self):
        job = vertical("filter", n_features_to_select=1)

        outcome, _ = meet(job, columns_homes(job))

        rows = {(row.learner, row.about, row.kind) for row in outcome.ledger.rows()}
        assert rows == {
            ("bank", "shop", "outline"),
            ("bank", "store", "outline"),
            ("shop", "bank", "outline"),
            ("store", "bank", "outline"),
            ("shop", "bank", "total-feature-count"),
            ("store", "bank", "total-feature-count"),
        }


class TestRefusals:
    def test_what_a_list_does_not_name_is_refused(self):
        job = vertical("filter", n_features_to_select=1)
        meet(job, columns_homes(job, policies={"shop": fs.Policy(may_reveal=("basic",))}))

        for policy in (
            fs.Policy(may_reveal=("feature-count",)),
            fs.Policy(may_not_reveal=("outline",)),
            fs.Policy(may_reveal=("basic",), may_not_reveal=("outline",)),
        ):
            with pytest.raises(PolicyViolation, match=r"'outline' for OwnOutline.*'shop'"):
                meet(job, columns_homes(job, policies={"shop": policy}))

    def test_words_without_a_secret_are_refused(self):
        """A coordinator that leaves out the dealing could try guesses against plain digests."""
        job = horizontal("filter", score="mi", n_features_to_select=1)

        async def impatient(self, outlines, net):
            await net.ask("participant", WordsWanted(None, None), Words)

        def tamper(nodes):
            coordinator = nodes["coordinator"][0]
            coordinator._number_words = impatient.__get__(coordinator)

        with pytest.raises(PartyFailed, match="no secret"):
            meet(job, rows_homes(["income", "region"]), tamper)

    def test_a_coordinator_that_makes_up_columns_is_refused(self):
        job = horizontal("dcfs", labelled=False, n_features_to_select=1)

        def tamper(nodes):
            coordinator = nodes["coordinator"][0]
            coordinator._agreement = lambda agreed: Agreement(("income", "wealth"), {})

        with pytest.raises(PartyFailed, match="otherwise than it is"):
            meet(job, rows_homes(["income", "hours"]), tamper)

    def test_a_party_without_the_labels_that_the_job_uses(self):
        job = horizontal("fpso")
        homes = rows_homes(["income", "hours"])
        part = read_part("west", rows_sources(["income", "hours"])["west"][["income", "hours"]])
        homes["west"] = LocalParty.of(part)

        with pytest.raises(PartyFailed, match="'west' has no labels"):
            meet(job, homes)

    def test_one_class_at_all_parties(self):
        frame = people()[["income", "hours"]].assign(paid=CLASSES[0])
        rows = {"north": frame[:30], "south": frame[30:50], "west": frame[50:]}
        for job in (horizontal("fpso"), horizontal("filter", n_features_to_select=1)):
            homes = {
                party: LocalParty.of(read_part(party, own, label="paid"))
                for party, own in rows.items()
            }
            with pytest.raises(fs.errors.ValueProblem, match="one class only"):
                meet(job, homes)

    def test_rows_without_ids_must_be_as_many(self):
        job = vertical("filter", ("bank", "shop"), ids=False, n_features_to_select=1)
        homes = columns_homes(job)
        short = read_part("shop", people()[["visits", "spend"]][:70])
        homes["shop"] = LocalParty.of(short)

        with pytest.raises(fs.errors.AlignmentError, match="'bank' has 80 rows but 'shop' has 70"):
            meet(job, homes)

    def test_a_categorical_column_that_nobody_has(self):
        job = vertical("filter", n_features_to_select=1, categorical=("incme",))

        with pytest.raises(fs.errors.ColumnError, match="Did you mean 'income'"):
            meet(job, columns_homes(job))


class TestFindings:
    def find(self, facts, asked, *, remarks=(), coordinator=None):
        here = {
            "bank": coordinator or collect.ResultCoordinator({"shop": ("visits", "spend")}, asked),
            "shop": collect.ResultParticipant("shop", ["visits", "spend"], facts, remarks),
        }
        nodes = collect.build_nodes("bank", None, ["bank", "shop"], here)
        return run_local(collect.PROTOCOL, nodes, keep_frames=True)

    def test_the_coordinator_learns_which_feature_is_which_and_fixed_remarks(self):
        fixed = ["1 of 2 columns of 'shop' have the same value in every row."]
        own = ["shop: missing values of 1 features count as their mean.", "shop: secret 7.25"]

        outcome = self.find({"names": ["spend", "visits"], "remarks": own}, ResultNeeds(order=True))
        found = outcome.value["shop"]
        assert found.facts == {"names": ["spend", "visits"], "remarks": own[:1]}

        outcome = self.find({"remarks": own}, ResultNeeds(), remarks=fixed)
        assert outcome.value["shop"].table_remarks == tuple(fixed)
        assert all(b"7.25" not in entry.frame for entry in outcome.transcript.entries)

    def test_gates_come_by_name(self):
        facts = {"selected": ["spend"], "gate_means": np.array([0.25, 0.75])}

        found = self.find(facts, ResultNeeds(gates=True)).value["shop"].facts

        assert (found["names"], found["selected"]) == (["visits", "spend"], ["spend"])
        assert found["gate_means"].tolist() == [0.25, 0.75]

    @pytest.mark.parametrize("order", [(0, 0), (0,), (1, 2), (0, 1, 1)])
    def test_an_order_of_other_features_is_that_partys_failure(self, order, monkeypatch):
        async def lie(self, ask, net):
            return collect.SecretOrder(order)

        monkeypatch.setitem(collect.ResultParticipant.handlers, collect.OrderWanted, lie)

        with pytest.raises(PartyFailed, match="'shop'"):
            self.find({"names": ["spend", "visits"]}, ResultNeeds(order=True))

    def test_free_text_is_that_partys_failure(self, monkeypatch):
        async def chat(self, ask, net):
            return collect.Remarks(("shop: customer 12 owes 7.25.",), ())

        monkeypatch.setitem(collect.ResultParticipant.handlers, collect.RemarksWanted, chat)

        with pytest.raises(PartyFailed, match="none of the known sentences"):
            self.find({}, ResultNeeds())

    def test_remarks_name_own_columns_only(self):
        text = "a+b: column 'visits' is constant; it tells nothing."
        assert is_fixed(text, "a+b", ["visits"])
        assert not is_fixed(text, "aab", ["visits"])
        assert not is_fixed(text, "a+b", ["spend"])
        assert not is_fixed(text.replace("visits", "7.25"), "a+b", ["visits"])

    def test_no_remark_of_any_method_is_lost(self):
        """The fixed sentences are those that the methods write."""
        frame = people().assign(flat=1.0, rare=["a", *["b"] * 79])
        frame.loc[:60, "hours"] = np.nan
        columns = {"bank": ["income"], "shop": ["age", "flat", "hours"], "store": ["rare", "spend"]}
        lost = {}
        for method, parameters in {
            "filter": {"score": "mi", "n_features_to_select": 2, "security": "plain"},
            "interaction": {"n_features_to_select": 2, "security": "plain"},
            "vfps": {"n_queries": 4, "security": "plain"},
        }.items():
            own = columns | ({"store": ["spend", "clicks"]} if method == "interaction" else {})
            job = vertical(method, ids=False, **parameters)
            kinds = job.entry.schema().kinds
            policy = fs.Policy(may_reveal=("basic", *kinds), min_security_bits=0)
            tables = {
                party: frame[[*names, *(["paid"] if party == "bank" else [])]]
                for party, names in own.items()
            }
            homes = {
                party: LocalParty.of(
                    read_part(party, table, label="paid" if party == "bank" else None), policy
                )
                for party, table in tables.items()
            }
            alone = job.selector(policy=policy).fit(
                fs.Federation.vertical(tables, ("bank", "paid"))
            )
            joint = run_joint(job, homes)
            lost[method] = set(alone.result_.warnings) ^ set(joint.warnings)
            assert len(joint.warnings) > 3
        assert lost == {method: set() for method in lost}


def test_ids_outside_the_intersection_stay_at_home():
    """Neither ids nor their digests of rows that one party alone has appear in any frame."""
    job = vertical("filter", ("bank", "shop"), n_features_to_select=1)
    homes = columns_homes(job)
    frames = []

    class Keeping(LocalEngine):
        def run(self, protocol, nodes, **options):
            outcome = super().run(protocol, nodes, **(options | {"keep_frames": True}))
            frames.extend(entry.frame for entry in outcome.transcript.entries)
            return outcome

    result = run_joint(job, homes, Keeping())

    shop = set(homes["shop"].load().ids)
    alone = set(homes["bank"].load().ids) - shop
    assert len(alone) == 2
    assert result.shape["n_rows"] == 78
    everything = b"".join(frames)
    assert not [text for text in (*alone, *shop) if text.encode() in everything]
    assert not [word for word in CLASSES if word.encode() in everything]


def test_a_job_text_has_no_place_for_paths(tmp_path):
    job = JointJob.from_text(vertical("fedsdg", n_features_to_select=2).to_text())
    assert "path" not in job.to_text()
    spied = vertical("fedsdg", checkpoint=str(tmp_path))
    with pytest.raises(fs.errors.JobError, match="checkpoint"):
        JointJob.from_text(spied.to_text())
