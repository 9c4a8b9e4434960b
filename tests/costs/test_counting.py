"""Runs that only count: real drivers and roles, ciphertexts without content."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.costs import Rates, estimate
from fedsift.costs.counting import count_run, encoded_bytes, sample_federation
from fedsift.costs.counts import blank_ciphertexts
from fedsift.costs.rates import TYPICAL
from fedsift.crypto.kernels import counting_kernel
from fedsift.crypto.wire import Ciphertexts
from fedsift.methods.filter.messages import SealedScores
from fedsift.protocol.message import Codec

RNG = np.random.default_rng(5)
Y = RNG.integers(0, 2, 240)
MIXED = pd.DataFrame(
    {
        "job": RNG.choice(list("abcdef"), 240),
        "age": np.where(RNG.random(240) < 0.1, np.nan, RNG.normal(size=240)),
        "income": RNG.normal(size=240),
        "town": RNG.choice(["u", "v"], 240),
    }
)
FREQUENCIES = RNG.random((240, 6))
BINARY = (RNG.random((160, 6)) < 0.5).astype(float)

CASES = {
    "categories and gaps": (
        fs.FilterSelector("gini", n_features_to_select=2, security="plain"),
        fs.split_vertical(MIXED, Y, 2, random_state=0),
    ),
    "pooled categories and gaps": (
        fs.FilterSelector("mi", n_features_to_select=2),
        fs.split_horizontal(MIXED, Y, 3, random_state=0),
    ),
    "frequencies": (
        fs.FilterSelector("chi2", n_features_to_select=2, security="plain"),
        fs.split_vertical(FREQUENCIES, Y, 2, random_state=0),
    ),
    "given edges": (
        fs.FilterSelector("mi", n_features_to_select=2, bins=[0.2, 0.5, 0.8], security="plain"),
        fs.split_vertical(FREQUENCIES, Y, 2, random_state=0),
    ),
    "a pooled target of numbers": (
        fs.FilterSelector("mi", n_features_to_select=2),
        fs.split_horizontal(FREQUENCIES, RNG.normal(size=240), 3, random_state=0),
    ),
    "zeros and ones": (
        fs.InteractionSelector(n_features_to_select=3, measure="paper", security="plain"),
        fs.split_vertical(BINARY, Y[:160], 2, random_state=0),
    ),
    "open anchors": (
        fs.DCFSSelector(n_features_to_select=2, alignment="open", n_anchors=3),
        fs.split_horizontal(FREQUENCIES, None, 3, random_state=0),
    ),
    "a common scale": (
        fs.DCFSSelector(
            n_features_to_select=2,
            alignment="local",
            scale="pooled",
            policy=fs.Policy(
                may_reveal=("schema", "pooled-sums", "pooled-moments", "pooled-scores", "selection")
            ),
        ),
        fs.split_horizontal(FREQUENCIES, None, 3, random_state=0),
    ),
    "unnamed subsets of many parties": (
        fs.FPSOSelector(n_iterations=2, n_rounds=3, n_particles=4),
        fs.split_horizontal(FREQUENCIES, Y, 8, random_state=0),
    ),
    "smallest accuracies": (
        fs.FPSOSelector(n_iterations=2, n_rounds=3, integration="max-min"),
        fs.split_horizontal(FREQUENCIES, Y, 3, random_state=0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_unusual_tables_are_counted_too(case):
    selector, federation = CASES[case]
    selector.set_params(random_state=0)

    told = estimate(selector, federation, Rates(TYPICAL))
    traffic = selector.fit(federation).result_.traffic

    counted = told.rounds, told.messages, told.ciphertexts
    assert counted == (traffic.rounds, traffic.messages, traffic.ciphertexts)
    assert told.n_bytes == pytest.approx(traffic.n_bytes, rel=0.005)


def test_blank_ciphertexts_take_as_many_bytes_as_real_ones():
    sizes = [(2, 200), (3, 40_000), (1, 70_000)]
    blank = SealedScores(blank_ciphertexts("bgv", sizes))
    blobs = tuple(bytes(size) for count, size in sizes for _ in range(count))
    real = SealedScores(Ciphertexts("bgv", blobs))

    assert encoded_bytes(blank) == encoded_bytes(real) == len(Codec([SealedScores]).encode(real))


def test_kernels_are_real_again_after_a_count():
    selector, federation = CASES["frequencies"]
    few = sample_federation(federation, 50, stands_for=240)
    nodes = selector.set_params(he="bgv", security="secure")._prepare(few).nodes

    counts = count_run(nodes)

    assert counts.ciphertexts > 0
    assert counts.work["encrypt", "bgv encrypt"] > 0
    assert counting_kernel("own_columns") is None


def test_a_sample_says_how_many_rows_it_stands_for():
    _, federation = CASES["categories and gaps"]
    few = sample_federation(federation, 30, stands_for=240)

    for party, table in federation.tables.items():
        made_up = few.tables[party]
        assert (made_up.n_rows, made_up.feature_names) == (240, table.feature_names)
        for old, new in zip(table.columns, made_up.columns, strict=True):
            assert len(new.values) == 30
            assert (new.kind, new.categories) == (old.kind, old.categories)
            assert new.missing.any() == old.missing.any()
    assert np.bincount(few.target.codes).tolist() == [15, 15]
