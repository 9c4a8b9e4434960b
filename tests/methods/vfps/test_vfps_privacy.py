"""What each role of VF-PS sees, read from the decoded bytes, and what policies stop."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedsift.crypto import shuffle
from fedsift.crypto.masking import MaskingKey
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.errors import BadCiphertext, PartyFailed, PolicyViolation
from fedsift.methods.vfps import messages as wire
from fedsift.methods.vfps import zero_shares
from fedsift.methods.vfps.aggregator import Participant
from fedsift.methods.vfps.selector import VFPSSelector
from fedsift.protocol import MaskedArray, Policy
from helpers.vfps import ALL_KINDS, ALLOWING, blobs, federation, received, run

ANYBODY = SimpleNamespace(party="anybody", identity=None)
SUMS = (wire.GroupDistances, wire.PairedGroupDistances, wire.SinglePartyDistances)
WITHOUT_SINGLES = Policy(
    may_reveal=tuple(kind for kind in ALL_KINDS if kind != "single-party-distances"),
    min_security_bits=0,
)


def test_only_the_leader_holds_a_key_that_opens_distances():
    outcome = run(federation(*blobs(60, 8)), scheme="bgv", n_queries=6)
    for party in ("party-1", "party-2", "aggregator"):
        for message in received(outcome, party, wire.SharedSecret, wire.Opening):
            assert isinstance(message.keys, PublicKeys)
            # One public key of the ring; a secret key would be a second blob.
            assert len(message.keys.blobs) == 1
    parts = received(outcome, "aggregator", wire.PartialDistances)
    assert parts
    assert all(part.distances.scheme == "bgv" for part in parts)


def test_participants_receive_no_distances_and_no_sums():
    asks = {"Introduction", "SharedSecret", "Queries", "CandidatesWanted", "Choice", "Done"}
    for settings, searches in (
        ({}, {"RoundedWanted"}),
        ({"strategy": "shapley"}, {"BlockWanted", "DepthWanted"}),
    ):
        outcome = run(federation(*blobs(60, 8)), n_queries=6, **settings)
        for party in ("party-1", "party-2", "party-3", "party-4"):
            kinds = {entry.message for entry in outcome.transcript.view(party)}
            assert kinds <= asks | searches


def test_rounded_parts_look_random_and_only_their_sum_is_the_groups():
    """Decoded from the aggregator's bytes: one part is uniform, the sum is the rounded distance."""
    fed = federation(*blobs(400, 8), label_holder=None)
    outcome = run(fed, n_queries=40)
    sent = received(outcome, "aggregator", wire.RoundedParts)
    assert len(sent) >= 8
    for message in sent:
        words = message.parts.array()
        numbers = np.concatenate([zero_shares.total([line], 400) for line in words]).astype(float)
        # Rounded distances are small numbers; under a mask they fill the whole range evenly.
        assert abs(numbers.mean() / 2**21 - 0.5) < 0.05
        assert abs(numbers.std() / 2**21 - 12**-0.5) < 0.05
        assert len(np.unique(numbers)) > 0.9 * 400


def test_rounded_distances_of_a_run_go_out_once():
    from fedsift.methods.vfps.aggregator import Aggregator

    class Asking(Aggregator):
        async def _add_rounded(self, batch, runs, net):
            await super()._add_rounded(batch, runs, net)
            await super()._add_rounded(batch, runs, net)

    with pytest.raises(PartyFailed, match="second time"):
        _run_with(aggregator=Asking())


def test_the_shuffle_secret_reaches_participants_sealed_and_the_aggregator_never():
    outcome = run(federation(*blobs(60, 8)), n_queries=6)
    sealed = [m for p in range(1, 5) for m in received(outcome, f"party-{p}", wire.SharedSecret)]
    assert len({m.secret.blobs for m in sealed}) == 4
    assert not received(outcome, "aggregator", wire.SharedSecret)
    with pytest.raises(BadCiphertext, match="cannot be opened"):
        shuffle.receive(sealed[0].secret, MaskingKey.generate(), ANYBODY, "", sealed[0].dealer)


def test_pseudo_ids_change_with_every_query_and_every_run():
    secret = shuffle.new_secret()
    orders = [shuffle.SecretOrder(secret, run_number, 500).row_of for run_number in range(20)]
    assert all(sorted(order) == list(range(500)) for order in orders)
    agreement = [np.mean(a == b) for i, a in enumerate(orders) for b in orders[:i]]
    assert np.mean(agreement) < 0.01
    again = shuffle.SecretOrder(shuffle.new_secret(), 0, 500).row_of
    assert np.mean(again == orders[0]) < 0.03


def test_every_group_sum_is_over_two_others_and_nobody_is_in_two_of_one_query():
    for own in (None, 0):
        fed = federation(*blobs(80, 12), 6, label_holder=own)
        outcome = run(fed, n_queries=40, policies=None)
        leader = fed.label_holder
        asked = received(outcome, "aggregator", wire.GroupsWanted)
        seen = {}
        for ask in asked:
            assert ask.form == "separate"
            for group in ask.groups:
                others = set(group) - {leader}
                assert len(others) >= 2
                assert not others & seen.setdefault(ask.chunk, set())
                seen[ask.chunk] |= others
        assert len(asked) > 5
        rows = outcome.ledger.rows()
        assert {row.kind for row in rows if row.learner_role == "leader"} == {
            "feature-count", "nearest-rows", "candidates", "group-distances",
        }  # fmt: skip


def test_no_query_row_is_told_to_a_participant_twice():
    outcome = run(federation(*blobs(90, 12), 6), n_queries=60)
    for party in range(1, 7):
        told = received(outcome, f"party-{party}", wire.Queries)
        rows = np.concatenate([message.rows.array() for message in told])
        assert len(set(rows.tolist())) == len(rows)


def test_sums_are_blinded_afresh_for_every_group_and_query():
    """The same sum asked for twice comes back with other numbers and the same order."""
    from fedsift.methods.vfps import blinding

    for scheme in ("plain", "bgv"):
        owner = blinding.own_sums(scheme)
        evaluator = blinding.join_sums(owner.keys)
        numbers = np.arange(0, 3000, 7, dtype=np.int64)[::-1].copy()
        parts = {p: blinding.seal_vector(evaluator, numbers) for p in ("a", "b")}
        loaded = blinding.LoadedParts(evaluator, parts, len(numbers))
        half = len(numbers) // 2
        views = [
            blinding.open_vector(
                owner, loaded.blinded(["a", "b"], [half, len(numbers) - half]), len(numbers)
            )
            for _ in range(2)
        ]
        assert not np.intersect1d(views[0], views[1]).size
        for view in views:
            for segment in (view[:half], view[half:]):
                assert (np.diff(segment) < 0).all()
        scales = {int(-np.diff(segment)[0]) for segment in (views[0][:half], views[1][:half])}
        offsets = {int(view[0]) for view in views}
        assert len(offsets) == 2
        assert all(scale % 14 == 0 for scale in scales)


@pytest.mark.parametrize("scheme", ["bgv", "paillier", "plain"])
def test_blinded_sums_are_exact_at_the_ends_of_their_range(scheme):
    from fedsift.methods.vfps import blinding

    owner = blinding.own_sums(scheme)
    evaluator = blinding.join_sums(owner.keys)
    step = blinding.alignment(evaluator)
    segment = np.zeros(step * (-(-40 // step)), dtype=np.int64)
    segment[:4] = [0, 1, 2**31 - 2, 2**31 - 1]
    parts = {str(i): blinding.seal_vector(evaluator, segment) for i in range(4)}
    sealed = blinding.LoadedParts(evaluator, parts, len(segment)).blinded(
        list(parts), [len(segment)]
    )
    opened = blinding.open_vector(owner, sealed, len(segment))
    differences = (opened[:4] - opened[0]).tolist()
    factor = differences[1] // 4
    assert 0 < factor < 2**8
    assert differences == [0, 4 * factor, 4 * factor * (2**31 - 2), 4 * factor * (2**31 - 1)]


def test_a_single_party_group_is_refused_without_everybodys_permission():
    fed = federation(*blobs(80, 8))
    policies = {f"party-{i}": ALLOWING for i in range(1, 5)}
    refusing = {**policies, "party-3": WITHOUT_SINGLES}
    for policy in (None, WITHOUT_SINGLES, refusing):
        selector = VFPSSelector(
            design="separate",
            keep_own=False,
            strategy="individual",
            security="plain",
            policy=policy,
        )
        with pytest.raises(PolicyViolation, match="single-party-distances"):
            selector.fit(fed)
    allowed = VFPSSelector(
        design="separate", keep_own=False, strategy="individual", security="plain", policy=policies
    ).fit(fed)
    assert "single-party-distances" in {row.kind for row in allowed.result_.disclosures}


def test_the_message_itself_is_stopped_when_only_the_run_would_notice():
    fed = federation(*blobs(80, 8))
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        run(fed, strategy="individual", singles=True, policies=None)


def test_two_participants_need_single_party_groups_and_the_plan_says_so():
    fed = federation(*blobs(80, 8), 2)
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        VFPSSelector(strategy="group-testing", design="separate", keep_own=False).plan(fed)
    plan = VFPSSelector(
        strategy="group-testing",
        design="separate",
        keep_own=False,
        policy=dict.fromkeys(fed.tables, ALLOWING),
    ).plan(fed)
    assert any("one participant's data" in note for note in plan.notes)
    assert "single-party-distances" in {row.kind for row in plan.disclosures}


@pytest.mark.parametrize("strategy", ["greedy", "shapley", "brute-force"])
def test_a_policy_can_forbid_strategies_that_compare_overlapping_groups(strategy):
    fed = federation(*blobs(80, 8))
    policy = Policy(may_not_reveal=("paired-groups",), min_security_bits=0)
    settings = {"n_participants": 2, "n_queries": 20, "security": "plain", "policy": policy}
    with pytest.raises(PolicyViolation, match="paired-groups"):
        VFPSSelector(design="separate", keep_own=False, strategy=strategy, **settings).fit(fed)
    with pytest.raises(PolicyViolation, match="paired-groups"):
        VFPSSelector(strategy="group-testing", keep_own=False, design="shared", **settings).fit(fed)
    allowed = VFPSSelector(
        strategy="group-testing", design="separate", keep_own=False, **settings
    ).fit(fed)
    assert "paired-groups" not in {row.kind for row in allowed.result_.disclosures}


def test_the_aggregator_refuses_what_a_leader_did_not_declare():
    """A leader that asks for more than its messages say gets nothing."""
    from fedsift.methods.vfps.leader import Leader

    class Greedy(Leader):
        form, groups = "paired", None

        def _batches(self, groups, most):
            return [(self.form, list(self.wanted))]

    for form, wanted in (("separate", [("party-1", "party-2"), ("party-1", "party-3")]),
                         ("paired", [("party-1",)])):  # fmt: skip
        Greedy.form, Greedy.wanted = form, wanted
        with pytest.raises(PartyFailed, match=r"as '(separate|paired)'"):
            _run_with(Greedy, strategy="brute-force", n_participants=2)


def _run_with(leader_class=None, aggregator=None, **settings):
    from fedsift.engine import run_local
    from fedsift.methods.vfps import distances as vfps_local
    from fedsift.methods.vfps import leader as vfps

    fed = federation(*blobs(60, 8))
    params = vfps_local.Params(scheme="plain", seed=0, query_seed=0, n_queries=6, **settings)
    nodes = vfps.build_nodes(fed.tables, fed.label_holder, fed.target, params)
    if leader_class is not None:
        nodes[fed.label_holder] = (leader_class(fed.target, None, params),)
    if aggregator is not None:
        nodes[vfps.AGGREGATOR] = (aggregator,)
    return run_local(vfps.PROTOCOL, nodes, policies=dict.fromkeys(nodes, ALLOWING))


def test_a_query_asked_again_is_refused_in_separate_designs():
    from fedsift.methods.vfps.leader import Leader

    class Repeating(Leader):
        async def _collect(self, members, queries, net):
            return await super()._collect(members, [self._queries[0]] * len(queries), net)

    with pytest.raises(PartyFailed, match="second time"):
        _run_with(Repeating)


class Liar(Participant):
    """Answers with something else than what was asked for."""

    answer = None

    async def handle(self, message, net):
        reply = await super().handle(message, net)
        return self.answer(reply) or reply


def replacing(kind, lie):
    """An answer of one kind replaced by a lie; honest otherwise."""
    return lambda reply: lie(reply) if isinstance(reply, kind) else None


def rankings(block):
    return replacing(wire.SubRankings, lambda _: wire.SubRankings(*wire.joined([block] * 4)))


def distances(scheme, blob):
    lie = wire.PartialDistances(Ciphertexts(scheme, (blob,)))
    return replacing(wire.PartialDistances, lambda _: lie)


@pytest.mark.parametrize(
    ("strategy", "answer"),
    [
        ("shapley", rankings(np.zeros(70, dtype=np.int64))),
        ("shapley", rankings(np.arange(10**6, 10**6 + 70))),
        ("shapley", rankings(np.arange(3))),
        ("shapley", replacing(wire.Joined, lambda r: wire.Joined(r.key, 10**6))),
        ("group-testing", distances("plain", b"short")),
        ("group-testing", distances("bgv", b"x" * 100)),
        ("group-testing", replacing(wire.RoundedParts, lambda _: wire.RoundedParts(
            MaskedArray.of(np.zeros((1, 3), dtype=np.uint64))))),
    ],
    ids=["repeated", "unknown", "too short", "huge scale", "short distances", "other scheme",
         "rounded parts"],
)  # fmt: skip
def test_a_party_that_answers_nonsense_ends_the_run_with_a_clear_error(strategy, answer):
    from fedsift.engine import run_local
    from fedsift.methods.vfps import distances as vfps_local
    from fedsift.methods.vfps import leader as vfps

    fed = federation(*blobs(200, 8))
    params = vfps_local.Params(scheme="plain", seed=0, query_seed=0, n_queries=6, strategy=strategy)
    nodes = vfps.build_nodes(fed.tables, fed.label_holder, fed.target, params)
    liar = type("OneLiar", (Liar,), {"answer": staticmethod(answer)})
    nodes["party-2"] = (liar(fed.tables["party-2"], params),)
    with pytest.raises(PartyFailed):
        run_local(vfps.PROTOCOL, nodes, timeout_seconds=20)


def test_the_ledger_says_who_learned_what():
    selector = VFPSSelector(
        strategy="group-testing",
        design="separate",
        keep_own=False,
        n_participants=2,
        n_queries=30,
        policy=None,
        random_state=0,
    )
    result = selector.fit(federation(*blobs(300, 8))).result_
    learned = {(row.learner_role, row.kind) for row in result.disclosures}
    assert ("aggregator", "rounded-sums") in learned
    assert ("aggregator", "sub-rankings") not in learned
    assert ("leader", "group-distances") in learned
    assert ("participant", "participant-choice") in learned
    sums = next(row for row in result.disclosures if row.kind == "group-distances")
    assert sums.form.startswith("encrypted")
    assert sums.key_owner == "label-holder"
    assert result.security == "secure"
    shared = VFPSSelector(
        strategy="group-testing",
        keep_own=False,
        design="shared",
        n_queries=10,
        policy=ALLOWING,
        random_state=0,
    )
    kinds = {row.kind for row in shared.fit(federation(*blobs(300, 8))).result_.disclosures}
    assert {"sub-rankings", "common-neighbours", "paired-groups"} <= kinds
    plain = (
        VFPSSelector(
            strategy="group-testing",
            design="separate",
            keep_own=False,
            n_queries=9,
            security="plain",
        )
        .fit(federation(*blobs(60, 8)))
        .result_
    )
    assert all("PLAIN" in row.form for row in plain.disclosures)


def test_the_noise_of_a_blinded_sum_stays_below_what_the_flooding_covers(monkeypatch):
    """Factors per slot are dense polynomials; their noise must not outgrow its bound."""
    from fedsift.crypto.schemes.seal import SealPublic
    from fedsift.methods.vfps import blinding

    bounds = []
    hide = SealPublic.hide_circuit

    def measured(self, ciphertext, noise_bits):
        left = owner._owners[0].noise_budget(ciphertext)
        bounds.append((self.workspace.parameters.modulus_bits - left, noise_bits))
        return hide(self, ciphertext, noise_bits)

    monkeypatch.setattr(SealPublic, "hide_circuit", measured)
    owner = blinding.own_sums("bgv")
    evaluator = blinding.join_sums(owner.keys)
    numbers = np.random.default_rng(0).integers(0, 2**30, 8192)
    parts = {str(i): blinding.seal_vector(evaluator, numbers) for i in range(64)}
    loaded = blinding.LoadedParts(evaluator, parts, 8192)
    for _ in range(5):
        loaded.blinded(list(parts), [1] * 8192)
    assert len(bounds) == 5
    assert all(used + 2 < bound for used, bound in bounds)
