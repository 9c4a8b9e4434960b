# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on DCFS: projections and members from images of anchors."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.dcfs import anchor_views, mean_membership
from fedsift.methods.dcfs.selector import MAX_AUTO_ANCHORS
from fedsift.methods.dcfs.settings import Params

_VICTIM, _ATTACKER = "party-1", "party-2"
_NARROW, _WIDE = 60, 400
"""Columns where projections are recovered, and where members are told from strangers."""


@lru_cache(maxsize=4)
def _run(bare: bool, seed: int, n_features: int, many: bool) -> anchor_views.Recording:
    """Two parties with 24 rows each, more columns than rows, and 96 strangers."""
    rng = np.random.default_rng((seed, n_features))
    X = rng.normal(size=(144, n_features))
    parties = {_VICTIM: X[:24], _ATTACKER: X[24:48]}
    default = max(1, min(MAX_AUTO_ANCHORS, n_features // 4))
    params = Params(
        10,
        n_anchors=n_features + 5 if many else default,
        alignment="open" if bare else "server",
        target="paper" if bare else "exact",
        many_anchors=many,
    )
    return anchor_views.record(parties, X[48:], params, _VICTIM, _ATTACKER)


def _inversion(variant: str, seed: int) -> Trial:
    bare = variant == UNPROTECTED
    run = _run(bare, seed, _NARROW, many=bare)
    ledger = run.outcome.ledger.rows()
    # Without the other's images there is nothing to invert.
    found = max(0.0, 1 - anchor_views.recovery_error(run)) if run.open_images else 0.0
    return Trial(found, 0.0, ledger)


def _by_member(variant: str, seed: int) -> Trial:
    bare = variant == UNPROTECTED
    run = _run(bare, seed, _WIDE, many=False)
    found = anchor_views.seen_openly(run) if bare else anchor_views.seen_by_member(run)
    return Trial(found, 0.5, run.outcome.ledger.rows())


def _by_coordinator(variant: str, seed: int) -> Trial:
    run = _run(False, seed, _WIDE, many=False)
    if variant == UNPROTECTED:
        found = anchor_views.seen_with_anchors(run)
    else:
        found = anchor_views.seen_by_coordinator(run, seed)
    return Trial(found, 0.5, run.outcome.ledger.rows())


def _by_mean(variant: str, seed: int) -> Trial:
    run = _run(variant == UNPROTECTED, seed, _WIDE, many=False)
    # Rows are in common units, in which the mean of all parties' rows is zero.
    half = len(run.strangers) // 2
    others = replace(run, strangers=run.strangers[half:])
    mean, reference = np.zeros(_WIDE), run.strangers[:half]
    found = others.auc(lambda x: mean_membership.membership_by_mean(mean, reference, x))
    return Trial(found, 0.5, run.outcome.ledger.rows())


ATTACKS = (
    Attack(
        name="anchor-inversion",
        method="dcfs",
        attacker="member",
        uses=("AlignAll",),
        aims_at="another member's projection",
        measure="1 - relative error",
        unprotected="alignment='open', as many anchors as columns (the paper)",
        default="alignment='server': members see no images",
        trial=_inversion,
        runs=(1, 3),
        declared_as=("anchor-images",),
        tolerance=0.05,
    ),
    Attack(
        name="anchor-membership",
        method="dcfs",
        attacker="member",
        uses=("AlignAll", "AlignOne"),
        aims_at="whether a row is in another member's table",
        measure="area under the ROC curve",
        unprotected="alignment='open' (the paper), a quarter as many anchors as columns",
        default="alignment='server': own alignment matrices only",
        trial=_by_member,
        runs=(12, 40),
        declared_as=("alignment", "anchor-images"),
    ),
    Attack(
        name="image-membership",
        method="dcfs",
        attacker="coordinator",
        uses=("Images", "ImagesOfKnownAnchors", "ImagesOfManyAnchors"),
        aims_at="whether a row is in a member's table",
        measure="area under the ROC curve",
        unprotected="the coordinator knows the anchors (a member tells it)",
        default="the coordinator does not know the anchors",
        trial=_by_coordinator,
        runs=(12, 40),
        declared_as=("anchor-images", "known-anchor-images", "recoverable-projection"),
    ),
    Attack(
        name="mean-membership",
        method="dcfs",
        attacker="member",
        uses=("CommonScale",),
        aims_at="whether a row is in any other member's table",
        measure="area under the ROC curve",
        unprotected="alignment='open' (the paper)",
        default="alignment='server'; the common mean is told all the same",
        trial=_by_mean,
        runs=(3, 10),
        declared_as=("pooled-moments",),
    ),
)
