# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What members and coordinator of DCFS have after a run, read from the frames they received.

Candidates for membership are rows of the victim that took part and rows that did not. The figure is
the area under the ROC curve: 0.5 is a guess, 1 is certainty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.engine.outcome import Outcome
from fedsift.lab.attacks.dcfs import anchor_inversion, anchor_membership
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.dcfs import messages as dcfs_messages
from fedsift.methods.dcfs.settings import ANCHOR_RANGE, Params, Scale, anchors_for
from fedsift.methods.dcfs.stream import uniform_numbers
from fedsift.protocol import Codec, Role

Floats = npt.NDArray[np.float64]


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
    victim: str
    attacker: str
    outcome: Outcome

    def auc(self, score: Callable[[Floats], Floats]) -> float:
        """How well scores tell members from strangers."""
        from sklearn.metrics import roc_auc_score

        rows = np.concatenate([self.members, self.strangers])
        truth = np.arange(len(rows)) < len(self.members)
        return float(roc_auc_score(truth, score(rows)))


def record(
    parties: Mapping[str, Floats], strangers: Floats, params: Params, victim: str, attacker: str
) -> Recording:
    """Run DCFS on these rows with all frames kept.

    Parameters
    ----------
    strangers : ndarray of shape (n_rows, n_features)
        Rows like the victim's that did not take part.
    """
    nodes = dcfs.build_nodes(Federation.horizontal(dict(parties)).tables, params)
    outcome = run_local(dcfs.PROTOCOL, nodes, keep_frames=True)
    return read(outcome, nodes, params, parties[victim], strangers, victim, attacker)


def read(
    outcome: Outcome,
    nodes: Mapping[str, Sequence[Role]],
    params: Params,
    members: Floats,
    strangers: Floats,
    victim: str,
    attacker: str,
) -> Recording:
    """What there is in the frames of a run; ``members`` and ``strangers`` in their own units."""
    codec = Codec(dcfs.PROTOCOL.messages)

    def got(party: str, kind: Any) -> list[Any]:
        return list(outcome.transcript.messages(party, codec, [kind]))

    (told,) = got(attacker, dcfs_messages.CommonScale)
    scale = Scale(*(numbers.array() for numbers in (told.mean, told.unit, told.low, told.high)))
    own, other = nodes[attacker][0], nodes[victim][0]
    assert isinstance(own, dcfs.Member)  # noqa: S101 - built as one
    assert isinstance(other, dcfs.Member)  # noqa: S101 - built as one
    kind = dcfs.image_type(params)
    sent: dict[str, list[Floats]] = {}
    for entry in outcome.transcript.view("coordinator"):
        if entry.message == kind.__name__ and entry.frame is not None:
            message: Any = codec.decode(entry.frame, [kind])
            sent.setdefault(entry.sender, []).append(message.image.array())
    return Recording(
        [
            {p: image.array() for p, image in m.images.items()}
            for m in got(attacker, dcfs_messages.AlignAll)
        ],
        [m.matrix.array() for m in got(attacker, dcfs_messages.AlignOne)],
        sent,
        anchors_for(params, own.secret, scale),
        other.collaboration.projection,
        scale.of(members),
        scale.of(strangers),
        params,
        victim,
        attacker,
        outcome,
    )


def seen_openly(run: Recording) -> float:
    """A member of the open mode: the better of the two attacks."""
    own = anchor_membership.images_of(run.open_images, run.victim)
    by_images = run.auc(lambda x: anchor_membership.membership_by_images(own, run.anchors, x))
    if len(run.anchors) < run.anchors.shape[1]:
        return by_images
    span = anchor_inversion.row_span(
        run.open_images, run.anchors, run.victim, run.params.n_components, run.params.target
    )
    return max(by_images, run.auc(lambda x: anchor_inversion.membership_scores(span, x)))


def seen_by_member(run: Recording) -> float:
    """A member of the server mode: its own images and how they were aligned."""
    own = run.sent[run.attacker]
    return run.auc(
        lambda x: anchor_membership.membership_by_alignments(run.alignments, own, run.anchors, x)
    )


def seen_with_anchors(run: Recording) -> float:
    """The coordinator of the server mode, if somebody has told it the anchors."""
    own = run.sent[run.victim]
    return run.auc(lambda x: anchor_membership.membership_by_images(own, run.anchors, x))


def seen_by_coordinator(run: Recording, seed: int = 0) -> float:
    """The coordinator of the server mode: every image, anchors that it can only guess."""
    own = run.sent[run.victim]
    uniform = uniform_numbers(seed.to_bytes(32, "big"), "guessed anchors", run.anchors.shape)
    guessed = ANCHOR_RANGE * (2 * uniform - 1)
    return run.auc(lambda x: anchor_membership.membership_by_images(own, guessed, x))


def recovery_error(run: Recording) -> float:
    """Relative error of the victim's last projection, recovered from its image and the anchors."""
    image = run.sent[run.victim][-1]
    recovered = anchor_inversion.recover_projection(image, run.anchors)
    return float(np.linalg.norm(recovered - run.projection) / np.linalg.norm(run.projection))
