"""The anchor attack succeeds against the paper's setting and fails against ours."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import fedsift as fs
from fedsift.attacks import anchor_inversion
from fedsift.methods import dcfs, dcfs_messages
from fedsift.runtime import run_embedded
from helpers import received

N_FEATURES, N_ROWS = 60, 20


def run(n_anchors, alignment="open"):
    """One run with open frames: rows of the victim, of strangers, and what the attacker received."""
    rng = np.random.default_rng(0)
    rows = {party: rng.normal(size=(N_ROWS, N_FEATURES)) for party in ("victim", "attacker")}
    federation = fs.Federation.horizontal(rows)
    params = dcfs.Params(
        n_features_to_select=5,
        n_anchors=n_anchors,
        alignment=alignment,
        n_iterations=8,
        many_anchors=n_anchors >= N_FEATURES,
        seed=3,
    )
    nodes = dcfs.build_nodes(federation.tables, params)
    outcome = run_embedded(dcfs.PROTOCOL, nodes, keep_frames=True)
    (scale,) = received(outcome, "attacker", dcfs_messages.CommonScale, protocol=dcfs.PROTOCOL)
    seen = received(outcome, "attacker", dcfs_messages.AlignAll, protocol=dcfs.PROTOCOL)
    images = [{p: image.array() for p, image in m.images.items()} for m in seen]
    attacker = nodes["attacker"][0]
    anchors = attacker._anchors(scale.low.array(), scale.high.array())
    mean, spread = scale.mean.array(), scale.spread.array()
    strangers = rng.normal(size=(N_ROWS, N_FEATURES))
    return {
        "images": images,
        "anchors": anchors,
        "projection": nodes["victim"][0]._state.projection,
        "members": (rows["victim"] - mean) / spread,
        "strangers": (strangers - mean) / spread,
    }


def auc(seen):
    span = anchor_inversion.row_span(seen["images"], seen["anchors"], "victim", 5)
    scores = anchor_inversion.membership_scores(
        span, np.concatenate([seen["members"], seen["strangers"]])
    )
    return roc_auc_score([1] * N_ROWS + [0] * N_ROWS, scores)


def test_with_as_many_anchors_as_columns_projection_and_membership_are_recovered():
    seen = run(N_FEATURES + 5)
    recovered = anchor_inversion.recover_projection(seen["images"][0]["victim"], seen["anchors"])
    image = recovered @ seen["anchors"].T
    assert np.allclose(image, seen["images"][0]["victim"], rtol=1e-8)
    assert auc(seen) > 0.99


def test_with_the_default_number_of_anchors_it_guesses():
    """A quarter of the columns: what remains is reported, and far from certainty."""
    seen = run(N_FEATURES // 4)
    assert auc(seen) < 0.85


def test_with_the_default_alignment_the_attacker_sees_no_image_at_all():
    assert run(N_FEATURES // 4, alignment="server")["images"] == []


def test_the_defaults_refuse_the_broken_regime():
    from fedsift.selectors.dcfs import DCFSSelector

    with pytest.raises(fs.errors.ParameterError, match="give a party's projection away"):
        DCFSSelector(n_anchors=N_FEATURES).fit(
            np.random.default_rng(0).normal(size=(40, N_FEATURES))
        )
