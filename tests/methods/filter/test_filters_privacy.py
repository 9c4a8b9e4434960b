"""What each role of the vertical filters sees, read from the decoded bytes."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.crypto.wire import Ciphertexts
from fedsift.engine.session import Address, Session
from fedsift.errors import PolicyViolation, UndeclaredFlow
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as wire
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import PublicArray
from helpers.arrays import bank_and_registry, labelled
from helpers.runs import received, run_filter


def params(**settings):
    return Params(**{"score": "gini", "n_features_to_select": 2, "seed": 0, **settings})


def test_feature_holders_see_no_label_in_any_message():
    X, y = labelled(64, 4)
    outcome, _ = run_filter(bank_and_registry(X, y), params())
    assert {e.message for e in outcome.transcript.view("bank")} == {
        "Introduction",
        "EncryptedLabels",
        "Selected",
    }
    (labels,) = received(outcome, "bank", wire.EncryptedLabels)
    assert isinstance(labels.columns, Ciphertexts)
    assert labels.columns.scheme == "bgv"
    indicator = (2 * y - 1).astype("<i8").tobytes()
    assert all(indicator[:64] not in blob for blob in labels.columns.blobs)


def test_two_worlds_of_labels_look_alike_to_a_feature_holder():
    """Other labels with the same selection: sizes and clear fields are equal, ciphertexts random."""
    X, y = labelled(64, 2)
    views = []
    for labels in (y, 1 - y):
        outcome, _ = run_filter(bank_and_registry(X, labels), params(n_features_to_select=2))
        views.append([(e.message, e.n_bytes) for e in outcome.transcript.view("bank")])
    assert views[0] == views[1]


def test_the_same_labels_never_give_the_same_ciphertext():
    X, y = labelled(64, 2)
    blobs = []
    for _ in range(2):
        outcome, _ = run_filter(bank_and_registry(X, y), params())
        (labels,) = received(outcome, "bank", wire.EncryptedLabels)
        blobs.append(labels.columns.blobs[0])
    assert blobs[0] != blobs[1]


def test_with_scores_the_label_holder_gets_no_counts():
    X, y = labelled(64, 4)
    outcome, _ = run_filter(bank_and_registry(X, y), params())
    kinds = {e.message for e in outcome.transcript.view("label-holder")}
    assert kinds == {"Offer", "SealedScores", "Done"}
    (offer,) = received(outcome, "label-holder", wire.Offer)
    assert (offer.n_features, offer.n_cells) == (4, 10)


def test_masked_products_do_not_depend_on_the_bins():
    """The label holder decrypts u and v itself: they are uniform whatever the bins are."""
    from fedsift.crypto.columns.api import BinnedRows, ColumnSpec
    from fedsift.crypto.columns.bgv import BGVColumnEvaluator, BGVColumnOwner

    n = 64
    y = np.where(np.arange(n) % 2, 1, -1)[:, None]
    spec = ColumnSpec(n, 1, 30, False, 10, 4)
    owner = BGVColumnOwner(y, spec)
    evaluator = BGVColumnEvaluator(owner.keys, owner.columns, spec)
    modulus = evaluator._plan.parameters[0].plain_modulus
    means = []
    for codes in (np.zeros((n, 1), int), (np.arange(n) % 2)[:, None]):
        seen = []
        for _ in range(40):
            sealed = evaluator.quadratics(BinnedRows(codes, 2))
            ((masked, _),) = owner._residues(sealed, [4, 1])
            seen.append(masked.astype(float) / modulus)
        means.append(np.mean(seen))
    # 160 uniform numbers each: the mean has standard error 0.023.
    assert all(abs(mean - 0.5) < 5 * 0.023 for mean in means)


def test_names_and_order_stay_with_the_owner():
    X, y = labelled(120, 12)
    frame = pd.DataFrame(X, columns=[f"monthly_income_{i:02}" for i in range(12)])
    orders = []
    for seed in (1, 2):
        outcome, nodes = run_filter(bank_and_registry(frame, y), params(seed=seed))
        frames = b"".join(e.frame for e in outcome.transcript.entries if e.frame)
        assert not any(name.encode() in frames for name in nodes["bank"][0].facts()["names"])
        orders.append(nodes["bank"][0].facts()["names"])
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_no_bin_below_the_minimum_reaches_the_label_holder():
    X, y = labelled(100, 3)
    X[0, 0] = 99.0
    outcome, _ = run_filter(
        bank_and_registry(X, y), params(score="mi", disclose="counts", bins=[0.0, 50.0])
    )
    (counts,) = received(outcome, "label-holder", wire.SealedCounts)
    sizes = counts.sizes.array()
    assert sizes[sizes > 0].min() >= 5


def test_a_feature_holder_may_not_send_labels_on():
    session = Session(filters.PROTOCOL, {"a": ("label holder",), "b": ("feature holder",)})
    stolen = wire.Selected((1,))
    with pytest.raises(UndeclaredFlow, match="label holder -> feature holder"):
        session.seal(stolen, Address("b", "feature holder"), Address("a", "label holder"))


def test_scores_go_back_to_their_owners_only_by_policy():
    X, y = labelled(100, 4)
    federation = bank_and_registry(X, y)
    silent = fs.FilterSelector("gini", n_features_to_select=1).fit(federation)
    assert "own-scores" not in {d.kind for d in silent.result_.disclosures}
    allowed = ("row-count", "class-count", "selection", "own-scores")
    policy = {"label-holder": fs.Policy(may_reveal=allowed)}
    open_ = fs.FilterSelector("gini", n_features_to_select=1, policy=policy).fit(federation)
    (row,) = [d for d in open_.result_.disclosures if d.kind == "own-scores"]
    assert (row.learner, row.about) == ("bank", "label-holder")


@pytest.mark.parametrize(
    ("policy", "settings", "words"),
    [
        (fs.Policy(may_reveal=("feature-count",)), {}, "feature-scores"),
        (fs.Policy(may_not_reveal=("bin-counts",)), {"score": "mi"}, "bin-counts"),
        (fs.Policy(methods=("vfps",)), {}, "method"),
        (fs.Policy(min_bin_size=20), {}, "20 rows"),
        (fs.Policy(), {"security": "plain"}, "without encryption"),
        (fs.Policy(min_security_bits=192), {}, "192-bit"),
    ],
)
def test_a_policy_refuses_before_any_message(policy, settings, words):
    X, y = labelled(100, 4)
    sent = []
    selector = fs.FilterSelector(
        **{"score": "gini", "n_features_to_select": 1, **settings}, policy={"bank": policy}
    )
    with pytest.raises(PolicyViolation, match=words) as caught:
        selector.run(bank_and_registry(X, y), observer=sent.append)
    assert sent == []
    assert caught.value.exit_code == 4


def test_auto_takes_what_the_policies_allow():
    X, y = labelled(100, 4)
    policy = {"bank": fs.Policy(may_reveal=("basic", "feature-count", "bin-counts"))}
    selector = fs.FilterSelector("gini", n_features_to_select=1, policy=policy)
    selector.fit(bank_and_registry(X, y))
    assert selector.result_.parameters["disclose"] == "counts"


def test_the_policy_is_enforced_while_the_run_goes_on():
    """A forbidden message stops the run even if nobody checked before."""
    X, y = labelled(60, 3)
    policies = {"bank": fs.Policy(may_not_reveal=("feature-scores",), min_security_bits=0)}
    with pytest.raises(PolicyViolation, match="feature-scores"):
        run_filter(bank_and_registry(X, y), params(), policies=policies)


def test_plain_runs_say_so_in_the_ledger():
    X, y = labelled(60, 3)
    selector = fs.FilterSelector("gini", n_features_to_select=1, security="plain")
    rows = selector.fit(bank_and_registry(X, y)).result_.disclosures
    assert all("PLAIN" in row.form for row in rows)
    assert selector.result_.security == "plain"
    assert selector.result_.security_bits == 0


def test_arrays_in_messages_hide_their_numbers_in_reprs():
    assert "42" not in repr(PublicArray.of(np.array([42])))
    assert "secret" not in repr(Ciphertexts("bgv", (b"secret",)))
