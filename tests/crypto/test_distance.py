# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Every run states a bound of its statistical distance, from the ciphertexts that it sent."""

import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.crypto.kernels import run_distance, sum_distances
from fedsift.report import html, text
from fedsift.result import SelectionResult


def federation():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    tables = {
        party: pd.DataFrame(rng.normal(size=(60, 2)), columns=[f"{party} 0", f"{party} 1"])
        for party in ("bank", "shop", "store", "mill")
    }
    return fs.Federation.vertical(tables, ("bank", pd.Series(codes, name="label")))


@pytest.mark.parametrize(
    ("selector", "least"),
    [
        (fs.FilterSelector(n_features_to_select=2), 27.0),
        (fs.FilterSelector(n_features_to_select=2, he="paillier"), 26.0),
        (fs.InteractionSelector(n_features_to_select=2), 26.0),
        (
            fs.VFPSSelector(
                strategy="group-testing",
                design="separate",
                keep_own=False,
                n_participants=2,
                n_queries=6,
                n_groups=4,
            ),
            26.0,
        ),
    ],
)
def test_an_encrypted_run_states_its_distance(selector, least, tmp_path):
    result = selector.fit(federation()).result_

    bits = run_distance(result.crypto, result.traffic.ciphertexts, result.security_bits)
    assert result.distance_bits == bits
    assert 40 > bits > least
    assert SelectionResult.load(result.save(tmp_path / "result.json")).distance_bits == bits
    for page in (text.render(result), html.render(result)):
        assert f"at most 2^-{bits:g} for all ciphertexts together" in page


def test_a_run_without_ciphertexts_states_none():
    plain = fs.FilterSelector(n_features_to_select=2, security="plain").fit(federation()).result_
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    parties = fs.Federation.horizontal({"north": rows[:20], "south": rows[20:]}, None)
    masked = fs.DCFSSelector(n_features_to_select=1, n_iterations=2).fit(parties).result_

    assert plain.distance_bits is None
    assert masked.distance_bits is None
    assert "statistical distance" not in text.render(plain)


def test_a_chain_states_the_distance_of_all_its_steps():
    steps = [
        fs.FilterSelector(n_features_to_select=3),
        fs.InteractionSelector(n_features_to_select=2),
    ]
    result = fs.Chain(steps).fit(federation()).result_

    own = [step.distance_bits for step in result.steps]
    assert result.distance_bits == sum_distances(own)
    assert result.distance_bits < min(own)


def test_more_ciphertexts_are_further_away():
    for scheme in ("bgv", "paillier"):
        bits = [run_distance(scheme, count, 128) for count in (1, 10, 1000)]
        assert bits == sorted(bits, reverse=True)
    # Ten thousand masked numbers at least are in so many full ciphertexts.
    assert run_distance("paillier", 140, 128) < 40 - np.log2(10_000)
    assert run_distance("paillier", 1 << 60, 128) == 0.0
    assert run_distance("plain", 9, 0) is None
