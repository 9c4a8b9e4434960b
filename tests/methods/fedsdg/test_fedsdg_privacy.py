"""What each role of FedSDG-FS sees, read from the decoded bytes, and what policies stop."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from fedsift.crypto.layer.api import exact_product, reduced
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.engine.session import Address, Session
from fedsift.errors import FedsiftError, PolicyViolation, UndeclaredFlow
from fedsift.lab.attacks.fedsdg.views import record
from fedsift.methods.fedsdg import label_holder as fedsdg
from fedsift.methods.fedsdg import messages as wire
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.protocol import MaskedArray, Policy, PublicArray
from fedsift.protocol.message import NOTHING
from helpers.fedsdg import PAPER, moons, params, parties, train
from helpers.runs import received

HOLDER = "label-holder"
SCHEMES = ("bgv", "plain")


def all_messages(outcome, party):
    return received(outcome, party, *fedsdg.PROTOCOL.messages, protocol=fedsdg.PROTOCOL)


def some(outcome, party, *types):
    return received(outcome, party, *types, protocol=fedsdg.PROTOCOL)


@pytest.fixture(scope="module")
def secure():
    return train(parties(*moons()), params(scheme="bgv", init="gini", max_epochs=1))


@pytest.fixture(scope="module")
def plain():
    return train(parties(*moons()), params(max_epochs=1))


# Who gets what


def test_the_label_holder_gets_ciphertexts_masked_numbers_and_declared_counts(secure):
    outcome, _ = secure
    fields = {
        (type(message).__name__, name): type(getattr(message, name))
        for message in all_messages(outcome, HOLDER)
        for name in message.__struct_fields__
    }
    assert fields == {
        ("Ready", "n_features"): int,
        ("Offer", "n_features"): int,
        ("Offer", "n_cells"): int,
        ("Offer", "frequencies"): bool,
        ("SealedScores", "scores"): Ciphertexts,
        ("LayerKeys", "keys"): PublicKeys,
        ("LayerKeys", "mask_key"): PublicKeys,
        ("LayerKeys", "used"): PublicArray,
        ("WeightShare", "share"): MaskedArray,
        ("EncryptedBatch", "embedding"): Ciphertexts,
        # Validation comes last, and needs no share.
        ("EncryptedBatch", "share"): type(None),
        ("OutputShare", "outputs"): MaskedArray,
        ("OpenGates", "n_features"): int,
        ("OpenGates", "n_embeddings"): int,
    }
    for batch in some(outcome, HOLDER, wire.EncryptedBatch):
        assert batch.embedding.scheme == "bgv"
        assert batch.share is None or batch.share.scheme == "bgv"
    for keys in some(outcome, HOLDER, wire.LayerKeys):
        assert keys.used.dtype == "|b1"
        assert keys.used.array().all()


def test_a_feature_holder_gets_ciphertexts_row_numbers_and_declared_numbers(secure):
    outcome, _ = secure
    for party in ("party-1", "party-2"):
        kinds = {}
        for message in all_messages(outcome, party):
            for name in message.__struct_fields__:
                value = getattr(message, name)
                kinds.setdefault(type(value), set()).add(f"{type(message).__name__}.{name}")
                assert not isinstance(value, Ciphertexts) or value.scheme == "bgv"
        assert kinds.pop(Ciphertexts) == {
            "EncryptedLabels.columns", "MaskedOutputs.outputs", "Gradients.weights",
            "Gradients.embedding",
        }  # fmt: skip
        assert kinds.pop(PublicArray) == {
            "TrainingStart.training", "TrainingStart.validation", "GateStart.means",
            "BatchWanted.rows", "Gradients.next_rows",
        }  # fmt: skip
        assert kinds.pop(PublicKeys) == {"EncryptedLabels.keys"}
        assert kinds.pop(dict) == {"MaskKeys.keys"}
        assert kinds.pop(tuple) == {"KeepEpochs.epochs"}
        # What is left are settings and counts; none of them belongs to a row.
        assert kinds == {
            str: {"Introduction.score", "EncryptedLabels.way"},
            bool: {"BatchWanted.training"},
            int: {
                "TrainingStart.n_rows", "TrainingStart.resume_from", "TotalFeatures.n_features",
                "Introduction.n_rows", "EncryptedLabels.n_classes", "EncryptedLabels.most_cells",
                "EncryptedLabels.most_features", "LayerWanted.batch_size",
                "LayerWanted.n_outputs", "EpochEnd.epoch", "ReturnTo.epoch",
            },
        }  # fmt: skip


def test_feature_holders_never_hear_from_each_other(secure):
    outcome, _ = secure
    pairs = {(entry.sender, entry.receiver) for entry in outcome.transcript.entries}
    assert all(HOLDER in pair for pair in pairs)
    placement = {HOLDER: ("label holder",), "a": ("feature holder",), "b": ("feature holder",)}
    session = Session(fedsdg.PROTOCOL, placement)
    stolen = wire.OpenGates(1, 1)
    with pytest.raises(UndeclaredFlow, match="feature holder -> label holder"):
        session.seal(stolen, Address("a", "feature holder"), Address("b", "feature holder"))


def test_where_gates_start_is_rough(secure):
    outcome, _ = secure
    for told in some(outcome, "party-1", wire.GateStart):
        steps = told.means.array() * 64
        assert (steps == np.rint(steps)).all()


def test_the_label_holder_has_no_key_of_a_layer(secure):
    _, nodes = secure

    def keys(value, depth=4):
        if depth == 0 or isinstance(value, (str, bytes, int, float, np.ndarray, type(None))):
            return []
        inner = value.values() if isinstance(value, dict) else vars(value).values() if hasattr(
            value, "__dict__") else []  # fmt: skip
        found = [value] if type(value).__name__ in {"BGVMatrixOwner", "SealOwner"} else []
        return found + [key for item in inner for key in keys(item, depth - 1)]

    assert keys(nodes[HOLDER][0]) == []
    assert keys(nodes["party-1"][0])


def test_names_stay_with_their_owner():
    import pandas as pd

    X, y = moons()
    frame = pd.DataFrame(X, columns=[f"monthly_income_{i}" for i in range(X.shape[1])])
    outcome, _ = train(parties(frame, y), params(init="gini", n_features_to_select=2, refit=True))
    frames = b"".join(e.frame for e in outcome.transcript.entries if e.frame)
    assert b"monthly_income" not in frames


# No values in the bytes


def pieces(recording, party, table):
    """Cells and embeddings as bytes, long enough not to occur by chance."""
    cells = [np.float64(v).tobytes() for v in table.ravel()[:40]]
    embeddings = [
        view.embedding[row, :2].astype("<i8").tobytes()
        for view in recording.features[party]
        for row in range(0, len(view.embedding), 2)
        if np.abs(view.embedding[row, :2]).min() > 20
    ]
    assert len(embeddings) > 10
    return cells, embeddings


@pytest.mark.parametrize("scheme", SCHEMES)
def test_neither_cells_nor_embeddings_occur_in_any_bytes(scheme):
    X, y = moons()
    federation = parties(X, y)
    recording = record(federation, params(scheme=scheme, max_epochs=1), keep_frames=True)
    frames = b"".join(e.frame for e in recording.stage.outcome.transcript.entries if e.frame)
    columns = [c.as_floats() for c in federation.tables["party-1"].columns]
    cells, embeddings = pieces(recording, "party-1", np.stack(columns, axis=1))
    assert not any(piece in frames for piece in cells)
    # Without encryption embeddings lie open, so this search can find them.
    assert any(piece in frames for piece in embeddings) == (scheme == "plain")


def uniform_parts(outcome, modulus, *types):
    """Masked numbers the label holder received, as shares of the ring."""
    numbers = []
    for message in some(outcome, HOLDER, *types):
        array = message.share if isinstance(message, wire.WeightShare) else message.outputs
        values = array.array()
        numbers.append(values.astype(object).ravel() % modulus)
    return np.concatenate(numbers).astype(float) / modulus


def test_two_worlds_look_alike_to_the_label_holder():
    """Other values, same sizes: lengths are equal, masked numbers have one distribution."""
    X, y = moons()
    lengths, seen = [], []
    for table in (X, np.random.default_rng(9).exponential(size=X.shape) * 50):
        recording = record(parties(table, y), params(), keep_frames=True)
        view = recording.stage.outcome.transcript.view(HOLDER)
        lengths.append([(e.sender, e.message, e.n_bytes) for e in view if e.message != "OpenGates"])
        both = (wire.WeightShare, wire.OutputShare)
        seen.append(uniform_parts(recording.stage.outcome, recording.modulus, *both))
    assert sorted(lengths[0]) == sorted(lengths[1])
    for numbers in seen:
        assert len(numbers) > 1000
        assert kstest(numbers, "uniform").pvalue > 1e-4
    assert ks_2samp(*seen).pvalue > 1e-4
    assert not np.intersect1d(*seen).size


@pytest.mark.parametrize("n_parties", [2, 3])
def test_one_output_share_is_uniform_and_only_the_sum_opens(n_parties):
    recording = record(parties(*moons(), n_parties), params(max_epochs=1), keep_frames=True)
    modulus, codec_types = recording.modulus, wire.OutputShare
    sent = {party: [] for party in recording.features}
    senders = [
        e.sender
        for e in recording.stage.outcome.transcript.view(HOLDER)
        if e.message == "OutputShare"
    ]
    messages = some(recording.stage.outcome, HOLDER, codec_types)
    for sender, message in zip(senders, messages, strict=True):
        sent[sender].append(message.outputs.array().astype(object))
    allowed = 4 * 2**recording.params.numbers.weight_bits
    for batch, view in enumerate(recording.labels):
        total, parts = 0, []
        for party, views in recording.features.items():
            own = exact_product(
                views[batch].embedding, recording.weights(party, batch), modulus
            ).astype(object)
            opened = sent[party][batch] - view.masks[party].astype(object)
            parts.append(reduced(opened - own, modulus).astype(float) / modulus)
            total = total + opened
        # Without the others' shares a party's part stays under a mask as large as the ring ...
        for part in parts:
            assert np.abs(part).mean() > 0.15
        # ... and all together they are the outputs.
        assert (reduced(total, modulus) == view.outputs).all()
        truth = sum(
            v[batch].embedding.astype(object) @ recording.weights(p, batch).astype(object)
            for p, v in recording.features.items()
        )
        assert np.abs(view.outputs - truth).max() <= allowed


def test_masks_are_new_for_every_batch():
    recording = record(parties(*moons()), params(), keep_frames=True)
    arrays = [m.outputs.data for m in some(recording.stage.outcome, HOLDER, wire.OutputShare)]
    assert len(set(arrays)) == len(arrays)
    masks = [view.masks["party-1"].tobytes() for view in recording.labels]
    assert len(set(masks)) == len(masks)


# Ciphertexts


def test_a_feature_holder_cannot_open_what_is_meant_for_another(secure):
    outcome, nodes = secure
    owners = [nodes[party][0]._layer._owner for party in ("party-1", "party-2")]
    told = some(outcome, "party-1", wire.MaskedOutputs, wire.Gradients)
    sealed = [
        (type(owners[0]).decrypt_output, m.outputs) if isinstance(m, wire.MaskedOutputs)
        else (type(owners[0]).decrypt_input_gradient, m.embedding) for m in told
    ]  # fmt: skip
    assert len(sealed) > 4
    for decrypt, ciphertext in sealed:
        right = decrypt(owners[0], ciphertext)
        try:
            wrong = decrypt(owners[1], ciphertext)
        except FedsiftError:
            continue
        assert (right == wrong).mean() < 0.01


def test_the_same_training_never_sends_the_same_ciphertext():
    """Same seed, same numbers: every ciphertext is new all the same, in both directions."""
    seen, losses = [], []
    for _ in range(2):
        outcome, _ = train(parties(*moons(80)), params(scheme="bgv", max_epochs=1))
        blobs = [
            blob
            for party in (HOLDER, "party-1", "party-2")
            for m in some(outcome, party, wire.EncryptedBatch, wire.MaskedOutputs, wire.Gradients)
            for name in m.__struct_fields__
            if isinstance(getattr(m, name), Ciphertexts)
            for blob in getattr(m, name).blobs
        ]
        assert len(set(blobs)) == len(blobs) > 20
        seen.append(set(blobs))
        losses.append(outcome.value.history[0]["training_loss"])
    assert losses[0] == losses[1]
    assert not seen[0] & seen[1]


# Plan, ledger, policy


@pytest.mark.parametrize("n_parties", [1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"init": "gini"},
        {"init": "gini", "gates": "input"},
        {"init": "gini", "gates": "none"},
        {"gates": "none"},
        {"refit": True},
        {"n_features_to_select": 2},
        {"n_features_to_select": 3, "refit": True, "init": "gini"},
    ],
    ids=lambda s: " ".join(f"{k}={v}" for k, v in s.items()) or "constant",
)
def test_what_is_planned_is_what_is_sent(n_parties, settings):
    chosen = params(**settings)
    outcome, _ = train(parties(*moons(), n_parties), chosen)
    sent = {e.message for e in outcome.transcript.entries} - {"Done"}
    used = wire.messages_used(chosen, n_parties)
    planned = {cls.__name__ for cls in used}
    if chosen.refit:
        # Who has nothing selected leaves before the refit: the last two may become one.
        assert sent <= planned
        assert planned - sent <= {"SingleOutputs"}
    else:
        assert sent == planned
    learned = {row.kind for row in outcome.ledger.rows()}
    announced = {cls.declaration.kind for cls in used if cls.__name__ in sent} - {NOTHING}
    assert learned == announced


def test_single_outputs_are_declared_as_what_they_are():
    kinds = {}
    for n_parties in (1, 2):
        outcome, _ = train(parties(*moons(), n_parties), params())
        rows = outcome.ledger.rows()
        kinds[n_parties] = {r.kind for r in rows if "layer-outputs" in r.kind}
    assert kinds == {1: {"single-layer-outputs"}, 2: {"layer-outputs"}}


@pytest.mark.parametrize(
    ("party", "kind", "n_parties", "settings"),
    [
        (HOLDER, "embedding-gradients", 2, {}),
        (HOLDER, "gate-start", 2, {}),
        ("party-1", "single-layer-outputs", 1, {}),
        ("party-2", "single-layer-outputs", 2, {"refit": True}),
        ("party-1", "open-gates", 2, {}),
        ("party-1", "feature-scores", 2, {"n_features_to_select": 2, "init": "constant"}),
    ],
)
def test_a_policy_refuses_before_any_message(party, kind, n_parties, settings):
    sent = []
    given = PAPER["policy"]
    policies = dict.fromkeys((HOLDER, "party-1", "party-2")[: n_parties + 1], given)
    policies[party] = dataclasses.replace(given, may_not_reveal=(kind,))
    selector = FedSDGSelector(protocol="paper", **settings, policy=policies)
    with pytest.raises(PolicyViolation, match=kind) as refused:
        selector.run(parties(*moons(), n_parties), observer=sent.append)
    assert party in str(refused.value)
    assert not sent


def test_without_that_policy_summed_outputs_need_no_permission_for_single_ones():
    policy = dataclasses.replace(PAPER["policy"], may_not_reveal=("single-layer-outputs",))
    policies = {HOLDER: PAPER["policy"], "party-1": policy, "party-2": policy}
    outcome, _ = train(parties(*moons()), params(), policies=policies)
    assert outcome.value.history
    with pytest.raises(PolicyViolation, match="single-layer-outputs"):
        train(parties(*moons(), 1), params(), policies={HOLDER: policy, "party-1": policy})


def test_a_run_without_encryption_is_refused_by_default_policies():
    sent = []
    with pytest.raises(PolicyViolation, match="without encryption"):
        FedSDGSelector(security="plain", policy=Policy()).run(
            parties(*moons()), observer=sent.append
        )
    assert not sent


def test_reprs_of_messages_show_no_numbers(plain):
    outcome, _ = plain
    for message in some(outcome, HOLDER, wire.WeightShare, wire.OutputShare):
        assert "data" not in repr(message)
        assert len(repr(message)) < 100
