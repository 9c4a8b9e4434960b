# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Seeds that results cannot be written with are refused before anything runs."""

import numpy as np
import pytest

import fedsift as fs
from fedsift.data.partition import LARGEST_SEED
from fedsift.errors import JobError, ParameterError
from fedsift.jobs.spec import JointJob
from fedsift.result import SelectionResult

TOO_LONG = (LARGEST_SEED + 1, 10**10_000)


def table():
    X = np.random.default_rng(0).normal(size=(40, 4))
    return X, np.arange(40) % 2


def selector(seed):
    return fs.FilterSelector(n_features_to_select=2, security="plain", random_state=seed)


@pytest.mark.parametrize("seed", [-1, *TOO_LONG], ids=["negative", "long", "endless"])
@pytest.mark.parametrize("split", [False, True], ids=["arrays", "federation"])
def test_seeds_of_more_than_64_bits_are_refused_in_three_parts(seed, split):
    given = (fs.split_vertical(*table(), parties=2, random_state=0),) if split else table()

    with pytest.raises(ParameterError, match=r"2\*\*64 - 1") as refused:
        selector(seed).fit(*given)

    assert all((refused.value.found, refused.value.needed, refused.value.action))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("seed", TOO_LONG, ids=["long", "endless"])
def test_a_chain_and_a_split_refuse_them_too(seed):
    federation = fs.split_vertical(*table(), parties=2, random_state=0)

    with pytest.raises(ParameterError, match="more than 64 bits"):
        fs.Chain([selector(None)], random_state=seed).fit(federation)
    with pytest.raises(ParameterError, match="more than 64 bits"):
        fs.split_vertical(*table(), parties=2, random_state=seed)


def test_the_largest_seed_can_be_written_and_read(tmp_path):
    result = selector(LARGEST_SEED).fit(*table()).result_

    assert SelectionResult.load(result.save(tmp_path / "result.json")).seed == LARGEST_SEED


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1])
def test_a_job_between_organisations_refuses_them(seed):
    job = JointJob(
        method="filter", setting="vertical", parties=("bank",), label_party="bank", labelled=True,
        seed=seed,
    )  # fmt: skip

    with pytest.raises(JobError, match="negative or too long"):
        job.check()
