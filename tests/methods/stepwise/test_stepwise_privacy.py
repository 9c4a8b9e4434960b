# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What each role of vertical stepwise selection sees, read from the decoded bytes."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.crypto.masking import from_limbs
from fedsift.crypto.wire import Ciphertexts
from fedsift.engine import run_local
from fedsift.methods.stepwise import label_holder
from fedsift.methods.stepwise import messages as wire
from fedsift.methods.stepwise.messages import Params
from helpers.runs import received

OWNERS = ("shop", "mill")


def people(n_rows=80, seed=0, shift=0.0):
    """A bank with a label and a column, and two partners, the shop with the best column."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_rows) % 2)
    tables = {
        "bank": rng.normal(size=(n_rows, 1)),
        "shop": rng.normal(size=(n_rows, 2)) + 3 * y[:, None] * [1, 0],
        "mill": rng.normal(size=(n_rows, 3)) + shift * y[:, None],
    }
    return fs.Federation.vertical(tables, ("bank", y))


def run(federation, **settings):
    params = Params(n_features_to_select=1, seed=0, **settings)
    nodes = label_holder.build_nodes(
        federation.tables, "bank", federation.target, federation.n_rows, params
    )
    protected = params.scheme != "plain"
    outcome = run_local(label_holder.PROTOCOL, nodes, keep_frames=True, protected=protected)
    return outcome, nodes


@pytest.fixture(scope="module")
def secure():
    return run(people())


def seen(outcome, party):
    return {entry.message for entry in outcome.transcript.view(party)}


def test_feature_holders_get_ciphertexts_and_news_of_selected_columns(secure):
    outcome, _ = secure
    assert seen(outcome, "shop") == {
        "Introduction", "EncryptedLabels", "EncryptedOwn", "ColumnWanted", "HiddenProducts",
        "Selected",
    }  # fmt: skip
    assert seen(outcome, "mill") == {
        "Introduction", "EncryptedLabels", "EncryptedOwn", "EncryptedColumn", "MasksWanted",
        "Selected",
    }  # fmt: skip
    for party in OWNERS:
        protocol = label_holder.PROTOCOL
        for message in received(outcome, party, *protocol.messages, protocol=protocol):
            for name in message.__struct_fields__:
                value = getattr(message, name)
                if isinstance(value, Ciphertexts):
                    assert value.scheme == "bgv"


def test_columns_never_reach_the_label_holder(secure):
    outcome, _ = secure
    assert seen(outcome, "bank") == {
        "Offer", "LabelProducts", "OwnProducts", "OpenedProducts", "Masks", "Done",
    }  # fmt: skip


def test_two_worlds_look_alike_to_feature_holders():
    """Other values and labels, same sizes and selection: all lengths are equal."""
    views = []
    for seed in (0, 1):
        outcome, _ = run(people(seed=seed))
        views.append(
            [
                sorted((entry.message, entry.n_bytes) for entry in outcome.transcript.view(party))
                for party in OWNERS
            ]
        )
    assert views[0] == views[1]


def test_what_the_owner_of_a_column_opens_is_uniform():
    """Products in two worlds that could not be further apart, under masks."""
    opened = []
    for shift in (0.0, 2.0):
        for seed in range(20):
            outcome, _ = run(people(seed=seed, shift=shift), scheme="plain")
            (told,) = received(outcome, "bank", wire.OpenedProducts, protocol=label_holder.PROTOCOL)
            numbers = from_limbs(told.masked["mill"].array())
            opened.append([number / 2.0 ** wire.mask_bits() for number in numbers])
    values = np.array(opened)
    assert ((values > 0) & (values < 1)).all()
    for world in (values[:20], values[20:]):
        # 60 uniform numbers: the mean has standard error 0.037.
        assert abs(world.mean() - 0.5) < 5 * 0.037
    assert len(np.unique(values)) == values.size


def test_the_ledger_says_exactly_what_is_learned():
    selector = fs.StepwiseSelector(n_features_to_select=1, random_state=0, security="plain")
    federation = people()
    result = selector.fit(federation).result_
    learned = {(row.learner, row.kind) for row in result.disclosures}
    assert learned == {
        ("shop", "row-count"), ("mill", "row-count"),
        ("shop", "class-count"), ("mill", "class-count"),
        ("shop", "feature-count"), ("mill", "feature-count"), ("bank", "feature-count"),
        ("shop", "selection"), ("mill", "selection"),
        ("bank", "class-sums"), ("bank", "numeric-scores"), ("bank", "correlations"),
    }  # fmt: skip
    assert learned == {(row.learner, row.kind) for row in selector.plan(federation).disclosures}


def test_names_and_order_stay_with_the_owner():
    frame = pd.DataFrame(
        people().tables["shop"].numeric_matrix(), columns=["monthly_income", "yearly_income"]
    )
    y = np.arange(80) % 2
    federation = fs.Federation.vertical({"shop": frame}, ("bank", y))
    params = Params(n_features_to_select=1, own_columns=False, scheme="plain")
    nodes = label_holder.build_nodes(federation.tables, "bank", federation.target, 80, params)
    outcome = run_local(label_holder.PROTOCOL, nodes, keep_frames=True, protected=False)
    assert not any(b"income" in e.frame for e in outcome.transcript.entries if e.frame)
    orders = set()
    for _ in range(12):
        again = label_holder.build_nodes(federation.tables, "bank", federation.target, 80, params)
        orders.add(tuple(again["shop"][0].order))
    assert len(orders) == 2
