"""DCFS through messages: equal to the same algorithm on open data, role by role, under attack."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from benchmarks.baselines import oracles
from fedsift.engine import run_local
from fedsift.errors import (
    ColumnError,
    ParameterError,
    PartyError,
    PartyFailed,
    PolicyViolation,
    ValueProblem,
)
from fedsift.methods.dcfs import (
    coordinator as dcfs,
)
from fedsift.methods.dcfs import (
    messages as dcfs_messages,
)
from fedsift.methods.dcfs import (
    settings as dcfs_settings,
)
from fedsift.methods.dcfs import unsupervised
from fedsift.methods.dcfs.selector import DCFSSelector
from fedsift.protocol import PublicArray, handles
from helpers.runs import received


def structured(n=60, m=40, seed=0):
    """Eight columns carry three clusters, the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    X[:, :8] += 3 * rng.normal(size=(3, 8))[rng.integers(0, 3, n)]
    return X


POOLED = fs.Policy(
    may_reveal=tuple({m.declaration.kind for m in dcfs_messages.MESSAGES}), min_security_bits=0
)
"""Lets all rows have one scale, which has to be allowed by name."""


def scaled(parts, *, pooled=False, shared=False):
    """Every part by its own means and spreads, or by those of all rows."""
    out = []
    for part in parts:
        rows = np.concatenate(parts) if pooled else part
        spread = rows.std(axis=0)
        if shared:
            spread = np.full(len(spread), np.sqrt((spread**2).mean()))
        out.append((part - rows.mean(axis=0)) / spread)
    return out


def open_dcfs(parts, params):
    """The oracle: Algorithm 1 with all data in one place."""
    rng = np.random.default_rng(params.seed)
    anchors = -3.0 + 6.0 * rng.random((params.n_anchors, parts[0].shape[1]))
    return oracles.collaborate(
        scaled(parts, pooled=params.scale == "pooled", shared=params.scaling == "shared"),
        anchors,
        alpha=params.alpha,
        beta=params.beta,
        n_components=params.n_components,
        n_dimensions=params.n_dimensions,
        n_neighbors=params.n_neighbors,
        n_iterations=params.n_iterations,
        target=params.target,
    )


def parts_of(federation):
    return [table.numeric_matrix() for table in federation.tables.values()]


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("alignment", ["server", "open"])
@pytest.mark.parametrize("scale", ["own", "pooled"])
@pytest.mark.parametrize("settings", [{}, {"target": "paper"}, {"scaling": "shared"}])
def test_it_equals_the_algorithm_on_open_data(alignment, parties, settings, scale):
    federation = fs.split_horizontal(structured(), None, parties, random_state=0)
    settings = {"alignment": alignment, "scale": scale, "policy": POOLED, **settings}
    selector = DCFSSelector(n_features_to_select=8, random_state=5, **settings).fit(federation)
    params = selector._prepare(federation, simulated=True).params
    wanted = open_dcfs(parts_of(federation), params)
    for found, expected in zip(selector.party_scores_.values(), wanted, strict=True):
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert np.allclose(selector.scores_, np.mean(wanted, axis=0), atol=1e-9)


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("scale", ["own", "pooled"])
def test_without_anchors_it_is_the_local_baseline_and_its_mean_ranks(parties, scale):
    federation = fs.split_horizontal(structured(), None, parties, random_state=0)
    settings = {"alignment": "local", "scale": scale, "policy": POOLED}
    selector = DCFSSelector(n_features_to_select=8, **settings).fit(federation)
    parts = scaled(parts_of(federation), pooled=scale == "pooled")
    wanted = [unsupervised.local_selection(part) for part in parts]
    for found, expected in zip(selector.party_scores_.values(), wanted, strict=True):
        assert np.allclose(found, expected / expected.max(), rtol=1e-6)
    assert np.allclose(selector.scores_, oracles.borda(wanted))


def test_without_anchors_nobody_sees_more_than_mean_ranks():
    federation = fs.split_horizontal(structured(), None, 3, random_state=0)
    rows = DCFSSelector(alignment="local").fit(federation).result_.disclosures
    kinds = {d.kind for d in rows}
    assert kinds == {"schema", "pooled-scores", "selection"}
    assert kinds == {d.kind for d in DCFSSelector(alignment="local").plan(federation).disclosures}


@pytest.mark.parametrize("alignment", ["server", "open", "local"])
def test_by_default_no_sum_of_a_column_leaves_a_party(alignment):
    """Each party's numbers can change as they like: all that is sent is of scaled rows."""
    parts = np.split(structured(), 2)
    told = []
    for offset in (0.0, 1000.0):
        federation = fs.Federation.horizontal({"a": parts[0], "b": 2 * parts[1] + offset})
        selector = DCFSSelector(alignment=alignment, random_state=0).fit(federation)
        kinds = {d.kind for d in selector.result_.disclosures}
        assert not kinds & {"pooled-sums", "pooled-moments"}
        told.append(selector.scores_)
    assert np.allclose(*told, atol=1e-6)


def test_a_common_scale_has_to_be_allowed_by_name():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    with pytest.raises(PolicyViolation, match="pooled-moments"):
        DCFSSelector(scale="pooled").fit(federation)
    with pytest.raises(PolicyViolation, match="pooled-moments"):
        DCFSSelector(scale="pooled", policy={"party-1": POOLED}).fit(federation)
    selector = DCFSSelector(scale="pooled", policy=POOLED).fit(federation)
    learned = {(d.learner, d.kind) for d in selector.result_.disclosures}
    assert {("party-1", "pooled-moments"), ("coordinator", "pooled-sums")} <= learned
    planned = DCFSSelector(scale="pooled", policy=POOLED).plan(federation).disclosures
    assert {(d.learner, d.kind) for d in planned} == learned


def test_structure_comes_before_noise():
    """Of 8 structured columns among 40, chance would find 1.6."""
    hits = [
        DCFSSelector(n_features_to_select=8, parties=3, random_state=s)
        .fit(structured(300, 40, s))
        .get_support()[:8]
        .sum()
        for s in range(3)
    ]
    assert np.mean(hits) >= 5


@pytest.mark.parametrize("scale", ["own", "pooled"])
def test_plain_and_secure_agree(scale):
    X = structured(90, 40)
    settings = {"n_features_to_select": 8, "parties": 3, "random_state": 1, "policy": POOLED}
    both = [DCFSSelector(scale=scale, security=s, **settings).fit(X) for s in ("secure", "plain")]
    assert np.array_equal(both[0].scores_, both[1].scores_)
    assert "PLAIN" in both[1].result_.disclosures[0].form


def test_without_a_seed_the_anchors_come_from_a_secret_only_members_share():
    federation = fs.split_horizontal(structured(), None, 3, random_state=0)
    params = dcfs.Params(n_features_to_select=5, n_anchors=10)
    nodes = dcfs.build_nodes(federation.tables, params)
    outcome = run_local(dcfs.PROTOCOL, nodes, keep_frames=True)
    secrets = {nodes[p][0].secret for p in federation.tables}
    assert len(secrets) == 1
    assert len(next(iter(secrets))) == 32
    seen = b"".join(e.frame for e in outcome.transcript.view("coordinator"))
    assert next(iter(secrets)) not in seen
    assert {e.message for e in outcome.transcript.view("coordinator")} >= {"Images"}


def test_anchors_of_two_runs_have_nothing_in_common():
    scale = dcfs_settings.Scale(np.zeros(200), np.ones(200))
    params = dcfs.Params(n_features_to_select=5, n_anchors=50)
    one, other = (dcfs_settings.anchors_for(params, bytes([i]) * 32, scale) for i in (1, 2))
    assert np.abs(one).max() <= 3
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.05
    assert one.std() == pytest.approx(np.sqrt(3), rel=0.05)
    assert np.array_equal(one, dcfs_settings.anchors_for(params, bytes([1]) * 32, scale))


def test_a_seed_makes_anchors_known_and_the_ledger_says_so():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    kinds = {
        seed: {d.kind for d in DCFSSelector(random_state=seed).fit(federation).result_.disclosures}
        for seed in (None, 0)
    }
    assert "anchor-images" in kinds[None]
    assert "known-anchor-images" not in kinds[None]
    assert "known-anchor-images" in kinds[0]
    assert any("seed" in note for note in DCFSSelector(random_state=0).plan(federation).notes)


def test_each_member_gets_its_own_alignment_and_nothing_of_the_others():
    federation = fs.split_horizontal(structured(), None, 3, random_state=0)
    params = dcfs.Params(n_features_to_select=5, n_anchors=20)
    outcome = run_local(
        dcfs.PROTOCOL, dcfs.build_nodes(federation.tables, params), keep_frames=True
    )
    got = {}
    for party in federation.tables:
        kinds = {e.message for e in outcome.transcript.view(party)}
        assert not kinds & {"AlignAll", "Images", "ImagesOfKnownAnchors", "ImagesOfManyAnchors"}
        matrices = received(outcome, party, dcfs_messages.AlignOne, protocol=dcfs.PROTOCOL)
        assert [m.matrix.shape for m in matrices] == [(5, 10)] + [(5, 5)] * 4
        got[party] = matrices[0].matrix.array()
    assert not np.allclose(got["party-1"], got["party-2"])


def test_what_the_coordinator_sees():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    params = dcfs.Params(n_features_to_select=5, n_anchors=10)
    outcome = run_local(
        dcfs.PROTOCOL, dcfs.build_nodes(federation.tables, params), keep_frames=True
    )
    kinds = {e.message for e in outcome.transcript.view("coordinator")}
    assert kinds == {"Greeting", "SecretDealt", "MaskedScores", "Images", "Done"}
    images = received(outcome, "coordinator", dcfs_messages.Images, protocol=dcfs.PROTOCOL)
    assert {image.image.shape[1] for image in images} == {10}


def test_members_see_images_only_in_the_open_mode():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    for alignment, learned in (("server", False), ("open", True)):
        rows = DCFSSelector(alignment=alignment).fit(federation).result_.disclosures
        kinds = {d.kind for d in rows if d.learner == "party-1"}
        assert ("anchor-images" in kinds) == learned


def test_the_plan_is_what_happens_and_policies_refuse():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    selector = DCFSSelector()
    planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
    assert {(d.learner, d.kind) for d in selector.fit(federation).result_.disclosures} == planned
    policy = {"party-2": fs.Policy(may_not_reveal=("anchor-images",))}
    with pytest.raises(PolicyViolation, match="anchor-images"):
        DCFSSelector(policy=policy).fit(federation)


def test_as_many_anchors_as_columns_are_refused_unless_recorded():
    X = structured(60, 40)
    with pytest.raises(ParameterError, match="40 anchors for 40 columns"):
        DCFSSelector(n_anchors=40).fit(X)
    allowed = DCFSSelector(n_anchors=40, allow_many_anchors=True, random_state=0).fit(X)
    assert "recoverable-projection" in {d.kind for d in allowed.result_.disclosures}


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"a": ["x", "y", "z", "x"], "b": [1.0, 2, 3, 4]}, ColumnError),
        ({"a": [1.0, None, 3, 4], "b": [1.0, 2, 3, 4]}, ValueProblem),
        ({"a": [1.0, 2.0], "b": [1.0, 2.0]}, PartyError),
    ],
)
def test_bad_tables(table, error):
    import pandas as pd

    frame = pd.DataFrame(table)
    with pytest.raises(error) as caught:
        DCFSSelector(n_features_to_select=1).fit(
            fs.Federation.horizontal({"north": frame, "south": frame})
        )
    assert caught.value.needed
    assert caught.value.action


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0},
        {"beta": -1},
        {"n_anchors": 0},
        {"n_anchors": "many"},
        {"alignment": "both"},
        {"n_iterations": 0},
        {"n_components": 2.5},
        {"n_dimensions": 0},
        {"n_neighbors": -1},
        {"target": "svd"},
        {"scale": "common"},
        {"scaling": "none"},
        {"security": "none"},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ParameterError):
        DCFSSelector(**settings).fit(structured())


@pytest.mark.parametrize(
    ("anchors", "words"),
    [
        (np.zeros((10, 39)), "40 numbers each"),
        (np.zeros((10, 41)), "40 numbers each"),
        (np.zeros(40), "40 numbers each"),
        (np.full((10, 40), np.nan), "missing or infinite"),
        ([["a"] * 40], "not a table of numbers"),
        ([[1.0] * 40, [1.0]], "not a table of numbers"),
    ],
)
def test_anchors_of_the_wrong_width_or_content(anchors, words):
    with pytest.raises(ParameterError, match=words) as caught:
        DCFSSelector(anchors=anchors).fit(structured(60, 40))
    assert caught.value.needed
    assert caught.value.action


def test_public_anchors_are_scaled_like_the_rows_and_declared_as_known():
    X = structured(60, 40)
    anchors = structured(15, 40, seed=9)
    moved = DCFSSelector(anchors=5 + 2 * anchors).fit(5 + 2 * X)
    plain = DCFSSelector(anchors=anchors).fit(X)
    assert np.allclose(moved.scores_, plain.scores_, atol=1e-6)
    assert "known-anchor-images" in {d.kind for d in plain.result_.disclosures}
    assert plain.result_.parameters["n_anchors"] == 15
    with pytest.raises(ParameterError, match="45 anchors for 40 columns"):
        DCFSSelector(anchors=structured(45, 40)).fit(X)


class OtherAnchors(dcfs.Member):
    """A member that lies about its images, or runs another job."""

    @handles(dcfs_messages.ImagesWanted)
    async def start(self, ask, net):
        await super().start(ask, net)
        return dcfs_messages.Images(PublicArray.of(np.zeros((3, 7))))


def test_images_of_other_anchors_are_the_failure_of_whoever_sent_them():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    params = dcfs.Params(n_features_to_select=5, n_anchors=10)
    nodes = dcfs.build_nodes(federation.tables, params)
    nodes["party-2"] = (OtherAnchors(federation.tables["party-2"], params),)
    with pytest.raises(PartyFailed, match=r"'party-2'.*one per anchor"):
        run_local(dcfs.PROTOCOL, nodes)


def test_members_with_different_numbers_of_columns():
    X = structured(60, 40)
    wide, narrow = (fs.Federation.horizontal({"a": X[:30, :m], "b": X[30:, :m]}) for m in (40, 39))
    params = dcfs.Params(n_features_to_select=5, n_anchors=5)
    nodes = dcfs.build_nodes(wide.tables, params)
    nodes["b"] = (dcfs.Member(narrow.tables["b"], params),)
    with pytest.raises(ColumnError, match="'a' has 40 columns, party 'b' has 39"):
        run_local(dcfs.PROTOCOL, nodes)


def test_columns_are_aligned_by_name_or_refused():
    import pandas as pd

    X = pd.DataFrame(structured(60, 12), columns=[f"c{i}" for i in range(12)])
    north, south = X[:30], X[30:]
    straight = fs.Federation.horizontal({"north": north, "south": south})
    turned = fs.Federation.horizontal({"north": north, "south": south[X.columns[::-1]]})
    one, other = (
        DCFSSelector(n_features_to_select=3, random_state=0).fit(f) for f in (straight, turned)
    )
    assert np.array_equal(one.scores_, other.scores_)
    with pytest.raises(ColumnError, match="'south' has other columns"):
        fs.Federation.horizontal({"north": north, "south": south.rename(columns={"c3": "x3"})})


@pytest.mark.parametrize("scale", ["own", "pooled"])
@pytest.mark.parametrize("alignment", ["server", "local"])
def test_constant_columns_score_nothing_and_leave_the_others_alone(alignment, scale):
    X = structured(60, 40)
    X[:, 5] = 0.1  # not a sum of powers of two: rounding must not become a spread
    X[:, 6] = 1e9
    settings = {"alignment": alignment, "n_features_to_select": 8, "random_state": 0}
    scores = DCFSSelector(scale=scale, policy=POOLED, **settings).fit(X).party_scores_
    for own in scores.values():
        assert own[5] == own[6] == 0
        assert own.max() == 1


@pytest.mark.parametrize("alignment", ["server", "local"])
def test_a_column_that_is_constant_at_one_party_only(alignment):
    X = structured(60, 40)
    X[:30, 7] = 2.0
    federation = fs.Federation.horizontal({"north": X[:30], "south": X[30:]})
    scores = DCFSSelector(alignment=alignment, random_state=0).fit(federation).party_scores_
    assert scores["north"][7] == 0 < scores["south"][7]


@pytest.mark.parametrize("alignment", ["server", "local"])
@pytest.mark.parametrize("offset", [0.0, 2.0, 1000.0])
def test_offsets_and_units_of_a_party_do_not_change_its_scores(alignment, offset):
    """A site effect: by its own scale a party's rows are what they were."""
    parts = np.split(structured(90), 3)
    settings = {"alignment": alignment, "n_features_to_select": 8, "random_state": 0}
    moved = [parts[0], parts[1] + offset, 1000 * parts[2]]
    one, other = (
        DCFSSelector(**settings).fit(fs.Federation.horizontal(dict(zip("abc", rows, strict=True))))
        for rows in (parts, moved)
    )
    assert np.allclose(one.scores_, other.scores_, atol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-25, 1e14, 1e200])
@pytest.mark.parametrize("scaling", ["columns", "shared"])
def test_very_small_and_very_large_numbers_have_a_scale(size, scaling):
    rows = structured(60, 9)
    found = dcfs_settings.Scale.of_rows(size * rows, scaling)
    wanted = dcfs_settings.Scale.of_rows(rows, scaling)
    assert np.allclose(found.of(size * rows), wanted.of(rows), rtol=1e-9, atol=1e-9)


def test_nothing_but_constant_columns():
    selector = DCFSSelector(n_features_to_select=2, random_state=0).fit(np.ones((30, 5)))
    assert np.array_equal(selector.scores_, np.zeros(5))
    assert selector.get_support().sum() == 2


@pytest.mark.parametrize("alignment", ["server", "local"])
def test_the_fewest_rows_and_repeated_rows(alignment):
    X = structured(6, 12)
    X[4] = X[3]
    federation = fs.Federation.horizontal({"north": X[:3], "south": X[3:]})
    selector = DCFSSelector(
        alignment=alignment, n_features_to_select=3, policy=fs.Policy(min_class_size=1)
    ).fit(federation)
    assert all(np.isfinite(own).all() for own in selector.party_scores_.values())
    assert selector.get_support().sum() == 3


def test_pooled_spreads_keep_their_digits_far_from_zero():
    rng = np.random.default_rng(0)
    parts = [1e8 + rng.normal(size=(40, 3)), 1e8 + rng.normal(size=(60, 3))]
    totals = np.array([dcfs_settings.column_moments(p) for p in parts], dtype=object).sum(axis=0)
    scale = dcfs_settings.Scale.of_sums(totals.tolist(), "columns")
    pooled = np.concatenate(parts)
    assert np.allclose(scale.mean, pooled.mean(axis=0), rtol=1e-15)
    assert np.allclose(scale.unit, (pooled - 1e8).std(axis=0), rtol=1e-7)


def test_a_single_party_and_a_vertical_federation_are_refused():
    X = structured()
    with pytest.raises(PartyError, match="at least two"):
        DCFSSelector().fit(fs.Federation.horizontal({"only": X}))
    with pytest.raises(ParameterError, match="vertical"):
        DCFSSelector().fit(fs.split_vertical(X, np.arange(60) % 2, 2))


@pytest.mark.filterwarnings("ignore:Only . features are there:UserWarning")
@parametrize_with_checks([DCFSSelector(), DCFSSelector(n_features_to_select=1)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
