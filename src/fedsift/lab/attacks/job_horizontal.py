# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on recorded horizontal jobs: filter, DCFS, FPSO-FS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.lab.attacks.attack import Trial
from fedsift.lab.attacks.dcfs import anchor_views
from fedsift.lab.attacks.fpso import accuracy_profile
from fedsift.lab.attacks.fpso.trials import curious
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage
from fedsift.maths import moments
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.filter import coordinator as filters_horizontal
from fedsift.methods.filter.horizontal_messages import MaskedSums
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso import votes as fpso_votes

Floats = npt.NDArray[np.float64]

_SHADOWS = 150
_READABLE_BITS = 40
"""An unmasked count or sum is far below this; a masked one is uniform."""


def on_filter(run: JobRun, stage: Stage) -> Iterator[Mounted]:  # noqa: ARG001 - as all
    """The coordinator reads what single members sent."""
    ledger = stage.outcome.ledger.rows()
    readable: list[bool] = []
    for _, message in stage.received_from("coordinator", MaskedSums):
        readable += _readable(message.sums.array())
    if stage.roles(filters_horizontal.Coordinator) and readable:
        yield (
            "member-sums",
            "coordinator",
            Trial(float(np.mean(readable)), 0.0, ledger, measure="numbers without a mask"),
        )


def _readable(limbs: npt.NDArray[np.uint64]) -> list[bool]:
    """Which numbers are small enough not to be under a mask."""
    from fedsift.crypto.masking import unmask_sum

    width = limbs.shape[1]
    fraction = moments.FRACTION_BITS if width > 1 else 0
    return [abs(v) >> (fraction + _READABLE_BITS) == 0 for v in unmask_sum([limbs], width)]


def on_dcfs(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Every member, and the coordinator, against every other member."""
    members: dict[str, Any] = stage.roles(dcfs.Member)
    params = next(iter(members.values()))._params
    if params.alignment == "local":
        run.notes.append("Members align nothing, so there are no images to attack.")
        return
    if len(members) < 3:
        run.notes.append(
            "Two members: there are no strangers' rows to compare a member's rows with, except "
            "for the coordinator."
        )
    ledger = stage.outcome.ledger.rows()
    tables = {party: role._values for party, role in members.items()}
    parties = list(members)
    for attacker, victim in zip(parties, parties[1:] + parties[:1], strict=True):
        strangers = [tables[p] for p in parties if p not in (attacker, victim)]
        view = anchor_views.read(
            stage.outcome,
            stage.nodes,
            params,
            tables[victim],
            np.concatenate(strangers) if strangers else tables[attacker],
            victim,
            attacker,
        )
        if view.open_images and len(view.anchors) >= view.anchors.shape[1]:
            found = max(0.0, 1 - anchor_views.recovery_error(view))
            yield "anchor-inversion", attacker, Trial(found, 0.0, ledger, victim)
        else:
            yield "anchor-inversion", attacker, Trial(0.0, 0.0, ledger, victim)
        if strangers:
            openly = bool(view.open_images)
            found = (anchor_views.seen_openly if openly else anchor_views.seen_by_member)(view)
            yield "anchor-membership", attacker, Trial(found, 0.5, ledger, victim)
        # Anchors that follow from the job's seed are no secret.
        known = params.anchors_are_known
        found = (anchor_views.seen_with_anchors if known else anchor_views.seen_by_coordinator)(
            view
        )
        yield "image-membership", "coordinator", Trial(found, 0.5, ledger, victim)


def on_fpso(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """The third party profiles class mixes and keeps subsets."""
    if stage.roles(fpso_votes.Voter):
        run.notes.append("Blocks of rows voted with noise: no accuracy and no subset was sent.")
        return
    ledger = stage.outcome.ledger.rows()
    third = curious(stage)
    participants: dict[str, Any] = stage.roles(fpso.Participant)
    yield from _class_mixes(run, third, ledger)
    rounds = third.own_subsets()
    if not rounds:
        run.notes.append("No party's subset was sent, so there was no subset to keep.")
        return
    right, guess = [], []
    for number, role in enumerate(participants.values()):
        best = role._swarm.best.mask
        right.append(float((rounds[-1][number] == best).mean()))
        guess.append(max(float(best.mean()), 1 - float(best.mean())))
    trial = Trial(
        float(np.mean(right)), float(np.mean(guess)), ledger, measure="columns of own subsets known"
    )
    yield "mask-inference", fpso.THIRD_PARTY, trial


def _class_mixes(run: JobRun, third: Any, ledger: Any) -> Iterator[Mounted]:
    """For its benefit the third party is given everybody's rows as a population to practise on."""
    names = np.unique(np.concatenate(list(run.labels.values())))
    if len(names) != 2:
        run.notes.append("Class mixes are guessed for two classes only.")
        return
    parties = list(run.tables)
    codes = {party: (run.labels[party] == names[1]).astype(np.int64) for party in parties}
    true = np.array([[codes[party].mean()] for party in parties])
    view = third.seen()
    X = np.concatenate([run.tables[party].numeric_matrix() for party in parties])
    y = np.concatenate([codes[party] for party in parties])
    n_rows = max(10, min(len(c) for c in codes.values()))
    least, most = np.bincount(y, minlength=2) / n_rows
    low, high = max(0.02, 1 - least), min(0.98, most)
    rng = np.random.default_rng(0)
    drawn = rng.uniform(min(low, high), max(low, high), _SHADOWS)
    mixes = np.column_stack([1 - drawn, drawn])
    shadows = accuracy_profile.make_shadows(X, y, view, mixes, n_rows, rng)
    guess = accuracy_profile.guess_from_accuracies(shadows, view.accuracies)[:, 1:]
    right, cases = accuracy_profile.order_found(true, guess)
    if not cases:
        run.notes.append("All parties have the same class mix: there is nothing to distinguish.")
        return
    yield "accuracy-inference", fpso.THIRD_PARTY, Trial(right / cases, 0.5, ledger)
