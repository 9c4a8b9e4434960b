# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a site has reviewed is what it runs."""

from __future__ import annotations

from collections import Counter

import pytest

import fedsift as fs
from helpers.joint import at_sites, columns_homes, vertical


@pytest.mark.parametrize(("ids", "times"), [(False, 1), (True, 2)])
def test_a_method_is_prepared_again_only_if_rows_are_matched_after_the_review(
    monkeypatch, ids, times
):
    prepared, kept = Counter(), []
    original = fs.FilterSelector._prepare

    def noted(self, *arguments, **options):
        kept.append(self)  # so that no other estimator gets its id
        prepared[id(self)] += 1
        return original(self, *arguments, **options)

    monkeypatch.setattr(fs.FilterSelector, "_prepare", noted)
    job = vertical("filter", ids=ids, n_features_to_select=2, security="plain")
    coordinator, ended = at_sites(job, columns_homes(job))
    assert ended[coordinator].error is None
    assert ended[coordinator].value.n_selected == 2
    assert max(prepared.values()) == times
