# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on DCFS: projections and members from images of anchors.

Candidates for membership are rows of the victim that took part and rows that did not. The figure is
the area under the ROC curve: 0.5 is a guess, 1 is certainty.

From anchors to projections to the rows behind them
Method    dcfs with ``alignment="open"`` (paper 003 as printed).
Leak      A member knows the anchors X^a and sees every B_i X^a. With at least as many anchors as
          columns it solves for B_i (:func:`recover_projection`). The alignment M_i can be computed
          from shared images, so W_i and H_i follow, and H_i W_i lies in the span of party i's rows:
          each iteration gives q more directions (:func:`row_span`). Somebody's row that lies in
          that span was probably in the data.
Fix       Fewer anchors than columns (checked) end the recovery of B_i, not the inference of
          membership. What ends both is ``alignment="server"``: members see no images, and the
          coordinator, which does, does not know the anchors.

From images of few anchors
Method    dcfs, any number of anchors.
Leak      A party's first projection, and its weights after the first update (when H is still the
          identity), lie exactly in the span of its rows. Images are these directions under the
          anchors, and a random linear map keeps angles: nothing has to be solved for. The share of
          an anchored candidate row that lies in the span of the images tells members from
          strangers (:func:`membership_by_images`), with far fewer anchors than columns. This is
          stronger than inverting the anchors, except where that is exact.
Fix       ``alignment="server"``: members see no images, and the coordinator, which does, does not
          know the anchors, so it cannot tell where a candidate row would fall. It comes down to the
          two not colluding.

From a published mean (Homer and others, 2008)
Method    dcfs with ``scale="pooled"``, and whatever else tells parties a mean of all rows.
Leak      Every row pulls the mean of all rows a little towards itself. With many more columns than
          rows these little pulls add up: a row that was in lies along the mean's deviation from
          the population (:func:`membership_by_mean`), a row that was not lies anywhere.
Fix       ``scale="own"``: every party brings its columns to one scale by its own means and spreads,
          and learns nobody else's. The mean that an attacker has is that of its own rows.
Remains   ``scale="pooled"``, with ``pooled-moments`` in every party's policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.lab.attacks.attack import UNPROTECTED, Attack, Told, Trial
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage
from fedsift.methods.dcfs import anchor
from fedsift.methods.dcfs import coordinator as dcfs
from fedsift.methods.dcfs import messages as dcfs_messages
from fedsift.methods.dcfs.selector import MAX_AUTO_ANCHORS
from fedsift.methods.dcfs.settings import ANCHOR_RANGE, Params, anchors_for
from fedsift.methods.dcfs.stream import uniform_numbers
from fedsift.protocol import Policy

Floats = npt.NDArray[np.float64]

ALLOWING = Policy(
    may_reveal=tuple({m.declaration.kind for m in dcfs_messages.MESSAGES}), min_security_bits=0
)
"""Lets a run be as its settings want it, the paper's included."""

_EXACT_IMAGES = 2
"""The first projection and the first weights: later weights are distorted by an unknown H."""

# From what was seen to a guess


def recover_projection(image: Floats, anchors: Floats) -> Floats:
    """B from B X^a by least squares; exact if there are as many anchors as columns."""
    from scipy.linalg import lstsq

    return np.asarray(lstsq(anchors, image.T, lapack_driver="gelsy")[0].T)


def row_span(
    images: Sequence[Mapping[str, Floats]],
    anchors: Floats,
    victim: str,
    n_components: int,
    target: anchor.Target = "paper",
) -> Floats:
    """Orthonormal directions that the victim's rows span, as far as the images tell.

    ``images`` holds all parties' images, iteration by iteration. The first projection lies in the
    span, and so does H W after every update. With ``target="exact"`` images are bases, which tell
    the space of W but not its row lengths and so not H, except for the first one, the identity.
    """
    used = images if target == "paper" else images[:2]
    own = [now[victim] for now in used]
    # One factorisation for all images: it is what takes the time.
    recovered = recover_projection(np.concatenate(own), anchors)
    projections = np.split(recovered, np.cumsum([len(image) for image in own])[:-1])
    directions = [projections[0].T]
    h = np.ones(anchors.shape[1])
    for now, B in zip(used, projections[1:], strict=False):
        if target == "paper":
            common = anchor.common_target(list(now.values()), n_components)
            B = anchor.alignment_matrix(common, now[victim]) @ B
        directions.append(h[:, None] * B.T)
        h = anchor.sparsity_weights(B.T)
    # Directions of very different lengths count alike: only where they point is of interest.
    unit = [d / np.maximum(np.linalg.norm(d, axis=0), 1e-300) for d in directions]
    left, singular, _ = np.linalg.svd(np.concatenate(unit, axis=1), full_matrices=False)
    return np.asarray(left[:, singular > 1e-9 * singular[0]])


def membership_scores(span: Floats, rows: Floats) -> Floats:
    """How much of each row lies in the span; members should score higher than strangers."""
    inside = ((rows @ span) ** 2).sum(axis=1)
    return np.asarray(inside / np.maximum((rows**2).sum(axis=1), 1e-300))


def membership_by_images(images: Sequence[Floats], anchors: Floats, rows: Floats) -> Floats:
    """Share of every anchored candidate row inside the span of one party's first images.

    Parameters
    ----------
    images : sequence of ndarray of shape (p, r)
        One party's images, iteration by iteration.
    anchors : ndarray of shape (r, m)
        What the attacker takes for the anchors.
    rows : ndarray of shape (n_candidates, m)
        Candidates in common units.
    """
    return _share_inside(np.concatenate(images[:_EXACT_IMAGES]), rows @ anchors.T)


def membership_by_alignments(
    alignments: Sequence[Floats], images: Sequence[Floats], anchors: Floats, rows: Floats
) -> Floats:
    """The same for a member that sees no images but its own, and how they are aligned.

    What a member can see of the common target is the target's part inside its own image.
    """
    seen = [M @ image for M, image in zip(alignments, images, strict=False)]
    return _share_inside(np.concatenate(seen), rows @ anchors.T)


def _share_inside(directions: Floats, points: Floats) -> Floats:
    _, singular, basis = np.linalg.svd(directions, full_matrices=False)
    basis = basis[singular > 1e-9 * max(float(singular[0]), 1e-300)]
    return membership_scores(basis.T, points)


def membership_by_mean(mean: Floats, reference: Floats, rows: Floats) -> Floats:
    """How far each row lies along the deviation of a mean from the population's.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Of the rows that took part, in units of equal spread.
    reference : ndarray of shape (n_others, n_features)
        Other rows of the same population, which the attacker has.
    rows : ndarray of shape (n_candidates, n_features)

    Examples
    --------
    >>> mean, reference = np.array([0.5, 0.0]), np.array([[0.2, 0.1], [-0.2, -0.1]])
    >>> membership_by_mean(mean, reference, np.array([[1.0, 0.0], [-1.0, 0.0]])).tolist()
    [0.5, -0.5]
    """
    population = reference.mean(axis=0)
    return np.asarray((rows - population) @ (mean - population))


# What members and coordinator have after a run, read from the frames they received


@dataclass(frozen=True, eq=False)
class Recording:
    """One run as its participants saw it; ``mean`` is what the attacker takes for that of all."""

    open_images: list[dict[str, Floats]]
    alignments: list[Floats]
    sent: dict[str, list[Floats]]
    anchors: Floats
    projection: Floats
    members: Floats
    strangers: Floats
    mean: Floats
    params: Params
    victim: str
    attacker: str
    told: Told

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
    policies = dict.fromkeys(nodes, ALLOWING)
    outcome = run_local(dcfs.PROTOCOL, nodes, policies=policies, keep_frames=True)
    stage = Stage(dcfs.PROTOCOL, nodes, outcome)
    return read(stage, parties[victim], strangers, victim, attacker)


def read(stage: Stage, members: Floats, strangers: Floats, victim: str, attacker: str) -> Recording:
    """What there is in the frames of a run; ``members`` and ``strangers`` in their own units."""
    roles = stage.roles(dcfs.Member)
    # In the victim's units, which an attacker might know from elsewhere.
    scale = roles[victim].scale
    params: Params = roles[victim]._params
    sent: dict[str, list[Floats]] = {}
    for sender, message in stage.received_from("coordinator", dcfs.image_type(params)):
        sent.setdefault(sender, []).append(message.image.array())
    return Recording(
        [
            {party: image.array() for party, image in message.images.items()}
            for message in stage.received(attacker, dcfs_messages.AlignAll)
        ],
        [m.matrix.array() for m in stage.received(attacker, dcfs_messages.AlignOne)],
        sent,
        anchors_for(params, roles[attacker].secret, scale),
        roles[victim].collaboration.projection,
        scale.of(members),
        scale.of(strangers),
        scale.of(roles[attacker].scale.mean),
        params,
        victim,
        attacker,
        stage.told,
    )


def seen_openly(run: Recording) -> float:
    """A member of the open mode: the better of the two attacks."""
    own = [images[run.victim] for images in run.open_images]
    by_images = run.auc(lambda x: membership_by_images(own, run.anchors, x))
    if len(run.anchors) < run.anchors.shape[1]:
        return by_images
    span = row_span(
        run.open_images, run.anchors, run.victim, run.params.n_components, run.params.target
    )
    return max(by_images, run.auc(lambda x: membership_scores(span, x)))


def seen_by_member(run: Recording) -> float:
    """A member of the server mode: its own images and how they were aligned."""
    own = run.sent[run.attacker]
    return run.auc(lambda x: membership_by_alignments(run.alignments, own, run.anchors, x))


def seen_with_anchors(run: Recording) -> float:
    """The coordinator of the server mode, if somebody has told it the anchors."""
    return run.auc(lambda x: membership_by_images(run.sent[run.victim], run.anchors, x))


def seen_by_coordinator(run: Recording, seed: int = 0) -> float:
    """The coordinator of the server mode: every image, anchors that it can only guess."""
    uniform = uniform_numbers(seed.to_bytes(32, "big"), "guessed anchors", run.anchors.shape)
    guessed = ANCHOR_RANGE * (2 * uniform - 1)
    return run.auc(lambda x: membership_by_images(run.sent[run.victim], guessed, x))


def recovery_error(run: Recording) -> float:
    """Relative error of the victim's last projection, recovered from its image and the anchors."""
    recovered = recover_projection(run.sent[run.victim][-1], run.anchors)
    return float(np.linalg.norm(recovered - run.projection) / np.linalg.norm(run.projection))


# A job's own run


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Every member, and the coordinator, against every other member."""
    members: dict[str, Any] = stage.roles(dcfs.Member)
    params = next(iter(members.values()))._params
    if params.alignment == "local":
        run.notes.append("Members align nothing, so there are no images to attack.")
        return
    if len(members) < 3:
        run.notes.append(
            "Two members: there are no strangers' rows to tell a member's rows from, except for "
            "the coordinator."
        )
    told = stage.told
    tables = {party: role._values for party, role in members.items()}
    parties = list(members)
    for attacker, victim in zip(parties, parties[1:] + parties[:1], strict=True):
        others = [tables[party] for party in parties if party not in (attacker, victim)]
        strangers = np.concatenate(others) if others else tables[attacker]
        view = read(stage, tables[victim], strangers, victim, attacker)
        solvable = view.open_images and len(view.anchors) >= view.anchors.shape[1]
        found = max(0.0, 1 - recovery_error(view)) if solvable else 0.0
        yield "anchor-inversion", attacker, Trial(found, 0.0, *told, victim)
        if others:
            found = (seen_openly if view.open_images else seen_by_member)(view)
            yield "anchor-membership", attacker, Trial(found, 0.5, *told, victim)
        # Anchors that follow from the job's seed are no secret.
        found = (seen_with_anchors if params.anchors_are_known else seen_by_coordinator)(view)
        yield "image-membership", "coordinator", Trial(found, 0.5, *told, victim)


# Generated data

_VICTIM, _ATTACKER = "party-1", "party-2"


_NARROW, _WIDE = 60, 400
"""Columns where projections are recovered, and where members are told from strangers."""


@lru_cache(maxsize=4)
def _run(bare: bool, seed: int, n_features: int, many: bool) -> Recording:
    """Two parties with 24 rows each, more columns than rows, and 96 strangers."""
    rng = np.random.default_rng((seed, n_features))
    X = rng.normal(size=(144, n_features))
    parties = {_VICTIM: X[:24], _ATTACKER: X[24:48]}
    default = max(1, min(MAX_AUTO_ANCHORS, n_features // 4))
    params = Params(
        10,
        n_anchors=n_features + 5 if many else default,
        alignment="open" if bare else "server",
        scale="pooled" if bare else "own",
        target="paper" if bare else "exact",
        many_anchors=many,
    )
    return record(parties, X[48:], params, _VICTIM, _ATTACKER)


def _inversion(variant: str, seed: int) -> Trial:
    bare = variant == UNPROTECTED
    run = _run(bare, seed, _NARROW, many=bare)
    # Without the other's images there is nothing to invert.
    found = max(0.0, 1 - recovery_error(run)) if run.open_images else 0.0
    return Trial(found, 0.0, *run.told)


def _by_member(variant: str, seed: int) -> Trial:
    bare = variant == UNPROTECTED
    run = _run(bare, seed, _WIDE, many=False)
    return Trial(seen_openly(run) if bare else seen_by_member(run), 0.5, *run.told)


def _by_coordinator(variant: str, seed: int) -> Trial:
    run = _run(False, seed, _WIDE, many=False)
    told = variant == UNPROTECTED
    found = seen_with_anchors(run) if told else seen_by_coordinator(run, seed)
    return Trial(found, 0.5, *run.told)


def _by_mean(variant: str, seed: int) -> Trial:
    run = _run(variant == UNPROTECTED, seed, _WIDE, many=False)
    half = len(run.strangers) // 2
    others = replace(run, strangers=run.strangers[half:])
    reference = run.strangers[:half]
    found = others.auc(lambda x: membership_by_mean(run.mean, reference, x))
    return Trial(found, 0.5, *run.told)


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
        unprotected="scale='pooled': members learn the mean of all rows",
        default="scale='own': members scale by their own means",
        trial=_by_mean,
        runs=(3, 10),
        declared_as=("pooled-moments",),
    ),
)
