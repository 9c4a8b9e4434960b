# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on recorded vertical jobs: alignment, filter, FedSDG-FS, interaction, VF-PS."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.jobs import align
from fedsift.lab.attacks.attack import Trial
from fedsift.lab.attacks.fedsdg import gradient_labels
from fedsift.lab.attacks.fedsdg import trials as attack_fedsdg
from fedsift.lab.attacks.fedsdg.layer_views import (
    CuriousFeatureHolder,
    CuriousLabelHolder,
    Recording,
)
from fedsift.lab.attacks.filter import bin_isolation
from fedsift.lab.attacks.filter.trials import own_scores
from fedsift.lab.attacks.interaction import counts as interaction_counts
from fedsift.lab.attacks.interaction import trials as attack_interaction
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage
from fedsift.lab.attacks.vfps import pseudonym_linking
from fedsift.lab.attacks.vfps import trials as attack_vfps
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter.features import bin_column
from fedsift.methods.filter.scores import TABLE_SCORES
from fedsift.methods.interaction import label_owner as interaction
from fedsift.methods.interaction import parties as interaction_parties
from fedsift.methods.interaction.measures import standardise
from fedsift.methods.vfps import leader as vfps
from fedsift.methods.vfps.messages import SubRankings, divided
from fedsift.methods.vfps.participant import Participant

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_MOST_TABLES = 2_000_000
_MOST_FITTED = 1200
_FEWEST_RANKED, _MOST_RANKED = 100, 2000
_MOST_COLUMNS = 5
"""Columns of one party that are looked for in ciphertexts."""


def on_alignment(run: JobRun, stage: Stage) -> Iterator[Mounted]:  # noqa: ARG001 - as all
    """The leader of an alignment knows which of its rows others have: the guess is the larger part.

    With more than two parties it is held against the rows that all have.
    """
    ledger = stage.outcome.ledger.rows()
    holders = stage.roles(align.IdHolder)
    for party, leader in stage.roles(align.IdLeader).items():
        ids = leader._ids
        true = np.ones(len(ids), dtype=bool)
        for holder in holders.values():
            true &= np.isin(ids, holder._ids)
        said = np.isin(np.arange(len(ids)), leader.facts()["rows"])
        share = float(true.mean())
        yield (
            "psi-padded-list",
            party,
            Trial(float((said == true).mean()), max(share, 1 - share), ledger),
        )


# Filter


def on_filter(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Feature holders solve whatever scores came back for labels."""
    for party, role in stage.roles(filters.FeatureHolder).items():
        (holder,) = stage.roles(filters.LabelHolder).values()
        params = role._params
        if params.score not in TABLE_SCORES or holder.n_classes != 2:
            run.notes.append(
                "Labels are solved from scores for two classes and binned scores only."
            )
            return
        codes = holder._codes
        positive = int(codes.sum())
        scores, ledger = own_scores(stage, party), stage.outcome.ledger.rows()
        binned = [
            bin_column(column, params.bins, params.min_bin_size).codes
            for column in role._table.columns
        ]
        name = "iv" if params.score == "iv" else "gini"
        if scores is None:
            run.notes.append(f"{party}: no score came back, so there was nothing to solve.")
            scores = np.full(len(binned), np.nan)
        alone = list(_alone(params.score, scores, binned, positive))
        yield f"bin-isolation-{name}", party, _labels(alone, codes, ledger)
        pairs = list(_pairs(params.score, scores, binned, positive))
        yield "partition-difference", party, _labels(pairs, codes, ledger)


def _labels(solved: list[tuple[int, int | None]], codes: Integers, ledger: Any) -> Trial:
    """Share of right labels of the rows that stood apart; a coin if there were none."""
    if not solved:
        return Trial(0.5, 0.5, ledger)
    rows = np.array([row for row, _ in solved])
    found = bin_isolation.share_right([label for _, label in solved], codes[rows])
    return Trial(found, 0.5, ledger)


def _alone(
    score: str, scores: Floats, binned: list[Integers], positive: int
) -> Iterator[tuple[int, int | None]]:
    """Rows that are alone in one of two bins."""
    for value, codes in zip(scores, binned, strict=True):
        sizes = np.bincount(codes)
        if len(sizes) == 2 and sizes.min() == 1:
            small = int(sizes.argmin())
            row = int(np.flatnonzero(codes == small)[0])
            ordered = np.sort(sizes)[::-1]
            yield row, bin_isolation.lonely_label(score, float(value), ordered, positive)


def _pairs(
    score: str, scores: Floats, binned: list[Integers], positive: int
) -> Iterator[tuple[int, int | None]]:
    """Rows by which two columns of two bins differ."""
    two = [i for i, codes in enumerate(binned) if codes.max(initial=0) == 1]
    for i in two:
        for j in two:
            apart = np.flatnonzero(binned[i] != binned[j])
            if len(apart) == 1 and binned[j][apart[0]] == 1:
                sizes = np.bincount(binned[i], minlength=2)
                both = np.array([scores[i], scores[j]])
                label = bin_isolation.label_by_difference(score, both, sizes, positive)
                yield int(apart[0]), label


# FedSDG-FS


def on_fedsdg(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Labels in gradients and weights behind masks; embeddings behind outputs."""
    recording = recording_of(stage)
    ledger = stage.outcome.ledger.rows()
    ((holder, label_role),) = stage.roles(CuriousLabelHolder).items()
    target = label_role._target
    classes = target.kind == "classes"
    codes = target.codes if classes else np.empty(0, dtype=np.int64)
    if not classes:
        run.notes.append("Labels are guessed from gradients where they are classes only.")
    for party in recording.features:
        if classes:
            gradients = gradient_labels.gradients_of(recording, party)
            known = codes[gradients.rows]
            two = len(np.unique(known)) == 2
            guess = 0.5 if two else gradient_labels.chance_of_clusters(known)
            found = attack_fedsdg.labels_found(gradients, known)
            yield "gradient-labels", party, Trial(found, guess, ledger)
        found = attack_fedsdg.share_solved(recording, party)
        yield "weight-regression", party, Trial(found, 0.0, ledger)
        found = attack_fedsdg.gradients_followed(recording, party)
        yield "start-following", party, Trial(found, 0.0, ledger)
    for party in recording.features:
        if len(recording.features) == 1 and not recording.params.refit:
            found = attack_fedsdg.embedding_solved(recording, party)
            yield "embedding-regression", holder, Trial(found, 0.0, ledger, party)
        rows = len(recording.labels[0].rows)
        known_rows = min(attack_fedsdg.KNOWN_ROWS, rows // 2)
        found = attack_fedsdg.map_fitted(recording, party, known_rows)
        yield "embedding-map", holder, Trial(found, 0.0, ledger, party)


def recording_of(stage: Stage) -> Recording:
    """What curious parties noted, in the form that attacks read."""
    (label_role,) = stage.roles(CuriousLabelHolder).values()
    others: dict[str, Any] = stage.roles(CuriousFeatureHolder)
    modulus = next(iter(others.values()))._layer._owner.modulus
    return Recording(
        label_role._params,
        modulus,
        label_role.notes.labels,
        {party: role.views for party, role in others.items()},
        label_role.notes.own_half,
        {party: role.half for party, role in others.items()},
        stage.outcome,
        stage.nodes,
    )


# Interaction


def on_interaction(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Columns in the bytes at the cloud, and tables behind the relevances."""
    ledger = stage.outcome.ledger.rows()
    owners: dict[str, Any] = stage.roles(interaction_parties.FeatureOwner)
    sealed = attack_interaction.sealed_at(stage, interaction.CLOUD)
    for name, role in owners.items():
        columns = standardise(role._values)
        columns = columns[:, columns.std(axis=0) > 0][:, :_MOST_COLUMNS]
        if columns.shape[1]:
            found, chance = attack_interaction.traces(sealed, columns, 0)
            yield "cloud-columns", interaction.CLOUD, Trial(found, chance, ledger, name)
    ((party, owner),) = stage.roles(interaction.LabelOwner).items()
    sizes = tuple(np.bincount(owner._codes).tolist())
    params = owner._params
    if params.measure != "miw" or math.prod(n + 1 for n in sizes) > _MOST_TABLES:
        run.notes.append(f"{party}: too many tables to try, or another measure than miw.")
        return
    released = np.asarray(stage.outcome.value.relevance, dtype=np.float64)
    precision = 1e-9 if params.noise_bits is None else 2.0**-params.noise_bits
    best, tried = 0.0, 0
    for other, role in owners.items():
        if other == party:
            continue
        for column in role._values.T:
            values = np.unique(column)
            if len(values) == 2 and np.isfinite(values).all():
                ones = np.bincount(owner._codes, column == values[1], len(sizes)).astype(np.int64)
                best = max(best, _named(ones, sizes, released, precision))
                tried += 1
    if not tried:
        run.notes.append(f"{party}: no other party has a two-valued column to name the table of.")
        return
    yield "relevance-counts", party, Trial(best, 0.0, ledger)


def _named(ones: Integers, sizes: tuple[int, ...], released: Floats, precision: float) -> float:
    """Chance of naming the table of a two-valued column, from the relevance nearest to it."""
    opened = interaction_counts.opened_relevance
    exact = float(opened(ones, sizes))
    nearest = float(released[np.abs(released - exact).argmin()])
    tables = interaction_counts.tables_that_explain(nearest, precision, sizes, opened)
    return min(1.0, 2 / len(tables)) if ones.tolist() in tables.tolist() else 0.0


# VF-PS


def on_vfps(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """The leader solves and fits distances; the aggregator links ids."""
    ledger = stage.outcome.ledger.rows()
    ((party, leader),) = stage.roles(vfps.Leader).items()
    views = attack_vfps.views_of(stage)
    participants: dict[str, Any] = stage.roles(Participant)
    matrices = {name: role._matrix for name, role in participants.items()}
    if views:
        yield "distance-solving", party, Trial(attack_vfps.solved_share(views), 0.0, ledger)
    others = {name: m[:, 0] for name, m in matrices.items() if name != leader._own}
    small = sum(len(column) for column in others.values()) <= _MOST_FITTED
    if views and small and all(matrices[name].shape[1] == 1 for name in others):
        found = attack_vfps.fitted(views, others, n_starts=2)
        yield "distance-reconstruction", party, Trial(found, 0.0, ledger)
    else:
        run.notes.append(
            f"{party}: columns are fitted to distances for small tables of one column only."
        )
    rankings = attack_vfps.rankings_of(stage) or _sub_rankings(stage)
    n_rows = len(next(iter(matrices.values())))
    if not rankings or not _FEWEST_RANKED <= n_rows <= _MOST_RANKED:
        run.notes.append(
            f"{vfps.AGGREGATOR}: how often ids come near is counted for "
            f"{_FEWEST_RANKED} to {_MOST_RANKED} rows; fewer would show chance only."
        )
        return
    depth = min(64, max(1, n_rows // 4))
    found = max(
        pseudonym_linking.linked(
            rankings,
            np.arange(n_rows),
            attack_vfps.centrality(matrix, len(matrices), depth),
            depth,
        )
        for matrix in matrices.values()
    )
    yield "pseudonym-linking", vfps.AGGREGATOR, Trial(found, 0.0, ledger)


def _sub_rankings(stage: Stage) -> list[Integers]:
    found: list[Integers] = []
    for message in stage.received(vfps.AGGREGATOR, SubRankings):
        found += divided(message.ids, message.lengths, message.lengths.shape[0])
    return [ranking for ranking in found if len(ranking)]
