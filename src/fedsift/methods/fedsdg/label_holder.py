# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: feature selection by stochastic gates while a split network trains.

Paper 000 (FedSDG-FS, INFOCOM 2023), all of it.

Setting   Parties hold different columns of the same rows; one holds the label (and maybe columns).
Roles     *label holder* (drives; the paper's server: interactive layer, top network, labels) and
          *feature holder* (any number; the paper's clients: gates, embedding network, own key).
Adversary Honest but curious, single parties, and any set of feature holders that do not collude
          with the label holder. A label holder that colludes with all feature holders but one sees
          that one's part of the layer's outputs.

Who learns what
  feature holder  number of rows, which train and which validate; number of features of all parties;
                  a rough merit of its own features (``init="gini"``); the gradient of its own
                  embedding, which carries information about the label (see ``label_noise``); which
                  epoch was the best.
  label holder    impurity of unnamed features (``init="gini"``); number of features, open gates and
                  embedding columns in use; outputs of the interactive layer for weights it does not
                  know, summed over feature holders (one feature holder: its own).

The algorithms, line by line
  Algorithm 1  feature importance initialisation   LabelHolder._start_gates (filters, maths.gates)
  Algorithm 2  secure forward propagation          InteractiveLayer.forward, FeatureHolder.embed
  Algorithm 3  secure backward propagation         InteractiveLayer.backward, FeatureHolder.learn
  Equation 4   gates and their penalty             maths.gates, LocalPart

Deviations, each with its reason
  - Interactive weights are shared as W = V - E in Z_t with uniform V and E from the first batch on;
    the paper's first batch has no noise, and real-valued noise hides little. Both sides draw a half
    of the starting weights: a feature holder that knew them all could undo the first gradient.
  - Outputs reach the label holder summed over feature holders, not one by one.
  - Outputs and gradients carry noise of half a unit of what was rounded: exact products of small
    integers can be factored by lattice reduction (attacks.small_factors).
  - The layer takes plain steps, everything else Adam: the sharing is linear in the gradient.
  - lambda multiplies the *mean* open probability over all features. With the printed sum, a lambda
    that selects 20 of 500 features closes everything.
  - Gates start from standardised 1/G, in 64 steps: in proportion to 1/G they would all start alike.
  - An exact number of features, which the paper does not have: the widest open gates, or, without
    gates, what is left of a backward elimination that every party does alone, on its own columns
    and first layer (maths.elimination). One number per feature leaves the party either way.
  - An epoch is chosen on validation rows taken from the training rows, never on test rows: the
    fewest features within one standard error of the best validation score.

A malicious feature holder can send a wrong embedding, which only harms the model. A malicious label
holder can choose rows and gradients, and so learn more about an embedding than it should; it cannot
read a key, nor the weights a feature holder holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedsift.data.federation import is_remote
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.methods.fedsdg import messages
from fedsift.methods.fedsdg.checkpoints import Checkpoints
from fedsift.methods.fedsdg.feature_holder import MAY_CHANGE, FeatureHolder
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.interactive_layer import InteractiveLayer
from fedsift.methods.fedsdg.layer_numbers import Floats
from fedsift.methods.fedsdg.local_part import (
    LocalPart,
    MakeEmbeddings,
    PartData,
    private_seeds,
    refitted_part,
)
from fedsift.methods.fedsdg.messages import Params
from fedsift.methods.fedsdg.row_splits import validation_split
from fedsift.methods.fedsdg.split_network import MakeTop
from fedsift.methods.fedsdg.starts import start_from_gini
from fedsift.methods.fedsdg.top import TopSide
from fedsift.methods.fedsdg.training import EpochReport, TrainingContext, TrainingPhase
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as filter_messages
from fedsift.methods.filter.ranking import as_classes, rank
from fedsift.protocol import Network, PublicArray, RemoteRole, Role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to


@dataclass(frozen=True)
class Trained:
    """What the label holder knows at the end."""

    n_open: int
    epoch: int
    score: float
    history: tuple[dict[str, Any], ...]
    interrupted: bool
    parties: tuple[str, ...]


@dataclass(frozen=True)
class _Selected:
    """What the stage with gates came to."""

    n_open: int
    epoch: int
    score: float
    history: list[dict[str, Any]]
    parties: tuple[str, ...]


class LabelHolder(ResumableDriver, name=messages.LABEL_HOLDER, signals=filter_messages.SIGNALS):
    """Owns labels and top network, drives the training, and knows only shares of the layer.

    Parameters
    ----------
    party : str
    table : PartyTable or None
        Own columns, if there are any.
    target : Target
    params : Params
    make : callable, optional
        Embedding network for the own columns.
    make_top : callable, optional
        Network behind the interactive layer.
    checkpoints : Path, optional
        Directory for this party's own checkpoints.
    """

    report: EpochReport | None = None
    """Told about every epoch: numbers only, at this party."""

    _stage: TrainingPhase | None = None

    def __init__(
        self,
        party: str,
        table: PartyTable | None,
        target: Target,
        params: Params,
        *,
        make: MakeEmbeddings | None = None,
        make_top: MakeTop | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params, table, target, may_change=MAY_CHANGE)
        self._party = party
        self._table = table
        self._target = target
        self._params = params
        self._make = None if make is None else make(party)
        self._make_top = make_top
        seeds = private_seeds(params.seed, party + " (labels)", 5)
        self._seed, self._refit_seed, self._top_seed = seeds[:3]
        self._rng = np.random.default_rng(seeds[3])
        self._noise = np.random.default_rng(seeds[4])
        self._saved: State = {}
        self._selected: _Selected | None = None
        self.stop_requested = False
        self._own: LocalPart | None = None
        self._own_selected: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._own_means: Floats | None = None
        self._n_features = 0 if table is None else table.n_columns

    async def drive(self, net: Network) -> Trained:
        """The whole training, seen from the label holder."""
        torch.set_num_threads(1)
        await self.begin(net)
        parties = net.members(messages.FEATURE_HOLDER)
        self._split_rows()
        await self._introduce(parties, net)
        starts = {} if self._saved else await self._start_gates(parties, net)
        self._prepare_own(starts.get(self._party))
        if self._selected is None:
            self._selected = await self._train_gates(parties, net)
        selected, stage = self._selected, self._stage
        epoch, score, history = selected.epoch, selected.score, selected.history
        # Interrupted, a refit is left out, unless the gates selected more than was wanted.
        exactly = self._params.n_features_to_select is not None
        if self._params.refit and (not self.stop_requested or exactly):
            stage = await self._refit(selected.parties, net)
            chosen = stage.points.choice()
            epoch, score, history = chosen.number, chosen.score, [*history, *stage.history]
        if not self.stop_requested:
            await self.finish(net)
        assert stage is not None  # noqa: S101 - trained here, or refitted
        return Trained(
            selected.n_open,
            epoch,
            score,
            tuple(history),
            self.stop_requested,
            stage.layer.parties,
        )

    async def _train_gates(self, parties: Sequence[str], net: Network) -> _Selected:
        """Train with gates, go back to the best epoch, and see what it selects."""
        params = self._params
        stage = await self._new_stage(parties, self._top_seed, self._rule(), net)
        await stage.train(params.patience, net, self.done)
        chosen = stage.points.choice()
        await stage.return_to(chosen.number, net)
        if self._own is not None:
            self._own_selected = np.flatnonzero(self._own.open_features())
            self._own_means = self._own.gate_means()
        n_open, parties = chosen.n_open, tuple(parties)
        if params.n_features_to_select is not None:
            n_open = params.n_features_to_select
            parties = await self._choose_exactly(stage, n_open, net)
        elif params.refit:
            parties = stage.parties_with_open_gates(chosen.number)
        return _Selected(n_open, chosen.number, chosen.score, stage.history, parties)

    # Algorithm 1

    def _split_rows(self) -> None:
        """Validation rows come out of the training rows: a share of every class, at random."""
        if self._saved:
            self._training, self._validation = self._saved["rows"]
            return
        by_class = self._target.kind == "classes"
        strata = self._target.codes if by_class else np.zeros(self._target.n_rows, np.int64)
        self._training, self._validation = validation_split(
            strata, self._params.validation, self._rng
        )

    async def _introduce(self, parties: Sequence[str], net: Network) -> None:
        hello = messages.TrainingStart(
            self._target.n_rows,
            PublicArray.of(self._training),
            PublicArray.of(self._validation),
            self.unit if self._saved else -1,
        )
        if not parties:
            return
        replies = await net.ask(messages.FEATURE_HOLDER, hello, messages.Ready)
        self._n_features += sum(reply.n_features for reply in replies)
        await net.tell(messages.FEATURE_HOLDER, messages.TotalFeatures(self._n_features))

    async def _start_gates(self, parties: Sequence[str], net: Network) -> dict[str, Floats]:
        """Gini impurity of every feature by the filter protocol, and gates that start from it."""
        if self._params.init != "gini" or self._params.gates == "none":
            return {}
        table = None if self._table is None else self._table.take(self._training)
        settings = self._params.filter_params
        target = as_classes(self._target.take(self._training), settings)
        gini = filters.LabelHolder(self._party, table, target, len(self._training), settings)
        with self.clock("initialise"):
            impurities = await gini.feature_scores(net)
        means = start_from_gini(np.concatenate(list(impurities.values())))
        cuts = np.cumsum([len(values) for values in impurities.values()])[:-1]
        starts = dict(zip(impurities, np.split(means, cuts), strict=True))
        if parties:
            asks = {party: messages.GateStart(PublicArray.of(starts[party])) for party in parties}
            await net.tell(messages.FEATURE_HOLDER, asks)
        return starts

    def _prepare_own(self, start: Floats | None) -> None:
        if self._table is None:
            return
        self._own_encoder = InputEncoder.fit(self._table, self._training)
        self._own_data = PartData(self._own_encoder, self._table)
        if start is None:
            start = np.full(self._table.n_columns, 0.5)
        gates = None if self._params.gates == "none" else start
        self._own = LocalPart(self._own_encoder, gates, self._params, self._make, self._seed)

    async def _new_stage(
        self,
        parties: Sequence[str],
        top_seed: int,
        points: Checkpoints,
        net: Network,
    ) -> TrainingPhase:
        """Layer, top network and keys of a stage; weights are new or from a checkpoint."""
        layer = InteractiveLayer(self._params, parties, self.clock)
        if self._own is not None:
            layer.add_own(self._own, self._own_data)
        top = TopSide(self._target, self._training, self._params, top_seed, self._make_top)
        around = TrainingContext(
            self._params,
            self._party,
            self._training,
            self._validation,
            self._n_features,
            self._rng,
            self._noise,
            self.clock,
            lambda: self.stop_requested,
            self.report,
        )
        stage = self._stage = TrainingPhase(around, layer, top, self._own, points)
        await layer.open(net)
        if self._saved:
            stage.load(self._saved["stage"])
            self._saved = {}
        else:
            await layer.share_weights(self._rng, net)
            await self._save_stage(net)
        return stage

    async def _save_stage(self, net: Network) -> None:
        """Save, unless somebody asked for an early end: the run goes on from before it."""
        if not self.stop_requested:
            await self.done(net)

    # Selection

    async def _choose_exactly(
        self, stage: TrainingPhase, wanted: int, net: Network
    ) -> tuple[str, ...]:
        """The given number of features with the best scores, over all parties."""
        scores: dict[str, Floats] = {}
        if self._own is not None:
            with self.clock("train"):
                inputs = self._own_data.batch(self._training)
                scores[self._party] = self._own_means = self._own.exact_scores(inputs)
        parties = stage.layer.parties
        if parties:
            replies = await net.ask(
                messages.FEATURE_HOLDER, messages.GateMeansWanted(), messages.GateMeans
            )
            for party, reply in zip(parties, replies, strict=True):
                with errors_belong_to(party, "GateMeansWanted", 0):
                    scores[party] = reply.means.array().astype(np.float64)
        ranking = rank(scores, "gate", wanted)
        if self._own is not None:
            self._own_selected = np.array(ranking.selected[self._party], dtype=np.int64)
        if parties:
            await net.tell(
                messages.FEATURE_HOLDER,
                {party: messages.Chosen(ranking.selected[party]) for party in parties},
            )
        return tuple(party for party in parties if ranking.selected[party])

    async def _refit(self, parties: tuple[str, ...], net: Network) -> TrainingPhase:
        """New networks on the selected features alone; the best epoch is kept."""
        if parties:
            await net.tell(messages.FEATURE_HOLDER, dict.fromkeys(parties, messages.Refit()))
        self._own = None
        if len(self._own_selected):
            assert self._table is not None  # noqa: S101 - it has selected columns
            self._own_encoder = self._own_encoder.only(self._own_selected)
            self._own_data = PartData(self._own_encoder, self._table)
            self._own = refitted_part(self._own_encoder, self._params, self._make, self._refit_seed)
        stage = await self._new_stage(parties, self._refit_seed, self._rule(), net)
        await stage.train(self._params.patience, net, self._save_stage)
        await stage.return_to(stage.points.choice().number, net)
        for entry in stage.history:
            entry["refit"] = True
        return stage

    def _rule(self) -> Checkpoints:
        """How an epoch is chosen: any of them, unless an exact number is ranked by its gates.

        Gates are worth comparing only once the networks have learned.
        """
        params = self._params
        ranked = params.n_features_to_select is not None and not params.eliminates
        return Checkpoints(min(params.min_epochs, params.max_epochs - 1) if ranked else 0)

    # Files and facts

    def checkpoint(self) -> State:
        """Top network, shares of the layer, own part, course so far, and what gates selected."""
        if self._stage is None:
            return {}
        selected = self._selected
        return {
            "rows": [self._training, self._validation],
            "stage": self._stage.state(),
            "selected": None if selected is None else asdict(selected),
            "own_selected": self._own_selected,
            "own_means": self._own_means,
        }

    def restore(self, saved: State) -> None:
        """Go on after the last complete epoch; networks are built when the stage begins."""
        self._saved = saved
        if saved and saved["selected"] is not None:
            parties = tuple(saved["selected"].pop("parties"))
            self._selected = _Selected(**saved["selected"], parties=parties)
            self._own_selected, self._own_means = saved["own_selected"], saved["own_means"]

    def facts(self) -> dict[str, Any]:
        """What this party knows of its own columns."""
        names = () if self._table is None else self._table.feature_names
        return {
            "names": list(names),
            "selected": [names[i] for i in self._own_selected],
            "gate_means": self._own_means,
        }

    def part_state(self) -> State:
        """This party's part of the finished model, for its own file."""
        stage = self._stage
        assert stage is not None  # noqa: S101 - the training came before
        return {
            "role": messages.LABEL_HOLDER,
            "parties": list(stage.layer.parties),
            "top": stage.top.model_state(),
            "weights": stage.layer.weights(),
            "classes": list(self._target.classes),
            "mean": stage.top.mean,
            "scale": stage.top.scale,
            "columns": [] if self._table is None else list(self._table.feature_names),
            "selected": self.facts()["selected"],
            "encoder": None if self._own is None else self._own_encoder.to_plain(),
            "own": None if self._own is None else self._own.model_state(),
            "gated": self._own is not None and self._own.feature_gates is not None,
        }


PROTOCOL = replace(messages.DECLARED, roles=(LabelHolder, FeatureHolder))


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    target: Target,
    params: Params,
    *,
    make: MakeEmbeddings | None = None,
    make_top: MakeTop | None = None,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party: the label holder drives, everybody else holds features."""
    holder: Role = RemoteRole(LabelHolder)
    if not is_remote(target):
        holder = LabelHolder(
            label_holder,
            tables.get(label_holder),
            target,
            params,
            make=make,
            make_top=make_top,
            checkpoints=checkpoints,
        )
    nodes: dict[str, Sequence[Role]] = {label_holder: (holder,)}
    others = [party for party in tables if party != label_holder]
    for party in others:
        if is_remote(tables[party]):
            nodes[party] = (RemoteRole(FeatureHolder),)
            continue
        nodes[party] = (
            FeatureHolder(
                tables[party],
                params,
                len(others),
                make=None if make is None else make(party),
                checkpoints=checkpoints,
            ),
        )
    return nodes
