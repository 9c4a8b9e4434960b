"""The interaction protocol against its simulation in whole numbers, and its bad inputs."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.data import Federation, catalog, split_vertical, synthetic
from fedsift.engine import run_local
from fedsift.errors import ColumnError, DataError, ParameterError, PartyError, PartyFailed
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction import measures
from fedsift.methods.interaction.fixed_point import OwnColumns, simulate
from fedsift.methods.interaction.messages import Params
from fedsift.methods.interaction.selector import InteractionSelector
from helpers.arrays import labelled


def data(name):
    loaded = catalog.load(name)
    return np.asarray(loaded.X, dtype=float), np.unique(loaded.y, return_inverse=True)[1]


def nodes_of(federation, **settings):
    params = Params(**{"n_features_to_select": 3, "seed": 0, **settings})
    holder = federation.label_holder
    return interaction.build_nodes(
        federation.tables, holder, federation.target, federation.n_rows, params
    )


def order_of(selector):
    """Selected columns, first selected first."""
    ranks = selector.ranking_
    return tuple(sorted(np.flatnonzero(selector.support_), key=lambda f: ranks[f]))


@pytest.mark.parametrize("measure", measures.SECURE)
def test_encrypted_order_equals_the_simulation(measure):
    X, y = data("wine")
    X = X[:, :7]
    secure = InteractionSelector(n_features_to_select=3, measure=measure, random_state=0).fit(X, y)
    trace = simulate(X, y, measure, 3)
    assert order_of(secure) == trace.order
    np.testing.assert_allclose(secure.relevance_, trace.relevance, atol=2e-3)
    same = np.isnan(secure.interaction_) == np.isnan(trace.interaction)
    assert same.all()
    np.testing.assert_allclose(secure.interaction_, trace.interaction, atol=2**-15)


@pytest.mark.parametrize("measure", measures.SECURE)
def test_without_noise_every_number_is_the_simulated_one(measure):
    X, y = labelled(90, 5, 3)
    federation = split_vertical(X, y, [[2, 0], [1], [4, 3]], names=["a", "b", "c"])
    n_paired = 5 if measure == "miw" else 0
    settings = {"measure": measure, "n_paired": n_paired, "scheme": "plain"}
    nodes = nodes_of(federation, noise_bits=None, **settings)
    found = run_local(interaction.PROTOCOL, nodes).value
    places = []
    for party, number in found.features:
        names = nodes[party][-1].facts()["names"]
        columns = federation.tables[party].feature_names
        places.append(federation.column_order[party][columns.index(names[number])])
    trace = simulate(X[:, places], y, measure, 3)
    assert found.order == trace.order
    assert np.array_equal(found.relevance, trace.relevance)
    assert np.array_equal(found.interaction, trace.interaction, equal_nan=True)


def test_plain_and_secure_are_identical():
    X, y = labelled(70, 5, 2)
    federation = split_vertical(X, y, 2, random_state=0)
    values = [
        run_local(interaction.PROTOCOL, nodes_of(federation, scheme=scheme, noise_bits=None)).value
        for scheme in ("bgv", "plain")
    ]
    assert values[0].order == values[1].order
    assert np.array_equal(values[0].relevance, values[1].relevance)
    assert np.array_equal(values[0].interaction, values[1].interaction, equal_nan=True)


def test_plain_and_secure_select_the_same_in_spite_of_the_noise():
    X, y = labelled(70, 5, 2)
    runs = [
        InteractionSelector(n_features_to_select=3, security=security, random_state=3).fit(X, y)
        for security in ("secure", "plain")
    ]
    assert np.array_equal(runs[0].ranking_, runs[1].ranking_)
    np.testing.assert_allclose(runs[0].scores_, runs[1].scores_, atol=2**-13)
    assert runs[0].result_.selected == runs[1].result_.selected
    assert (runs[0].result_.security_bits, runs[1].result_.security_bits) == (128, 0)


def test_low_bit_noise_is_there_and_small():
    X, y = labelled(70, 5, 2)
    values = [
        InteractionSelector(n_features_to_select=1, security="plain").fit(X, y).relevance_
        for _ in range(4)
    ]
    exact = simulate(X, y).relevance
    assert len({tuple(v) for v in values}) == 4
    assert max(np.abs(v - exact).max() for v in values) <= 2**-16 * 1.001


@pytest.mark.parametrize("name", ["wine_white", "vehicle", "segmentation", "sonar"])
def test_the_order_is_that_of_the_reals(name, request):
    if name != "wine_white":  # that one is shipped
        request.getfixturevalue("big_sets")
    X, y = data(name)
    n_select = 30 if name == "sonar" else X.shape[1]
    found = InteractionSelector(
        n_features_to_select=n_select, security="plain", parties=3, random_state=0
    ).fit(X, y)
    usable = np.flatnonzero(~measures.constant_columns(X, "miw"))
    trace = measures.oracle(X[:, usable], y, "miw", n_select)
    expected = tuple(usable[list(trace.order)])
    # Features whose R is nearer than the noise may change places.
    places = usable.searchsorted(order_of(found)[: len(expected)])
    reached = trace.scores[places]
    assert np.abs(reached - trace.scores[list(trace.order)]).max() < 2**-12
    assert sum(a == b for a, b in zip(order_of(found), expected, strict=False)) >= n_select - 2


def test_more_rows_than_slots():
    X, y = labelled(9001, 3, 2)
    found = InteractionSelector(n_features_to_select=3, security="plain", random_state=0).fit(X, y)
    assert order_of(found) == simulate(X, y).order


def test_the_partner_of_an_exclusive_or_comes_next():
    rng = np.random.default_rng(0)
    mate, partner = rng.integers(0, 2, (2, 300))
    y = mate ^ partner
    X = rng.normal(size=(300, 6)) * 0.1
    X[:, 2] += np.where(rng.random(300) < 0.3, y, mate)
    X[:, 5] += partner
    found = InteractionSelector(n_features_to_select=2, pair_start="none", random_state=0)
    assert order_of(found.fit(X, y)) == (2, 5)
    assert found.interaction_[5, 2] > 1.2
    assert np.isnan(found.interaction_[2, 5])


@pytest.mark.parametrize("parties", [[[0, 1, 2, 3]], [[0], [1], [2], [3]], [[3, 1], [0, 2]]])
def test_any_number_of_owners_gives_the_same_order(parties):
    X, y = labelled(60, 4, 2)
    for holder in ("p0", None):
        names = [f"p{i}" for i in range(len(parties))]
        federation = split_vertical(X, y, parties, label_holder=holder, names=names)
        found = InteractionSelector(n_features_to_select=4, security="plain", random_state=0)
        assert order_of(found.fit(federation)) == simulate(X, y).order


def test_share_and_auto():
    X, y = labelled(300, 6, 2)
    rng = np.random.default_rng(1)
    X = np.column_stack([X[:, :3], rng.normal(size=(300, 5))])
    half = InteractionSelector(n_features_to_select=0.5, security="plain", random_state=0)
    assert half.fit(X, y).support_.sum() == 4
    auto = InteractionSelector(n_features_to_select="auto", security="plain", random_state=0)
    auto.fit(X, y)
    assert auto.threshold_ > 1
    assert 1 <= auto.support_.sum() < 8
    assert auto.support_[0]
    assert "shuffled-relevance" in {d.kind for d in auto.result_.disclosures}


def test_auto_on_noise_selects_almost_nothing():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(400, 8)), rng.integers(0, 2, 400)
    auto = InteractionSelector(n_features_to_select="auto", security="plain", random_state=0)
    assert 1 <= auto.fit(X, y).support_.sum() <= 3


@pytest.mark.parametrize("measure", ["miw", "paper"])
def test_equal_features_are_not_told_apart_by_the_noise(measure):
    """The same seed gives the same selection, also where columns tie in several rounds."""
    X, y = labelled(60, 2, 2)
    selector = InteractionSelector(
        n_features_to_select=4, measure=measure, security="plain", random_state=0
    )
    orders = {order_of(selector.fit(np.repeat(X, 3, axis=1), y)) for _ in range(6)}
    assert len(orders) == 1


def test_constant_features_come_last_and_are_told_apart():
    X, y = labelled(50, 4, 2)
    X[:, 1] = 3.0
    found = InteractionSelector(n_features_to_select=4, security="plain", random_state=0).fit(X, y)
    assert found.ranking_[1] == 4
    assert found.scores_[1] == 0
    assert np.isnan(found.interaction_[1]).all()
    assert any("1 constant features" in w for w in found.result_.warnings)
    alone = InteractionSelector(n_features_to_select=1, security="plain").fit(
        np.ones((20, 2)), y[:20]
    )
    assert alone.support_.sum() == 1


def test_a_class_with_one_row():
    X, y = labelled(50, 4, 3)
    y = np.where(np.arange(50) == 7, 5, y)
    small = fs.Policy(min_class_size=1, min_security_bits=0)
    settings = {"n_features_to_select": 4, "security": "plain", "policy": small}
    found = InteractionSelector(random_state=0, **settings).fit(X, y)
    assert order_of(found) == simulate(X, y).order


def test_missing_values_count_as_the_mean():
    X, y = labelled(60, 3, 2)
    X[5, 0] = np.nan
    found = InteractionSelector(n_features_to_select=2, security="plain", random_state=0).fit(X, y)
    assert any("missing values of 1" in w for w in found.result_.warnings)
    assert order_of(found) == simulate(X, y, "miw", 2).order


def test_numeric_targets_are_cut_into_classes():
    X, _ = labelled(80, 3, 2)
    found = InteractionSelector(n_features_to_select=1, security="plain", random_state=0)
    assert found.fit(X, 3.0 * X[:, 1]).support_.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_features_to_select": 9}, "n_features_to_select=9"),
        ({"n_features_to_select": 0}, "n_features_to_select=0"),
        ({"n_features_to_select": "most"}, "'auto'"),
        ({"measure": "gini"}, "measure='gini'"),
        ({"pair_start": 1}, "pair_start=1"),
        ({"pair_start": "all"}, "pair_start='all'"),
        ({"pair_start": 4, "measure": "paper", "n_features_to_select": 2}, "pair_start=4 with"),
        ({"measure": "paper_literal"}, "open data only"),
        ({"security": "maybe"}, "security='maybe'"),
    ],
)
def test_bad_settings(settings, words):
    X, y = labelled(30, 4, 2)
    with pytest.raises(ParameterError, match=words):
        InteractionSelector(**settings).fit(X, y)


def test_bad_data():
    X, y = labelled(30, 2, 2)
    with pytest.raises(DataError):
        InteractionSelector(n_features_to_select=1).fit(X, np.zeros(30, dtype=int))
    frame = pd.DataFrame({"a": X[:, 0], "job": ["cook", "smith"] * 15})
    with pytest.raises(ColumnError, match="'job'"):
        InteractionSelector(n_features_to_select=1, measure="paper").fit(frame, y)
    federation = Federation.vertical({"cloud": X, "b": X[:, :1]}, label=("b", y))
    with pytest.raises(PartyError, match="'cloud'"):
        InteractionSelector(n_features_to_select=1).fit(federation)
    with pytest.raises(ParameterError, match="label"):
        InteractionSelector(n_features_to_select=1).fit(Federation.vertical({"a": X, "b": X}))


def test_an_owner_that_sends_values_out_of_range_is_named():
    """The label owner cannot see columns, but their relevance leaves the possible range."""
    X, y = labelled(60, 4, 2)
    federation = split_vertical(X, y, [[0, 1], [2, 3]], names=["honest", "liar"])
    nodes = nodes_of(federation, scheme="plain")
    liar = nodes["liar"][0]
    liar._own = OwnColumns(liar._own.values * 40, liar._own.scalars)
    with pytest.raises(PartyFailed, match=r"liar.*possible range"):
        run_local(interaction.PROTOCOL, nodes)


@pytest.mark.parametrize("scheme", ["bgv", "plain"])
def test_a_single_value_that_is_not_binary_is_noticed(scheme):
    X, y = labelled(60, 3, 2)
    federation = split_vertical(X, y, [[0, 1], [2]], names=["honest", "liar"])
    nodes = nodes_of(federation, measure="paper", scheme=scheme)
    liar = nodes["liar"][0]
    values = liar._own.values.copy()
    values[7] = -1
    liar._own = OwnColumns(values, liar._own.scalars)
    with pytest.raises(PartyFailed, match=r"liar.*zeros and ones"):
        run_local(interaction.PROTOCOL, nodes)


def test_an_owner_with_other_rows_is_refused():
    X, y = labelled(60, 4, 2)
    federation = split_vertical(X, y, [[0, 1], [2, 3]], names=["a", "b"])
    nodes = nodes_of(federation, scheme="plain")
    nodes["a"] = (interaction.LabelOwner(federation.target, 61, Params()), *nodes["a"][1:])
    with pytest.raises(PartyFailed, match="61 rows"):
        run_local(interaction.PROTOCOL, nodes)


def test_the_plan_names_the_parameters_and_sends_nothing():
    X, y = labelled(200, 4, 2)
    plan = InteractionSelector(n_features_to_select=2).plan(X, y)
    assert plan.notes == (
        "Encryption: BGV, 128-bit security, ring degree 8192, 3 plaintext primes of 40 bits.",
    )
    open_plan = InteractionSelector(n_features_to_select=2, security="plain").plan(X, y)
    assert "OFF" in open_plan.notes[0]


def test_operations_are_counted():
    made = synthetic.xor(120, n_noise=4, random_state=0)
    found = InteractionSelector(n_features_to_select=2, pair_start="none", random_state=0)
    counts = found.fit(made.X, made.y).operations_
    n_primes = 3
    # Two owners, all their columns in one ciphertext each; one product per round, owner and prime.
    assert counts["ciphertext products"] == 2 * n_primes
    assert found.result_.parameters["operations"] == counts
    assert counts["rotations"] > 0
    assert counts["encryptions"] < 60
