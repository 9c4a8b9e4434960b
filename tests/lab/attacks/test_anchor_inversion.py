"""The anchor attack succeeds against the paper's setting and fails against ours."""

import numpy as np
import pytest

import fedsift as fs
from benchmarks.suites.dcfs import attack as dcfs_attack
from benchmarks.suites.dcfs.rankings import Division, Task
from fedsift.lab.attacks import dcfs

N_FEATURES, N_ROWS = 60, 20


def task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4 * N_ROWS, N_FEATURES))
    victim, attacker, strangers, others = np.split(np.arange(4 * N_ROWS), 4)
    division = Division((victim, attacker), (strangers, others))
    return Task("noise", X, np.zeros(len(X), dtype=int), lambda rng: division, 2)


def run(n_anchors, alignment="open", target="paper"):
    return dcfs_attack.record(task(), 0, n_anchors=n_anchors, alignment=alignment, target=target)


def auc(seen):
    span = dcfs.row_span(seen.open_images, seen.anchors, "party-1", 5)
    return seen.auc(lambda rows: dcfs.membership_scores(span, rows))


def test_with_as_many_anchors_as_columns_projection_and_membership_are_recovered():
    seen = run(N_FEATURES + 5)
    recovered = dcfs.recover_projection(seen.sent["party-1"][-1], seen.anchors)
    assert np.allclose(recovered, seen.projection, rtol=1e-8, atol=1e-12)
    assert auc(seen) > 0.99


def test_with_fewer_anchors_the_projection_stays_unknown():
    seen = run(N_FEATURES // 4)
    recovered = dcfs.recover_projection(seen.sent["party-1"][-1], seen.anchors)
    error = np.linalg.norm(recovered - seen.projection) / np.linalg.norm(seen.projection)
    assert error > 0.5
    assert auc(seen) < 0.85


def test_bases_instead_of_images_hide_how_long_the_rows_of_weights_are():
    """The exact target gives the attacker two images it can use, not all of them."""
    printed, exact = (run(N_FEATURES + 5, target=t) for t in ("paper", "exact"))
    directions = [
        dcfs.row_span(seen.open_images, seen.anchors, "party-1", 5, target).shape[1]
        for seen, target in ((printed, "paper"), (exact, "exact"))
    ]
    assert directions[0] == N_ROWS
    assert directions[1] == 15


def test_with_the_default_alignment_the_attacker_sees_no_image_at_all():
    seen = run(N_FEATURES // 4, alignment="server")
    assert seen.open_images == []
    assert len(seen.alignments) == 5


def test_the_defaults_refuse_the_broken_regime():
    from fedsift.methods.dcfs.selector import DCFSSelector

    with pytest.raises(fs.errors.ParameterError, match="give a party's projection away"):
        DCFSSelector(n_anchors=N_FEATURES).fit(
            np.random.default_rng(0).normal(size=(40, N_FEATURES))
        )
