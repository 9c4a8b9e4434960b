# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Attacks on FedSDG-FS: labels in gradients, embeddings behind outputs, weights behind masks.

Runs of one epoch are encrypted as by default. Whole trainings run plain: encryption changes no
number that a party sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data import Federation, split_vertical
from fedsift.lab.attacks.attack import DEFAULT, OPTION, UNPROTECTED, Attack, Trial
from fedsift.lab.attacks.fedsdg import (
    blind_trials,
    blind_unrolled,
    columns,
    gate_start,
    rare_class,
    techniques,
    unrolled,
)
from fedsift.lab.attacks.fedsdg.views import CuriousLabelHolder, Recording, Weakness, read, record
from fedsift.lab.attacks.recording import JobRun, Mounted, Stage
from fedsift.methods.fedsdg.messages import Params

Integers = npt.NDArray[np.int64]

_VICTIM = "party-1"
KNOWN_ROWS = 40
"""Rows whose embedding the label holder knows in advance."""

_NOISE = 20.0

# What is found in a run


def labels_found(gradients: techniques.RowGradients, codes: Integers) -> float:
    """The better of two attacks, after the number of epochs that suits it best."""
    attacks = [techniques.by_direction]
    if len(np.unique(codes)) == 2:
        attacks.append(techniques.by_norm)
    return max(techniques.strongest(attack, gradients, codes) for attack in attacks)


def embedding_solved(run: Recording, party: str) -> float:
    """How much of an embedding the label holder solves, by the better of its two beliefs."""
    best = 0.0
    for start in (run.labels[0].shares[party], run.own_half[party]):
        guesses = techniques.follow_embeddings(start, run.labels)
        found = [
            techniques.explained(guess, view.embedding, by_column=True)
            for guess, view in zip(guesses, run.features[party], strict=True)
        ]
        best = max(best, float(np.median(found)))
    return best


def map_fitted(run: Recording, party: str, n_known: int) -> float:
    """How much of the other rows' embedding follows from that of some rows."""
    outputs, truth = run.labels[0].outputs, run.features[party][0].embedding
    guesses = [
        techniques.fit_map(
            truth[:n_known], outputs[:n_known], outputs[n_known:], penalised=penalised
        )
        for penalised in (False, True)
    ]
    found = [techniques.explained(guess, truth[n_known:], by_column=True) for guess in guesses]
    return max(0.0, *found)


def share_solved(run: Recording, party: str) -> float:
    """Share of the label holder's part of the weights that a feature holder solves for."""
    view = run.features[party][0]
    if view.masked_outputs is None:
        return 0.0
    share = techniques.regress_share(view.embedding, view.masked_outputs, run.modulus)
    return 0.0 if share is None else float((share == run.labels[0].shares[party]).mean())


def gradients_followed(run: Recording, party: str) -> float:
    """How much of the first output gradients follows from the own half of the weights' start."""
    _, delta = next(techniques.follow_weights(run.their_half[party], run.features[party]))
    truth = run.labels[run.training_batches()[0]].delta
    assert truth is not None  # noqa: S101 - it is a training batch
    return max(0.0, techniques.explained(delta, truth))


def units_isolated(run: Recording, party: str, seed: int, n_samples: int = 4000) -> float:
    """Share of the output units whose gradient a feature holder isolates in the first batch."""
    batch = run.training_batches()[0]
    gradient, delta = run.features[party][batch].gradient, run.labels[batch].delta
    assert gradient is not None  # noqa: S101 - it is a training batch
    assert delta is not None  # noqa: S101
    units = techniques.isolate_units(gradient, np.random.default_rng(seed), n_samples)
    return techniques.units_found(units, delta)


def attack_run(run: JobRun, stage: Stage) -> Iterator[Mounted]:
    """Labels in gradients and weights behind masks; embeddings behind outputs."""
    if not stage.roles(CuriousLabelHolder):
        run.notes.append("These attacks read numbers of single rows; a blind run opens none.")
        return
    recording, told = read(stage), stage.told
    ((holder, label_role),) = stage.roles(CuriousLabelHolder).items()
    target = label_role._target
    if target.kind != "classes":
        run.notes.append("Labels are guessed from gradients where they are classes only.")
    for party in recording.features:
        if target.kind == "classes":
            gradients = techniques.gradients_of(recording, party)
            known = target.codes[gradients.rows]
            two = len(np.unique(known)) == 2
            guess = 0.5 if two else techniques.chance_of_clusters(known)
            yield "gradient-labels", party, Trial(labels_found(gradients, known), guess, *told)
        yield "weight-regression", party, Trial(share_solved(recording, party), 0.0, *told)
        yield "start-following", party, Trial(gradients_followed(recording, party), 0.0, *told)
    for party in recording.features:
        if len(recording.features) == 1 and not recording.params.refit:
            found = embedding_solved(recording, party)
            yield "embedding-regression", holder, Trial(found, 0.0, *told, party)
        known_rows = min(KNOWN_ROWS, len(recording.labels[0].rows) // 2)
        found = map_fitted(recording, party, known_rows)
        yield "embedding-map", holder, Trial(found, 0.0, *told, party)


# Generated data


def _data(seed: int, n_rows: int, n_holders: int) -> tuple[Federation, Integers]:
    """Two classes of unequal size, columns of falling relevance, the label at its own party."""
    rng = np.random.default_rng(seed)
    y = rng.permutation((np.arange(n_rows) < 0.4 * n_rows).astype(np.int64))
    centres = rng.normal(size=(2, 6)) * np.linspace(2.0, 0.0, 6)
    X = rng.normal(size=(n_rows, 6)) + centres[y]
    return split_vertical(X, y, n_holders, label_holder=None, random_state=0), y


@lru_cache(maxsize=3)
def _short(weakness: Weakness, seed: int, n_holders: int = 1) -> Recording:
    """One epoch with the layer as it is by default."""
    federation, _ = _data(seed, 160, n_holders)
    scheme = "bgv" if weakness is Weakness.NONE else "plain"
    params = Params(seed=seed, max_epochs=1, min_epochs=0, batch_size=128, scheme=scheme)
    return record(federation, params, weakness=weakness)


def _labels(variant: str, seed: int) -> Trial:
    if variant == DEFAULT:
        return blind_trials.shared_labels(seed)
    federation, y = _data(seed, 200, 1)
    noise = _NOISE if variant == OPTION else 0.0
    params = Params(
        scheme="plain", seed=seed, max_epochs=10, min_epochs=0, batch_size=64, label_noise=noise
    )
    run = record(federation, params)
    gradients = techniques.gradients_of(run, _VICTIM)
    return Trial(labels_found(gradients, y[gradients.rows]), 0.5, *run.stage.told)


def _embedding(variant: str, seed: int) -> Trial:
    run = _short(Weakness.NO_WEIGHT_NOISE if variant == UNPROTECTED else Weakness.NONE, seed)
    return Trial(embedding_solved(run, _VICTIM), 0.0, *run.stage.told)


def _map(variant: str, seed: int) -> Trial:
    if variant == DEFAULT:
        return blind_trials.opened_sums(seed)
    weakness = Weakness.EXACT_OUTPUTS if variant == UNPROTECTED else Weakness.NONE
    run = _short(weakness, seed, 3 if variant == OPTION else 1)
    return Trial(map_fitted(run, _VICTIM, KNOWN_ROWS), 0.0, *run.stage.told)


def _weights(variant: str, seed: int) -> Trial:
    run = _short(Weakness.NO_MASKS if variant == UNPROTECTED else Weakness.NONE, seed)
    return Trial(share_solved(run, _VICTIM), 0.0, *run.stage.told)


def _start(variant: str, seed: int) -> Trial:
    run = _short(Weakness.OWN_START if variant == UNPROTECTED else Weakness.NONE, seed)
    return Trial(gradients_followed(run, _VICTIM), 0.0, *run.stage.told)


def _units(variant: str, seed: int) -> Trial:
    if variant == DEFAULT:
        return blind_trials.shared_units(seed)
    federation, _ = _data(seed, 400, 1)
    noise = 1.0 if variant == OPTION else 0.0
    chosen: dict[str, Any] = {"embedding": 6, "outputs": 6, "max_epochs": 1, "min_epochs": 0}
    run = record(federation, Params(scheme="plain", seed=seed, label_noise=noise, **chosen))
    return Trial(units_isolated(run, _VICTIM, seed), 0.0, *run.stage.told)


def _gate_axes(variant: str, seed: int) -> Trial:
    if variant == DEFAULT:
        return blind_trials.opened_sums(seed)
    found, run = columns.attack_gate_axes(5, seed)
    return Trial(float(np.median(found)), 0.0, *run.stage.told)


def _thinned_gates(variant: str, seed: int) -> Trial:
    if variant == DEFAULT:
        return blind_trials.opened_sums(seed)
    found, run = columns.attack_thinned_gates(5, seed)
    return Trial(float(np.median(found)), 0.0, *run.stage.told)


_BRIEFLY = ((None, 150), (0.3, 100), (0.05, 150))


def _unrolled(variant: str, seed: int) -> Trial:
    """Few columns and epochs; on the defaults with everything that is opened."""
    if variant == DEFAULT:
        found, blind_run = blind_unrolled.attack_default(120, 4, seed, hidden=8, seconds=10.0)
        guess = 1.0 / len(blind_run.training)
        return Trial(float(np.median(found)), guess, *blind_run.stage.told)
    found, run = unrolled.attack_unrolled(
        4, seed, n_rows=120, n_epochs=10, n_starts=2, seconds=20.0, stages=_BRIEFLY
    )
    return Trial(float(np.median(found)), 0.0, *run.stage.told)


ATTACKS = (
    Attack(
        name="gradient-labels",
        method="fedsdg",
        attacker="feature holder",
        uses=("Gradients",),
        aims_at="the label of every training row",
        measure="area under the ROC curve",
        unprotected="gradients without noise (protocol='paper')",
        default="shares of gradients (protocol='blind')",
        option=f"protocol='paper' with label_noise={_NOISE:g}",
        trial=_labels,
        runs=(1, 5),
        declared_as=("embedding-gradients",),
    ),
    Attack(
        name="embedding-regression",
        method="fedsdg",
        attacker="label holder",
        uses=("WeightShare", "SingleOutputs"),
        aims_at="a feature holder's embedding of every row",
        measure="variance explained",
        unprotected="no noise on the weights of the first batch (the paper)",
        default="weights shared from the first batch on, half of the start drawn by either side "
        "(protocol='paper')",
        trial=_embedding,
        runs=(1, 3),
    ),
    Attack(
        name="embedding-map",
        method="fedsdg",
        attacker="label holder",
        uses=("SingleOutputs", "OutputShare"),
        aims_at=f"the embedding of all rows, from that of {KNOWN_ROWS} rows known in advance",
        measure="variance explained",
        unprotected="outputs to the last bit, one feature holder (protocol='paper')",
        default="no embedding and no outputs: sums over all rows (protocol='blind')",
        option="protocol='paper', outputs summed over three feature holders",
        trial=_map,
        runs=(1, 3),
        declared_as=("single-layer-outputs", "layer-outputs"),
    ),
    Attack(
        name="weight-regression",
        method="fedsdg",
        attacker="feature holder",
        uses=("MaskedOutputs",),
        aims_at="the weights of the interactive layer",
        measure="weights known",
        unprotected="no masks on what the feature holder decrypts",
        default="uniform masks (protocol='paper')",
        trial=_weights,
        runs=(1, 3),
        tolerance=0.05,
    ),
    Attack(
        name="start-following",
        method="fedsdg",
        attacker="feature holder",
        uses=("Gradients",),
        aims_at="output gradients, and with them labels, from known starting weights",
        measure="variance explained",
        unprotected="the feature holder draws all starting weights",
        default="the label holder draws half of them (protocol='paper')",
        trial=_start,
        runs=(2, 5),
        declared_as=("embedding-gradients",),
    ),
    Attack(
        name="unit-isolation",
        method="fedsdg",
        attacker="feature holder",
        uses=("Gradients",),
        aims_at="gradients of single output units",
        measure="units found",
        unprotected="exact zeros of the activation (protocol='paper')",
        default="shares of gradients (protocol='blind')",
        option="protocol='paper' with label_noise=1",
        trial=_units,
        runs=(2, 5),
        declared_as=("embedding-gradients",),
        tolerance=0.05,
    ),
    Attack(
        name="gate-axes",
        method="fedsdg",
        attacker="label holder",
        uses=("SingleOutputs", "OutputShare"),
        aims_at="every column of a feature holder, of a linear model",
        measure="squared correlation, median column",
        unprotected="outputs of every epoch, in which gates close at times (protocol='paper')",
        default="sums over all rows, times secret factors (protocol='blind')",
        trial=_gate_axes,
        runs=(1, 5),
        declared_as=("single-layer-outputs", "layer-outputs"),
    ),
    Attack(
        name="thinned-gates",
        method="fedsdg",
        attacker="label holder",
        uses=("SingleOutputs", "OutputShare"),
        aims_at="every column of a feature holder, through any network",
        measure="squared correlation, median column",
        unprotected="outputs of every epoch, a price that closes gates (protocol='paper')",
        default="sums over all rows, times secret factors (protocol='blind')",
        trial=_thinned_gates,
        runs=(1, 5),
        declared_as=("single-layer-outputs", "layer-outputs"),
    ),
    Attack(
        name="unrolled",
        method="fedsdg",
        attacker="label holder",
        uses=("SingleOutputs", "OutputShare"),
        aims_at="every column of a feature holder, by repeating the training with guesses",
        measure="squared correlation, median column",
        unprotected="outputs of every epoch of a linear model (protocol='paper')",
        default="sums over all rows, times secret factors (protocol='blind')",
        trial=_unrolled,
        runs=(1, 5),
        declared_as=("single-layer-outputs", "layer-outputs"),
    ),
    *gate_start.ATTACKS,
    *blind_trials.ATTACKS,
    *rare_class.ATTACKS,
)
