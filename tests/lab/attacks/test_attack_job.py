"""Attacks on recorded runs: every role with what it received, and nothing else."""

import numpy as np
import pytest

import fedsift as fs
from fedsift.data import Federation, split_horizontal, split_vertical
from fedsift.errors import ConfigError
from fedsift.lab.attacks.attack import CLOSED, DECLARED, OPEN
from fedsift.lab.attacks.job import attack_run, record_federation, refuse_without_attacks
from fedsift.protocol import Policy
from helpers.fedsdg import PAPER
from helpers.vfps import PAIRING


def attacked(method, selector, federation):
    report = attack_run(record_federation(method, selector, federation), "a test")
    rows = {}
    for row in report.rows:
        rows.setdefault((row.attack, row.attacker), []).append(row)
    return rows, report


def columns(n_rows=120, n_columns=6, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 0.4).astype(int)
    X = rng.normal(size=(n_rows, n_columns)) + np.linspace(1.5, 0, n_columns) * y[:, None]
    return X, y


def test_scores_that_go_back_are_solved_for_a_lonely_label_and_that_is_declared():
    X, y = columns()
    X[:, 0] = np.arange(len(y)) == 7
    policy = {"label-holder": Policy(
        may_reveal=("row-count", "class-count", "selection", "own-scores"), min_bin_size=1
    )}  # fmt: skip
    federation = split_vertical(X, y, 1, label_holder=None, names=["bank"])
    given = {"bins": [0.5], "n_features_to_select": 1}
    shared = fs.FilterSelector("gini", min_bin_size=1, policy=policy, **given)
    (row,) = attacked("filter", shared, federation)[0][
        "bin-isolation-gini", "bank (feature holder)"
    ]
    assert (row.found, row.verdict, row.declared) == (1.0, DECLARED, ("own-scores",))
    assert row.uses == ("OwnScores",)

    rows, report = attacked("filter", fs.FilterSelector("gini", **given), federation)
    (row,) = rows["bin-isolation-gini", "bank (feature holder)"]
    assert (row.found, row.verdict, row.uses) == (0.5, CLOSED, ())
    assert any("nothing to solve" in note for note in report.notes)


@pytest.mark.parametrize(("security", "found"), [("plain", 1.0), ("secure", 0.0)])
@pytest.mark.parametrize("score", ["gini", "f"])
def test_the_coordinator_reads_sums_that_are_not_masked(score, security, found):
    X, y = columns()
    selector = fs.FilterSelector(score, n_features_to_select=2, security=security)
    rows, report = attacked("filter", selector, split_horizontal(X, y, 3, random_state=0))
    (row,) = rows["member-sums", "coordinator"]
    assert row.found == found
    # Nothing declares that a member's own sums are read: a plain run has no excuse here.
    assert row.verdict == (OPEN if security == "plain" else CLOSED)
    assert any("security = 'plain'" in note for note in report.notes) == (security == "plain")


def test_gradients_of_a_job_tell_labels_and_that_is_declared():
    X, y = columns()
    selector = fs.FedSDGSelector(
        max_epochs=3, batch_size=64, security="plain", random_state=0, **PAPER
    )
    rows, _ = attacked("fedsdg", selector, split_vertical(X, y, 2, random_state=0))
    (row,) = rows["gradient-labels", "party-2 (feature holder)"]
    assert row.found > 0.9
    assert (row.verdict, row.declared) == (DECLARED, ("embedding-gradients",))
    assert rows["weight-regression", "party-2 (feature holder)"][0].verdict == CLOSED
    assert rows["embedding-regression", "party-1 (label holder)"][0].verdict == CLOSED


def test_the_cloud_of_a_plain_job_reads_columns_and_nothing_declares_it():
    X, y = columns()
    selector = fs.InteractionSelector(n_features_to_select=1, security="plain")
    rows, report = attacked("interaction", selector, split_vertical(X, y, 2, random_state=0))
    assert {row.verdict for row in rows["cloud-columns", "cloud (cloud server)"]} == {OPEN}
    assert report.bad


def test_relevances_of_few_rows_name_the_table_of_a_two_valued_column():
    """The method's page says so: few rows and few classes have few tables."""
    X, y = columns(40)
    X[:, 5] = X[:, 5] > 0
    selector = fs.InteractionSelector(n_features_to_select=1, security="plain", random_state=0)
    federation = split_vertical(X, y, [[0, 1], [2, 3, 4, 5]], random_state=0)
    rows, _ = attacked("interaction", selector, federation)
    (row,) = rows["relevance-counts", "party-1 (label owner)"]
    assert (row.verdict, row.declared) == (DECLARED, ("relevance",))


def test_distances_and_ids_of_a_default_job_tell_nothing():
    X, y = columns(120, 4)
    selector = fs.VFPSSelector(
        strategy="group-testing", design="separate", keep_own=False, n_queries=30, random_state=0
    )
    federation = split_vertical(X, y, 4, label_holder=None, random_state=0)
    rows, _ = attacked("vfps", selector, federation)
    assert rows["distance-solving", "label-holder (leader)"][0].found == 0.0
    assert rows["distance-reconstruction", "label-holder (leader)"][0].found < 0.3
    assert rows["pseudonym-linking", "aggregator"][0].verdict == CLOSED


def test_overlapping_groups_of_a_job_are_solved_and_that_is_declared():
    X, y = columns(60, 4)
    settings = {"strategy": "shapley", "n_groups": 20, "policy": PAIRING}
    selector = fs.VFPSSelector(
        design="separate",
        keep_own=False,
        n_queries=10,
        random_state=0,
        **settings,
    )
    rows, _ = attacked("vfps", selector, split_vertical(X, y, 4, label_holder=None))
    (row,) = rows["distance-solving", "label-holder (leader)"]
    assert (row.found, row.verdict) == (1.0, DECLARED)
    assert row.uses == ("PairedGroupDistances",)


def wide(n_parties):
    X = np.random.default_rng(0).normal(size=(24 * n_parties, 120))
    parts = np.split(X, n_parties)
    return Federation.horizontal({f"p{i + 1}": part for i, part in enumerate(parts)})


def test_open_images_tell_members_from_strangers_and_that_is_declared():
    selector = fs.DCFSSelector(n_features_to_select=5, alignment="open", target="paper")
    rows, _ = attacked("dcfs", selector, wide(3))
    (row,) = rows["anchor-membership", "p1 (member)"]
    assert row.found > 0.7
    assert (row.verdict, row.uses) == (DECLARED, ("AlignAll",))


def test_two_members_have_no_strangers_to_try():
    rows, report = attacked("dcfs", fs.DCFSSelector(n_features_to_select=5), wide(2))
    assert ("anchor-membership", "p1 (member)") not in rows
    assert any("strangers" in note for note in report.notes)
    assert rows["anchor-inversion", "p1 (member)"][0].uses == ()


def test_anchors_that_follow_from_a_seed_are_no_secret():
    selector = fs.DCFSSelector(n_features_to_select=5, random_state=0)
    rows, _ = attacked("dcfs", selector, wide(2))
    found = rows["image-membership", "coordinator"]
    assert np.mean([row.found for row in found]) > 0.8
    assert {row.declared for row in found} == {("known-anchor-images",)}


def test_the_third_party_of_a_job_cannot_tell_whose_a_subset_is():
    X, y = columns(150)
    given = {"n_iterations": 2, "n_rounds": 2, "n_particles": 6, "random_state": 0}
    federation = split_horizontal(X, y, np.arange(150) % 3)
    rows, _ = attacked("fpso", fs.FPSOSelector(**given), federation)
    (row,) = rows["mask-inference", "third-party (third party)"]
    assert (row.found, row.verdict) == (row.guess, CLOSED)
    assert row.guess < 1
    (row,) = rows["accuracy-inference", "third-party (third party)"]
    assert (row.found, row.verdict) == (0.5, CLOSED)
    allowed = ("schema", "local-subset", "unnamed-subsets", "accuracies", "selection")
    by_party = {"policy": fs.Policy(may_reveal=allowed, min_security_bits=0), **given}
    rows, _ = attacked("fpso", fs.FPSOSelector(aggregation="third-party", **by_party), federation)
    (row,) = rows["mask-inference", "third-party (third party)"]
    assert (row.found, row.verdict) == (1.0, DECLARED)
    # Without masks the parts are those of their senders, whatever the ledger says of the sums.
    rows, _ = attacked("fpso", fs.FPSOSelector(security="plain", **given), federation)
    (row,) = rows["mask-inference", "third-party (third party)"]
    assert (row.found, row.verdict) == (1.0, "OPEN")
    rows, report = attacked("fpso", fs.FPSOSelector(mode="federated-fitness", **given), federation)
    assert ("mask-inference", "third-party (third party)") not in rows
    assert any("no subset to keep" in note for note in report.notes)


def test_noisy_votes_leave_a_third_party_nothing_to_profile():
    X, y = columns(150)
    selector = fs.FPSOSelector(epsilon=1.0, n_blocks=2, random_state=0)
    rows, report = attacked("fpso", selector, split_horizontal(X, y, np.arange(150) % 3))
    assert not [key for key in rows if key[1].startswith("third-party")]
    assert any("no accuracy and no subset was sent" in note for note in report.notes)


def test_a_drawn_selection_gives_feature_holders_no_score_to_solve_for():
    X, y = columns(150)
    selector = fs.FilterSelector(
        "gini", n_features_to_select=2, bins=[-1, 0, 1], release_epsilon=1.0, random_state=0
    )
    _, report = attacked("filter", selector, split_vertical(X, y, 3, random_state=0))
    assert any("no score came back" in note for note in report.notes)


def test_a_method_without_attacks_is_refused_politely():
    with pytest.raises(ConfigError, match="no attacks on the method 'chain'") as refused:
        refuse_without_attacks("chain")
    assert "step" in refused.value.action
