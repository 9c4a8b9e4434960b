"""What each role of the blind protocol sees, read from the decoded bytes, and what it refuses."""

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.metrics import roc_auc_score

from fedsift.crypto.products.between_two import moduli
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import split_vertical
from fedsift.errors import FedsiftError, ParameterError, PartyFailed, PolicyViolation
from fedsift.methods.execution import execute
from fedsift.methods.fedsdg.blind import label_holder as blind
from fedsift.methods.fedsdg.blind import messages as wire
from fedsift.methods.fedsdg.blind.columns import HeldColumns, HelperWeights, PartnerWeights
from fedsift.methods.fedsdg.blind.gates import Gates
from fedsift.methods.fedsdg.blind.helper import HelperNetwork
from fedsift.methods.fedsdg.blind.layer import SharedLayer
from fedsift.methods.fedsdg.blind.numbers import ring
from fedsift.methods.fedsdg.blind.params import most_openings
from fedsift.methods.fedsdg.selector import FedSDGSelector
from fedsift.protocol import MaskedArray, Policy, PublicArray
from fedsift.protocol.message import NOTHING
from fedsift.report.live import LiveView
from helpers.blind import params, train
from helpers.fedsdg import moons, parties
from helpers.runs import received

HOLDER = "label-holder"


def some(outcome, party, *types):
    return received(outcome, party, *types, protocol=blind.PROTOCOL)


def fields_of(outcome, party):
    """Types of everything a party was sent, by message and field."""
    found = {}
    for message in some(outcome, party, *blind.PROTOCOL.messages):
        for name in message.__struct_fields__:
            value = getattr(message, name)
            parts = value if isinstance(value, tuple) else [value]
            found.setdefault(f"{type(message).__name__}.{name}", set()).update(map(type, parts))
    return found


@pytest.fixture(scope="module")
def secure():
    X, y = moons(n_rows=30, n_features=4)
    federation = split_vertical(X, y, 3, random_state=0)
    settings = params(scheme="bgv", init="gini", n_openings=1, n_settling=0, n_blocks=1)
    return federation, *train(federation, settings)


# Who gets what


def test_a_feature_holder_gets_ciphertexts_row_numbers_and_its_selection(secure):
    federation, outcome, nodes = secure
    for party in nodes:
        if party == federation.label_holder:
            continue
        found = fields_of(outcome, party)
        assert {name for name, kinds in found.items() if kinds & {PublicArray}} == {
            "BlindStart.training", "BlindStart.validation", "ProductsWanted.rows",
            "BlindKeys.own_widths",
        }  # fmt: skip
        opened = {int, bool, str, tuple}
        assert {name for name, kinds in found.items() if kinds & opened} <= {
            "Introduction.n_rows", "Introduction.score", "BlindStart.n_rows",
            "BlindStart.resume_from", "BlindKeys.helper", "BlindKeys.n_features",
            "RowsWanted.batch", "Chosen.features",
            "ProductsWanted.batch", "ProductsWanted.training", "ProductsWanted.back",
            "ProductsWanted.first", "ProductsWanted.uses", "OwnMasksWanted.batch",
            "OwnMasksWanted.n_rows", "OwnMasksWanted.back", "OwnMasksWanted.first",
            "OwnMasksWanted.uses", "OwnProducts.batch", "OwnProducts.n_rows",
            "OwnProducts.back", "OwnProducts.first",
            "EncryptedLabels.n_classes", "EncryptedLabels.most_cells", "EncryptedLabels.way", "EncryptedLabels.most_features",
        }  # fmt: skip
        assert {name for name, kinds in found.items() if MaskedArray in kinds} <= {
            "CommonSecret.secret", "RowsWanted.weights", "StepWanted.slopes",
        }  # fmt: skip


def test_a_feature_holder_is_told_nothing_of_labels_but_its_selection(secure):
    federation, outcome, _ = secure
    learned = {row.kind for row in outcome.ledger.rows() if row.learner != federation.label_holder}
    assert learned - {"row-count", "class-count", "label-kind"} == {
        "training-rows", "total-feature-count", "selection",
    }  # fmt: skip


def test_the_label_holder_gets_ciphertexts_and_masked_numbers_only(secure):
    federation, outcome, _ = secure
    found = fields_of(outcome, federation.label_holder)
    closed = {Ciphertexts, MaskedArray, PublicKeys, type(None), dict}
    assert {name for name, kinds in found.items() if kinds - closed} == {
        "BlindReady.widths", "Offer.n_features", "Offer.n_cells", "Offer.frequencies",
    }  # fmt: skip
    learned = {row.kind for row in outcome.ledger.rows() if row.learner == federation.label_holder}
    assert {"gate-sums", "block-losses", "feature-count"} <= learned
    assert not learned & {"layer-outputs", "single-layer-outputs", "embedding-gradients"}


def test_declared_kinds_name_no_row():
    for cls in wire.TRAINING:
        declared = cls.declaration
        if declared.kind not in (NOTHING, "training-rows"):
            assert "every row" not in declared.text


# Shares alone are uniform


class Curious(dict):
    """Numbers by what they are."""

    def note(self, name, numbers):
        self.setdefault(name, []).append(np.asarray(numbers).reshape(len(moduli()), -1))

    def share_of(self, name):
        primes = np.array(moduli(), dtype=np.float64)[:, None]
        return np.concatenate(self[name], axis=1) / primes


def test_what_the_label_holder_decrypts_is_uniform_but_for_the_sums(monkeypatch):
    seen = Curious()

    def noting(kind, name, what):
        original = getattr(kind, name)

        def noted(self, *arguments, **options):
            found = original(self, *arguments, **options)
            seen.note(what, found if found is not None else getattr(self, what))
            return found

        monkeypatch.setattr(kind, name, noted)

    noting(PartnerWeights, "take_gated", "gated")
    noting(PartnerWeights, "take_hidden", "hidden")
    noting(HelperWeights, "take_gated", "gated")
    noting(SharedLayer, "_opened", "products")
    federation = split_vertical(*moons(), 2, random_state=0)
    _, nodes = train(federation, params(n_openings=1))
    for partner in nodes[federation.label_holder][0]._layer._partners.values():
        seen.note("weights", partner.weights)
        for products in partner.table._products.values():
            seen.note("prepared", products)
    for name in ("gated", "hidden", "weights", "prepared"):
        for share in seen.share_of(name):
            assert kstest(share, "uniform").pvalue > 1e-6, name


def test_what_the_helper_holds_is_uniform(monkeypatch):
    seen = Curious()
    square = HelperNetwork.square

    def noted(self, sealed, hidden):
        seen.note("hidden", hidden)
        return square(self, sealed, hidden)

    monkeypatch.setattr(HelperNetwork, "square", noted)
    _, nodes = train(split_vertical(*moons(), 2, random_state=0), params(n_openings=1))
    helper = next(node[0] for node in nodes.values() if getattr(node[0], "_network", None))
    seen.note("weights", helper._columns.weights)
    seen.note("others", helper._others.weights)
    seen.note("gated", helper._others.gated)
    for name in ("hidden", "weights", "others", "gated"):
        for share in seen.share_of(name):
            assert kstest(share, "uniform").pvalue > 1e-6, name


def test_numbers_that_travel_in_the_clear_are_uniform(secure):
    federation, outcome, nodes = secure
    seen = Curious()
    for party in nodes:
        for message in some(outcome, party, *blind.PROTOCOL.messages):
            for name in message.__struct_fields__:
                value = getattr(message, name)
                if isinstance(value, MaskedArray) and not isinstance(message, wire.CommonSecret):
                    seen.note(f"{type(message).__name__}.{name}", value.array())
    assert set(seen) == {
        "RowsWanted.weights", "StepWanted.slopes", "HiddenShare.hidden", "HiddenShare.own",
        "SlopeShare.own",
    }  # fmt: skip
    for name in seen:
        for share in seen.share_of(name):
            assert kstest(share, "uniform").pvalue > 1e-6, name
            assert len(np.unique(share)) == len(share), name
    assert federation.label_holder in nodes


def test_a_mask_is_used_once(monkeypatch):
    # Twice the same mask would tell the difference of what it hides.
    forward = SharedLayer._forward

    async def again(self, batch, net):
        # So often that the masks run out before the numbers, which make no sense, are judged.
        for _ in range(2):
            await forward(self, batch, net)
            for partner in self._partners.values():
                partner.table._masks[batch.number, False].used -= 1
        return await forward(self, batch, net)

    monkeypatch.setattr(SharedLayer, "_forward", again)
    with pytest.raises(PartyFailed, match="no masks are left"):
        train(parties(*moons(), 2), params(n_openings=2, n_settling=3))


def test_a_party_cannot_tell_whether_any_of_its_gates_counts(monkeypatch):
    sizes, draw = [], Gates.draw

    def clipped(self, rng):
        gates, counted = draw(self, rng)
        return gates, np.zeros_like(counted)

    for drawing in (draw, clipped):
        monkeypatch.setattr(Gates, "draw", drawing)
        outcome, _ = train(parties(*moons(), 2), params(n_openings=2, n_settling=1))
        told = some(outcome, "party-1", wire.StepWanted)
        sizes.append([len(message.before) for message in told])
    assert sizes[0] == sizes[1]
    assert set(sizes[0]) == {3, 0}


def test_a_batch_keeps_its_rows(monkeypatch):
    original = SharedLayer._prepare

    async def swapped(self, batch, net, *, back):
        if not back:
            batch.rows = np.roll(batch.rows, 1)
        return await original(self, batch, net, back=back)

    monkeypatch.setattr(SharedLayer, "_prepare", swapped)
    with pytest.raises(PartyFailed, match="other rows than before"):
        train(parties(*moons(), 2))


def test_the_sums_are_all_that_an_opening_tells(monkeypatch):
    # The label holder decrypts one number per weight; only their sums by column mean anything.
    seen = []
    original = PartnerWeights.open_sums

    def noted(self, sealed):
        seen.append(self._owner.open(sealed, self.weights[0].size))
        return original(self, sealed)

    monkeypatch.setattr(PartnerWeights, "open_sums", noted)
    train(parties(*moons(n_features=40), 1), params(n_openings=1))
    for share, prime in zip(seen[0], moduli(), strict=True):
        assert kstest(share / prime, "uniform").pvalue > 1e-6


# What those who watch a run see


class Watching(LiveView):
    """A live view that also keeps everything it was told."""

    def __init__(self):
        super().__init__("a blind training")
        self.messages, self.epochs = [], []

    def message(self, progress):
        self.messages.append(progress)
        super().message(progress)

    def epoch(self, entry):
        self.epochs.append(dict(entry))
        super().epoch(entry)


OPEN_IN_AN_EPOCH = {
    "epoch", "max_epochs", "open_features", "validation_loss", "standard_error",
    "validation_score", "n_bytes",
}  # fmt: skip
"""Numbers of a whole epoch, which the label holder computes from what was opened to it."""


def test_who_watches_a_run_sees_only_what_may_be_opened():
    rng = np.random.default_rng(0)
    X = 1000.0 + rng.normal(size=(150, 5))
    y = np.where(X[:, 0] > 1000.0, "class-of-a-row", "other-class-of-a-row")
    watching = Watching()
    selector = FedSDGSelector(max_epochs=4, outputs=4, security="plain", random_state=0)
    federation = split_vertical(X, y, 3, random_state=0)
    outcome = execute(selector.prepare(federation, simulated=True, observer=watching))
    assert len(watching.epochs) == len(outcome.value.history) > 0
    for entry in watching.epochs:
        assert set(entry) == OPEN_IN_AN_EPOCH
        assert all(np.isscalar(value) for value in entry.values())
        assert 0 <= entry["open_features"] <= 5
    told = [p.learned for p in watching.messages if p.learned is not None]
    assert {row.kind for row in told} == {row.kind for row in outcome.ledger.rows()}
    assert {"gate-sums", "block-losses", "selection"} <= {row.kind for row in told}
    assert not {row.kind for row in told} & {
        "layer-outputs", "single-layer-outputs", "embedding-gradients", "gate-start",
    }  # fmt: skip
    page = watching.page()
    assert "gate-sums" in page or "GateSums" in page
    assert "class-of-a-row" not in page
    for shown in ("1000.", *(f"{cell:.4f}" for cell in X[:20].ravel())):
        assert shown not in page


# Attacks that sharing stops


def best_area(numbers, labels):
    """The best area under the curve that any single number of a row has for its label."""
    areas = [roc_auc_score(labels, column) for column in numbers]
    return max(max(area, 1.0 - area) for area in areas)


def test_labels_are_in_the_gradients_but_not_in_a_feature_holders_share(monkeypatch):
    # The attack on the paper's protocol: a gradient per row orders the rows by their label.
    first, other = [], []
    slopes, step = SharedLayer._slopes, HeldColumns.step

    async def noted(self, hidden, errors, net):
        found, sealed = await slopes(self, hidden, errors, net)
        first.append(found)
        return found, sealed

    def noting(self, batch, sent, helper_slopes, before):
        other.append(helper_slopes)
        return step(self, batch, sent, helper_slopes, before)

    monkeypatch.setattr(SharedLayer, "_slopes", noted)
    monkeypatch.setattr(HeldColumns, "step", noting)
    rows = []
    forward = SharedLayer._forward

    async def listed(self, batch, net):
        rows.extend(batch.rows if batch.training else ())
        return await forward(self, batch, net)

    monkeypatch.setattr(SharedLayer, "_forward", listed)
    federation = parties(*moons(n_rows=400), 1)
    train(federation, params(n_openings=1, n_settling=0, rate_bits=9))
    labels = federation.target.codes[rows]
    mine, theirs = (np.concatenate(part, axis=2) for part in (first, other))
    opened = ring().signed(ring().add(mine, theirs)).astype(np.float64)
    assert best_area(opened, labels) > 0.9
    assert best_area(ring().signed(theirs).astype(np.float64), labels) < 0.65
    assert best_area(ring().signed(mine).astype(np.float64), labels) < 0.65


def test_columns_are_in_the_hidden_values_but_not_in_the_label_holders_share(monkeypatch):
    # The attack on open outputs: a linear layer is undone by regression.
    shares, others, rows = [], [], []
    square, forward = HelperNetwork.square, SharedLayer._forward

    def noting(self, sealed, hidden):
        answer = square(self, sealed, hidden)
        others.append(self._hidden)
        return answer

    async def listed(self, batch, net):
        hidden, outputs = await forward(self, batch, net)
        shares.append(hidden)
        rows.append(batch.rows)
        return hidden, outputs

    monkeypatch.setattr(HelperNetwork, "square", noting)
    monkeypatch.setattr(SharedLayer, "_forward", listed)
    X, y = moons(n_rows=200, n_features=3)
    _, nodes = train(parties(X, y, 1), params(n_openings=1, n_settling=0, sigma=1e-6))
    column = nodes["party-1"][0]._inputs[rows[0], 0].astype(np.float64)

    def explained(numbers):
        factors = np.c_[numbers.T, np.ones(len(column))]
        left = column - factors @ np.linalg.lstsq(factors, column, rcond=None)[0]
        return 1.0 - left.var() / column.var()

    opened = ring().signed(ring().add(shares[0], others[0])).astype(np.float64)
    assert explained(opened) > 0.95
    assert explained(ring().signed(shares[0]).astype(np.float64) / 2.0**79) < 0.5


# What a curious label holder asks for in vain


@pytest.mark.parametrize("greedy", [{"n_openings": 30}, {"n_blocks": 3}])
def test_numbers_for_more_than_a_tenth_of_the_cells_are_not_opened(greedy):
    federation = parties(*moons(n_rows=180), 2)
    train(federation, params(n_openings=12, n_blocks=1))
    with pytest.raises(ParameterError, match="would open sums"):
        train(federation, params(**{"n_openings": 12, "n_blocks": 1, **greedy}))


def test_own_columns_of_the_label_holder_do_not_pay_for_openings():
    # Ten thousand columns of its own would be cells enough for any number of openings.
    assert most_openings(1000, 5, 5) == 100
    assert most_openings(1000, 5, 5 + 10_000) == 1


def test_a_feature_holder_checks_the_number_of_openings_for_itself(monkeypatch):
    monkeypatch.setattr(blind, "check_opened", lambda *_: None)
    federation = parties(*moons(n_rows=40), 2)
    with pytest.raises(PartyFailed, match="would open sums"):
        train(federation, params(n_openings=30))


def test_more_openings_than_agreed_are_refused(monkeypatch):
    original = SharedLayer.gate_sums

    async def twice(self, net):
        await original(self, net)
        return await original(self, net)

    monkeypatch.setattr(SharedLayer, "gate_sums", twice)
    with pytest.raises(PartyFailed, match="More sums"):
        train(parties(*moons(), 2), params(n_openings=1))


def test_outputs_of_rows_are_refused_while_training(monkeypatch):
    original = SharedLayer.losses

    async def greedy(self, rows, gates, n_blocks, net):
        await self.predict(rows[:5], net)
        return await original(self, rows, gates, n_blocks, net)

    monkeypatch.setattr(SharedLayer, "losses", greedy)
    with pytest.raises(FedsiftError, match="OutputsWanted"):
        train(parties(*moons(), 2))


def test_rows_that_were_not_agreed_on_are_refused(monkeypatch):
    original = SharedLayer.use_batches

    def repeated(self, batches, n_uses, *, training):
        original(self, batches, n_uses, training=training)
        for batch in self._batches.values():
            batch.rows = np.repeat(batch.rows[:1], 3)

    monkeypatch.setattr(SharedLayer, "use_batches", repeated)
    with pytest.raises(PartyFailed, match="not part of this step"):
        train(parties(*moons(), 2))


def test_a_policy_can_forbid_the_sums():
    X, y = moons()
    policy = {"party-1": Policy(may_not_reveal=("gate-sums",))}
    selector = FedSDGSelector(protocol="blind", policy=policy, max_epochs=2)
    with pytest.raises(PolicyViolation, match="gate-sums"):
        selector.plan(parties(X, y, 2))
