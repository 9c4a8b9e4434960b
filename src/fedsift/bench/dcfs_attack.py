# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is left to see: membership inference against recorded runs of DCFS on real data sets.

Candidates are rows the victim selected with and rows of the same party that it kept for testing.
The figure is the area under the ROC curve: 0.5 is a guess, 1 is certainty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.attacks import anchor_inversion, anchor_membership
from fedsift.bench.dcfs_accuracy import summary
from fedsift.bench.dcfs_rankings import Task, source_of, task
from fedsift.crypto.stream import uniform_numbers
from fedsift.data import Federation, catalog
from fedsift.methods import dcfs, dcfs_messages
from fedsift.methods.dcfs_settings import ANCHOR_RANGE, Params, Scale, anchors_for
from fedsift.protocol import Codec
from fedsift.runtime import run_embedded
from fedsift.selectors.dcfs import MAX_AUTO_ANCHORS

Floats = npt.NDArray[np.float64]

DATA_SETS = {
    "smoke": ("generated",),
    "regular": ("colon", "tox171", "lung", "lymphoma"),
}
DATA_SETS["paper"] = DATA_SETS["regular"]
RUNS = {"smoke": 2, "regular": 10, "paper": 30}
_MOST_INVERTED, _INVERTED_RUNS = 2500, 5
"""As many anchors as columns are tried up to this width and this often: inverting takes long."""
_VICTIM, _ATTACKER = "party-1", "party-2"


@dataclass(frozen=True, eq=False)
class Recording:
    """One run as its participants saw it."""

    open_images: list[dict[str, Floats]]
    alignments: list[Floats]
    sent: dict[str, list[Floats]]
    anchors: Floats
    projection: Floats
    members: Floats
    strangers: Floats
    params: Params

    def auc(self, score: Callable[[Floats], Floats]) -> float:
        """How well scores tell members from strangers."""
        from sklearn.metrics import roc_auc_score

        rows = np.concatenate([self.members, self.strangers])
        truth = np.arange(len(rows)) < len(self.members)
        return float(roc_auc_score(truth, score(rows)))


def record(task: Task, seed: int, *, n_anchors: int, alignment: str, target: str) -> Recording:
    """Run DCFS on one division of the rows with all frames kept."""
    division = task.divide(np.random.default_rng((seed, 0)))
    parties = {f"party-{i + 1}": task.X[rows] for i, rows in enumerate(division.train)}
    many = n_anchors >= task.X.shape[1]
    params = Params(
        10,
        n_anchors=n_anchors,
        alignment=alignment,
        target="exact" if target == "exact" else "paper",
        many_anchors=many,
    )
    nodes = dcfs.build_nodes(Federation.horizontal(parties).tables, params)
    outcome = run_embedded(dcfs.PROTOCOL, nodes, keep_frames=True)
    codec = Codec(dcfs.PROTOCOL.messages)

    def got(party: str, kind: Any) -> list[Any]:
        return list(outcome.transcript.messages(party, codec, [kind]))

    (told,) = got(_ATTACKER, dcfs_messages.CommonScale)
    scale = Scale(*(numbers.array() for numbers in (told.mean, told.unit, told.low, told.high)))
    attacker, victim = nodes[_ATTACKER][0], nodes[_VICTIM][0]
    assert isinstance(attacker, dcfs.Member)  # noqa: S101 - built as one
    assert isinstance(victim, dcfs.Member)  # noqa: S101 - built as one
    kind = dcfs.image_type(params)
    sent: dict[str, list[Floats]] = {party: [] for party in parties}
    for entry in outcome.transcript.view("coordinator"):
        if entry.message == kind.__name__ and entry.frame is not None:
            message: Any = codec.decode(entry.frame, [kind])
            sent[entry.sender].append(message.image.array())
    return Recording(
        [
            {p: image.array() for p, image in m.images.items()}
            for m in got(_ATTACKER, dcfs_messages.AlignAll)
        ],
        [m.matrix.array() for m in got(_ATTACKER, dcfs_messages.AlignOne)],
        sent,
        anchors_for(params, attacker.secret, scale),
        victim.collaboration.projection,
        scale.of(task.X[division.train[0]]),
        scale.of(task.X[division.test[0]]),
        params,
    )


def seen_openly(run: Recording) -> float:
    """A member of the open mode: the better of the two attacks."""
    own = anchor_membership.images_of(run.open_images, _VICTIM)
    by_images = run.auc(lambda x: anchor_membership.membership_by_images(own, run.anchors, x))
    if len(run.anchors) < run.anchors.shape[1]:
        return by_images
    span = anchor_inversion.row_span(
        run.open_images, run.anchors, _VICTIM, run.params.n_components, run.params.target
    )
    return max(by_images, run.auc(lambda x: anchor_inversion.membership_scores(span, x)))


def seen_by_member(run: Recording) -> float:
    """A member of the server mode: its own images and how they were aligned."""
    own = run.sent[_ATTACKER]
    return run.auc(
        lambda x: anchor_membership.membership_by_alignments(run.alignments, own, run.anchors, x)
    )


def seen_by_coordinator(run: Recording, seed: int) -> float:
    """The coordinator of the server mode: every image, anchors that it can only guess."""
    own = run.sent[_VICTIM]
    uniform = uniform_numbers(seed.to_bytes(32, "big"), "guessed anchors", run.anchors.shape)
    guessed = ANCHOR_RANGE * (2 * uniform - 1)
    return run.auc(lambda x: anchor_membership.membership_by_images(own, guessed, x))


def attack_rows(
    profile: str, echo: Callable[[str], None], keep: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Every data set that is there: areas under the curve by who looks and at how many anchors."""
    rows = []
    for name in DATA_SETS[profile]:
        if source_of(name) and not catalog.is_available(source_of(name)):
            echo(f"{name}: not here (set FEDSIFT_DATA)")
            continue
        rows.append(_row(task(name), RUNS[profile]))
        keep(rows[-1])
        shown = (f"{k} {v['mean']:.2f}+-{v['se']:.2f}" for k, v in rows[-1]["auc"].items())
        echo(f"{name:10} membership: " + "  ".join(shown))
    return rows


def _row(task: Task, runs: int) -> dict[str, Any]:
    n_features = task.X.shape[1]
    default = max(1, min(MAX_AUTO_ANCHORS, n_features // 4))
    found: dict[str, list[float]] = {}
    errors: list[float] = []

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)

    for seed in range(runs):
        run = record(task, seed, n_anchors=default, alignment="server", target="exact")
        note("server, member", seen_by_member(run))
        note("server, coordinator", seen_by_coordinator(run, seed))
        for target in ("exact", "paper"):
            run = record(task, seed, n_anchors=default, alignment="open", target=target)
            note(f"open, {target}", seen_openly(run))
            if n_features > _MOST_INVERTED or seed >= _INVERTED_RUNS:
                continue
            run = record(task, seed, n_anchors=n_features, alignment="open", target=target)
            note(f"open, {target}, as many anchors as columns", seen_openly(run))
            if target == "paper":
                errors.append(_recovery_error(run))
    row = {
        "data": task.name,
        "runs": runs,
        "anchors": default,
        "columns": n_features,
        "auc": {name: summary(np.array(values)) for name, values in found.items()},
    }
    return {**row, "recovery_error": max(errors)} if errors else row


def _recovery_error(run: Recording) -> float:
    """Relative error of the victim's last projection, recovered from its image and the anchors."""
    image = run.sent[_VICTIM][-1]
    recovered = anchor_inversion.recover_projection(image, run.anchors)
    return float(np.linalg.norm(recovered - run.projection) / np.linalg.norm(run.projection))
