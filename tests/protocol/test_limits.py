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
from fedsift.methods.filter.member import Member
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import PublicArray
from fedsift.protocol.policy import Policy, RemotePolicy, check_amounts

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

    @pytest.fixture
    def member(self):
        target = Target.from_values(Y)
        return Member(PartyTable.from_any(X, name="shop"), target, Params("gini", scheme="plain"))

    def test_thresholds(self, member):
        asked = horizontal_messages.CountsBelow(0, PublicArray.of(np.zeros((4, 5000))))
        assert "needs 5,000 bins" in refused(member, asked)
        asked = horizontal_messages.CountsBelow(0, PublicArray.of(np.zeros(4)))
        assert "1 dimensions" in refused(member, asked)

    def test_edges_and_merged_bins(self, member):
        edges = PublicArray.of(np.zeros((4, 5000)))
        nothing = PublicArray.of(np.empty(0))
        asked = horizontal_messages.BinSizes(edges, (5000,) * 4, nothing)
        assert "needs 5,001 bins" in refused(member, asked)

        for shape, highest, n_bins in (((4, 3), 1, 10**12), ((4, 3), 10**12, 2), ((4, 9), 1, 2)):
            member._codes, member._n_bins = [np.zeros(N, dtype=np.int64)] * 4, 3
            member._sizes_told = True
            plan = PublicArray.of(np.full(shape, highest))
            found = refused(member, horizontal_messages.Tables(plan, n_bins))
            assert "merged bins" in found or "shape" in found
