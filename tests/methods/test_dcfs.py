"""DCFS through messages: equal to the same algorithm on open data, role by role, under attack."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedsift as fs
from fedsift.errors import ColumnError, ParameterError, PartyError, PolicyViolation, ValueProblem
from fedsift.maths import anchor
from fedsift.methods import dcfs, dcfs_messages
from fedsift.runtime import run_embedded
from fedsift.selectors.dcfs import DCFSSelector
from helpers import received


def structured(n=60, m=40, seed=0):
    """Eight columns carry three clusters, the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    X[:, :8] += 3 * rng.normal(size=(3, 8))[rng.integers(0, 3, n)]
    return X


def open_dcfs(parts, params):
    """The oracle: Algorithm 1 with all data in one place."""
    pooled = np.concatenate(parts)
    mean, spread = pooled.mean(axis=0), pooled.std(axis=0)
    rng = np.random.default_rng(params.seed)
    anchors = -3.0 + 6.0 * rng.random((params.n_anchors, pooled.shape[1]))
    states = [
        anchor.Collaboration(
            (part - mean) / spread,
            anchors,
            alpha=params.alpha,
            beta=params.beta,
            n_dimensions=params.n_dimensions,
            k=params.n_neighbors,
        )
        for part in parts
    ]
    for _ in range(params.n_iterations):
        images = [state.image() for state in states]
        target = anchor.common_target(images, params.n_components)
        for state, image in zip(states, images, strict=True):
            state.align(anchor.alignment_matrix(target, image))
    return [state.scores for state in states]


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("alignment", ["server", "open"])
def test_it_equals_the_algorithm_on_open_data(alignment, parties):
    federation = fs.split_horizontal(structured(), None, parties, random_state=0)
    selector = DCFSSelector(alignment=alignment, n_features_to_select=8, random_state=5).fit(
        federation
    )
    params = selector._prepare(federation)[2]
    wanted = open_dcfs([t.numeric_matrix() for t in federation.tables.values()], params)
    for found, expected in zip(selector.party_scores_.values(), wanted, strict=True):
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert np.allclose(selector.scores_, np.mean(wanted, axis=0), atol=1e-9)


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


def test_plain_and_secure_agree():
    X = structured(90, 40)
    both = [
        DCFSSelector(n_features_to_select=8, parties=3, random_state=1, security=s).fit(X)
        for s in ("secure", "plain")
    ]
    assert np.array_equal(both[0].scores_, both[1].scores_)
    assert "PLAIN" in both[1].result_.disclosures[0].form


def test_without_a_seed_the_anchors_come_from_a_secret_only_members_share():
    federation = fs.split_horizontal(structured(), None, 3, random_state=0)
    params = dcfs.Params(n_features_to_select=5, n_anchors=10)
    nodes = dcfs.build_nodes(federation.tables, params)
    outcome = run_embedded(dcfs.PROTOCOL, nodes, keep_frames=True)
    secrets = {nodes[p][0]._secret for p in federation.tables}
    assert len(secrets) == 1
    assert len(next(iter(secrets))) == 32
    seen = b"".join(e.frame for e in outcome.transcript.view("coordinator"))
    assert next(iter(secrets)) not in seen


def test_what_the_coordinator_sees():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    params = dcfs.Params(n_features_to_select=5, n_anchors=10, seed=0)
    outcome = run_embedded(
        dcfs.PROTOCOL, dcfs.build_nodes(federation.tables, params), keep_frames=True
    )
    kinds = {e.message for e in outcome.transcript.view("coordinator")}
    assert kinds == {"Greeting", "SecretDealt", "MaskedSums", "Images", "Done"}
    images = received(outcome, "coordinator", dcfs_messages.Images, protocol=dcfs.PROTOCOL)
    assert {image.image.shape[1] for image in images} == {10}


def test_members_see_images_only_in_the_open_mode():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    for alignment, learned in (("server", False), ("open", True)):
        rows = DCFSSelector(alignment=alignment, random_state=0).fit(federation).result_.disclosures
        kinds = {d.kind for d in rows if d.learner == "party-1"}
        assert ("anchor-images" in kinds) == learned
        assert "pooled-moments" in kinds


def test_the_plan_is_what_happens_and_policies_refuse():
    federation = fs.split_horizontal(structured(), None, 2, random_state=0)
    selector = DCFSSelector(random_state=0)
    planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
    assert {(d.learner, d.kind) for d in selector.fit(federation).result_.disclosures} == planned
    policy = {"party-2": fs.Policy(may_not_reveal=("anchor-images",))}
    with pytest.raises(PolicyViolation, match="anchor-images"):
        DCFSSelector(random_state=0, policy=policy).fit(federation)


def test_ranges_of_the_parties_are_a_disclosure_of_their_own():
    rows = (
        DCFSSelector(anchor_range="parties", random_state=0).fit(structured()).result_.disclosures
    )
    assert "column-ranges" in {d.kind for d in rows}


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
    ],
)
def test_bad_settings(settings):
    with pytest.raises(ParameterError):
        DCFSSelector(**settings).fit(structured())


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
