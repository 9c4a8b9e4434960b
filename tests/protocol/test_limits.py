"""What a job may ask of a member: refused before memory is taken, by settings and by messages."""

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest

import fedsift as fs
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data import PartyTable, Target
from fedsift.errors import FedsiftError, ParameterError, PolicyViolation
from fedsift.maths.binning import quantile_edges
from fedsift.methods.filter import horizontal_messages, messages
from fedsift.methods.filter.feature_holder import FeatureHolder
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import PublicArray
from fedsift.protocol.policy import Policy, RemotePolicy, check_amounts
from helpers.horizontal import NOTHING, first_ask, ready_member

N = 60
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 4)), np.arange(N) % 2
ROWS = np.arange(N) % 2

TOO_MUCH = {
    "bins": fs.FilterSelector("gini", n_features_to_select=2, bins=10**8),
    "edges": fs.FilterSelector(
        "gini", n_features_to_select=2, bins=[float(n) for n in range(2000)]
    ),
    "bins of one column": fs.FilterSelector("gini", n_features_to_select=2, bins={"x1": 10**8}),
    "bins, horizontal": fs.FilterSelector("mi", n_features_to_select=2, bins=10**8, parties=ROWS),
    "groups": fs.VFPSSelector(n_groups=10**8),
    "particles": fs.FPSOSelector(n_particles=10**8),
    "iterations": fs.FPSOSelector(n_iterations=10**5, n_rounds=10),
    "anchors": fs.DCFSSelector(n_features_to_select=2, n_anchors=10**8, allow_many_anchors=True),
    "alignments": fs.DCFSSelector(n_features_to_select=2, n_iterations=10**8),
    "epochs": fs.FedSDGSelector(max_epochs=50_000),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_a_job_that_asks_for_too_much_is_refused_at_once(what):
    start = time.perf_counter()
    with pytest.raises(PolicyViolation, match=r"allows at most [\d,]+ \w+ \(max_\w+\)"):
        TOO_MUCH[what].fit(X, Y)
    assert time.perf_counter() - start < 5


def test_a_policy_may_allow_more_or_less():
    def scores(bins, **terms):
        selector = fs.FilterSelector(
            "gini", n_features_to_select=2, bins=bins, random_state=0, security="plain"
        )
        return selector.set_params(policy=Policy(min_security_bits=0, **terms)).fit(X, Y).scores_

    with pytest.raises(PolicyViolation, match="needs 21 bins"):
        scores(21, max_bins=20)
    many = scores(10**8, max_bins=10**9)
    assert np.array_equal(many, scores(N))  # more bins than rows cut as many bins as rows


def test_many_bins_take_no_memory():
    values = RNG.normal(size=50)
    assert np.array_equal(quantile_edges(values, 10**12), quantile_edges(values, 50))


def test_classes_and_columns_count_too():
    with pytest.raises(PolicyViolation, match="needs 30 classes"):
        fs.FilterSelector("gini", n_features_to_select=2, policy=Policy(max_classes=29)).fit(
            X, np.arange(N) % 30
        )
    with pytest.raises(PolicyViolation, match="needs 4 columns"):
        fs.FilterSelector("gini", n_features_to_select=2, policy=Policy(max_columns=3)).fit(X, Y)


def test_a_policy_elsewhere_is_enforced_there():
    check_amounts({"shop": RemotePolicy()}, ("shop",), {"bins": 10**9})
    with pytest.raises(PolicyViolation):
        check_amounts({}, ("shop",), {"bins": 10**9})


@pytest.mark.parametrize("policy", ["strict", 7, ["min_rows"], {"party-1": "strict"}])
def test_a_policy_that_is_none(policy):
    with pytest.raises(ParameterError, match="A policy is a"):
        fs.FilterSelector("gini", n_features_to_select=2, policy=policy).fit(X, Y)


def network(**terms):
    return SimpleNamespace(party="shop", policy=Policy(**terms))


def refused(role, message, **terms):
    """The error of a role that a hostile driver asks for too much."""
    with pytest.raises(FedsiftError) as caught:
        asyncio.run(role.handle(message, network(**terms)))
    return str(caught.value)


class TestMessages:
    """A driver that lies about the job, which its member has checked."""

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            ({"n_classes": 10**9}, "asks for the way"),
            ({"n_classes": 40}, "needs 40 classes"),
            ({"most_features": 10**12}, "columns"),
            ({"most_features": 0}, "0 features"),
            ({"most_cells": 10**15}, "bins"),
        ],
    )
    def test_to_a_feature_holder(self, asked, words):
        holder = FeatureHolder(PartyTable.from_any(X, name="shop"), Params("gini"))
        numbers = {"n_classes": 2, "most_features": 4, "most_cells": 10} | asked
        keys, columns = PublicKeys("bgv", {}, ()), Ciphertexts("bgv", ())
        message = messages.EncryptedLabels("impurity", *numbers.values(), keys, columns)
        assert words in refused(holder, message, max_classes=30)

    @pytest.mark.parametrize(
        "kind", ["CountsBelow", "CellsWanted", "TablesWanted", "MomentsWanted"]
    )
    def test_a_member_knows_itself_what_is_due(self, kind):
        """How many thresholds, bins and columns there are follows from what it has agreed to."""
        target = Target.from_values(Y)
        table = PartyTable.from_any(X, name="shop")
        member = ready_member(table, target, Params("gini", min_class_size=5))
        asked = first_ask(getattr(horizontal_messages, kind), member)
        assert f"asks for {kind}" in refused(member, asked)

        many = PublicArray.of(np.zeros(10**6, dtype=np.int64))
        due = horizontal_messages.SizesWanted(0, member._course.digest, *[NOTHING] * 3)
        asyncio.run(member.handle(due, network()))
        asked = horizontal_messages.CountsBelow(1, "", many, many, many)
        assert "not the sums" in refused(member, asked)
