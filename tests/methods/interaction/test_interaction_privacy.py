"""What each role of the interaction protocol sees, read from the decoded bytes."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import split_vertical
from fedsift.engine import run_local
from fedsift.engine.session import Address, Session
from fedsift.errors import PolicyViolation, UndeclaredFlow
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction import messages as wire
from fedsift.methods.interaction.messages import Params, messages_used
from fedsift.methods.interaction.selector import InteractionSelector
from helpers.arrays import labelled
from helpers.runs import received


def run(X, y, **settings):
    federation = split_vertical(X, y, [[0], [1, 2]], label_holder=None, names=["bank", "shop"])
    params = Params(**{"n_features_to_select": 2, "seed": 0, **settings})
    nodes = interaction.build_nodes(
        federation.tables, federation.label_holder, federation.target, len(y), params
    )
    return run_local(interaction.PROTOCOL, nodes, keep_frames=True), nodes


@pytest.fixture(scope="module")
def secure():
    X, y = labelled(64, 3, 2)
    return run(X, y)


def all_messages(outcome, party):
    return received(outcome, party, *interaction.PROTOCOL.messages, protocol=interaction.PROTOCOL)


def test_the_cloud_gets_ciphertexts_keys_sizes_and_one_number_of_the_selected(secure):
    outcome, _ = secure
    seen = {e.message for e in outcome.transcript.view("cloud")}
    assert seen == {
        "Setup", "EncryptedColumns", "EncryptedLabels", "RelevanceTerms",
        "Mate", "MateColumn", "Terms", "WeightTerms",
    }  # fmt: skip
    for message in all_messages(outcome, "cloud"):
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if isinstance(value, Ciphertexts):
                assert value.scheme == "bgv"
            elif isinstance(value, PublicKeys):
                # Public, rotation and relinearisation key per prime; no secret key among them.
                assert len(value.blobs) == 3 * value.numbers["n_primes"]
            else:
                assert isinstance(value, (int, str, tuple))


def test_feature_owners_get_a_public_key_and_news_of_their_own_features(secure):
    outcome, _ = secure
    for party in ("bank", "shop"):
        seen = {e.message for e in outcome.transcript.view(party)}
        assert seen <= {"Introduction", "ColumnKey", "MateWanted", "Selected", "Done"}
    (key,) = received(outcome, "bank", wire.ColumnKey, protocol=interaction.PROTOCOL)
    assert len(key.keys.blobs) == key.keys.numbers["n_primes"]


def test_columns_never_reach_the_label_owner(secure):
    outcome, _ = secure
    assert {e.message for e in outcome.transcript.view("label-holder")} == {
        "Offer", "Done", "MaskedColumns", "SealedRelevance", "MaskedProducts", "MaskedTerms",
        "SealedWeights",
    }  # fmt: skip


def test_two_worlds_look_alike_to_the_cloud():
    """Other values and labels, same sizes and selection: clear fields and lengths are equal."""
    X, y = labelled(64, 3, 2)
    views = []
    for table, labels in ((X, y), (-3 * X + 1, 1 - y)):
        outcome, _ = run(table, labels, n_features_to_select=3)
        entries = sorted((e.message, e.n_bytes) for e in outcome.transcript.view("cloud"))
        views.append(entries)
    assert views[0] == views[1]


def test_the_ledger_says_exactly_what_is_learned():
    X, y = labelled(64, 3, 2)
    federation = split_vertical(X, y, [[0], [1, 2]], label_holder=None, names=["bank", "shop"])
    result = InteractionSelector(n_features_to_select=2, random_state=0).fit(federation).result_
    learned = {(d.learner, d.kind) for d in result.disclosures}
    assert learned == {
        ("bank", "row-count"),
        ("shop", "row-count"),
        ("label-holder", "feature-count"),
        ("cloud", "class-count"),
        ("label-holder", "relevance"),
        ("cloud", "selection"),
        ("label-holder", "interaction-weights"),
        ("bank", "selection"),
        ("shop", "selection"),
    }
    (row,) = [d for d in result.disclosures if d.kind == "relevance"]
    assert (row.about, row.form) == ("bank, shop", "encrypted, decrypted by the learner")
    planned = InteractionSelector(n_features_to_select=2).plan(federation).disclosures
    assert learned == {(d.learner, d.kind) for d in planned}


def test_what_the_label_owner_decrypts_before_the_end_is_uniform():
    """Masked columns are the only thing close to data that it opens."""
    X, y = labelled(64, 3, 2)
    seen = []
    for shift in (0.0, 5.0):
        outcome, nodes = run(X + shift * y[:, None], y, scheme="plain")
        (reply,) = received(
            outcome, "label-holder", wire.MaskedColumns, protocol=interaction.PROTOCOL
        )
        modulus = nodes["label-holder"][0]._kernel.plan.moduli[0]
        slots = np.frombuffer(reply.masked.blobs[0], "<u8")
        seen.append(slots / modulus)
    # 8192 uniform numbers each: the mean has standard error 0.0032.
    assert all(abs(values.mean() - 0.5) < 5 * 0.0032 for values in seen)
    assert not np.intersect1d(*seen).size


def test_names_and_order_stay_with_the_owner():
    X, y = labelled(40, 3, 2)
    frame = pd.DataFrame(X, columns=[f"monthly_income_{i}" for i in range(3)])
    outcome, _ = run(frame, y, scheme="plain")
    frames = b"".join(e.frame for e in outcome.transcript.entries if e.frame)
    assert b"monthly_income" not in frames


def test_the_cloud_may_not_pass_columns_on():
    placement = {"a": ("label owner",), "b": ("feature owner",), "cloud": ("cloud server",)}
    session = Session(interaction.PROTOCOL, placement)
    stolen = wire.EncryptedColumns("b", Ciphertexts("bgv", ()), Ciphertexts("bgv", ()))
    with pytest.raises(UndeclaredFlow, match="feature owner -> cloud server"):
        session.seal(stolen, Address("cloud", "cloud server"), Address("a", "label owner"))


@pytest.mark.parametrize(
    ("policy", "settings", "words"),
    [
        (fs.Policy(may_not_reveal=("interaction-weights",)), {}, "interaction-weights"),
        (fs.Policy(may_not_reveal=("shuffled-relevance",)), {"n_features_to_select": "auto"},
         "shuffled"),
        (fs.Policy(methods=("filter",)), {}, "method"),
        (fs.Policy(), {"security": "plain"}, "without encryption"),
    ],
)  # fmt: skip
def test_a_policy_refuses_before_any_message(policy, settings, words):
    X, y = labelled(40, 3, 2)
    federation = split_vertical(X, y, [[0], [1, 2]], label_holder=None, names=["bank", "shop"])
    sent = []
    selector = InteractionSelector(
        **{"n_features_to_select": 2, **settings}, policy={"shop": policy}
    )
    with pytest.raises(PolicyViolation, match=words):
        selector.run(federation, observer=sent.append)
    assert not sent


def test_one_feature_needs_no_weights_and_may_be_had_without_them():
    assert wire.SealedWeights not in messages_used(Params(n_features_to_select=1), 3)
    X, y = labelled(40, 3, 2)
    federation = split_vertical(X, y, [[0], [1, 2]], label_holder=None, names=["bank", "shop"])
    policy = {"shop": fs.Policy(may_not_reveal=("interaction-weights",))}
    found = InteractionSelector(n_features_to_select=1, policy=policy).fit(federation)
    assert found.support_.sum() == 1
