# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS on shares: gates and a network of degree two, and no row is opened to anybody.

Setting   Parties hold different columns of the same rows; one holds the label (and maybe columns).
Roles     *label holder* (drives; labels, gates, one share of everything) and *feature holder* (any
          number; columns, the other share of their weights). One feature holder, drawn by lot, is
          the *helper*: it holds the other share of hidden values, outputs and gradients.
Adversary Honest but curious, single parties. A label holder that colludes with any feature holder
          opens gradients of single rows; one that colludes with the helper opens everything.

Who learns what
  feature holder  number of rows, which train, validate and share a batch; number of features of all
                  parties, and of the inputs of the label holder's; which of its own columns were
                  selected. Everything else is uniform or encrypted.
  label holder    impurity of unnamed columns (``init="gini"``; numbers are cut into quantile
                  classes first, so that no score has their digits); per opening one number per
                  unnamed column, times a secret factor that the owner draws (of its own columns:
                  that the helper draws), and block means of the loss on validation rows: in all a
                  tenth as many numbers as others have cells, which every party checks before the
                  run.
                  An exact number is an equation for cells, whatever it is a sum of: with labels,
                  settings and own columns made for it, openings without factors and limits give
                  columns away (``fedsift.lab.attacks.fedsdg.blind``).

The network   Z = X diag(s) W + b,  f = V (Z * Z / 4 + Z / 2),  squared error to centred indicators
of the classes (or the standardised number). V are fixed signs: squares with both signs make any
quadratic form, and what is fixed needs no products of shares. Steps have momentum, which every
party keeps for its own shares; a gate is left out of its own column's gradient, so that closed
columns learn on and can come back.

Deviations from the paper (see also ``protocol="paper"``), each with its reason
  - No embedding networks and no top network with openings: both open numbers of single rows, from
    which labels and columns can be computed.
  - Gates are at the label holder and move once per opening, from sums over all training rows.
  - The number of openings is fixed: when a training ends would tell something about labels.

A malicious feature holder can send wrong shares, which harm the model. A malicious label holder can
choose what it sends under its key; it gets no more openings than the job says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.crypto.products.between_two import Small
from fedsift.crypto.wire import PublicKeys
from fedsift.data.federation import is_remote
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.data.target import Target
from fedsift.errors import BadFrame
from fedsift.methods.fedsdg.blind import messages
from fedsift.methods.fedsdg.blind.columns import starting_weights
from fedsift.methods.fedsdg.blind.feature_holder import MAY_CHANGE, BlindFeatureHolder
from fedsift.methods.fedsdg.blind.gates import Gates, Judged
from fedsift.methods.fedsdg.blind.layer import SharedLayer
from fedsift.methods.fedsdg.blind.numbers import Floats, input_integers, input_scale
from fedsift.methods.fedsdg.blind.open_layer import OpenLayer
from fedsift.methods.fedsdg.blind.params import BlindParams, check_opened, fewest_to_validate
from fedsift.methods.fedsdg.blind.targets import prepare_targets, weights_of_classes
from fedsift.methods.fedsdg.blind.training import BlindTraining, EpochReport
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.messages import Chosen
from fedsift.methods.fedsdg.row_splits import validation_split
from fedsift.methods.fedsdg.starts import start_from_gini
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as filter_messages
from fedsift.methods.filter.ranking import as_classes
from fedsift.protocol import Network, PublicArray, RemoteRole, Role
from fedsift.protocol.resume import ResumableDriver
from fedsift.protocol.role import errors_belong_to

_MIDDLE = 0.5


@dataclass(frozen=True)
class BlindlyTrained:
    """What the label holder knows at the end."""

    n_open: int
    epoch: int
    score: float
    history: tuple[dict[str, Any], ...]
    interrupted: bool
    parties: tuple[str, ...]
    remarks: tuple[str, ...]
    warning: str


class BlindLabelHolder(
    ResumableDriver, name=messages.LABEL_HOLDER, signals=filter_messages.SIGNALS
):
    """Owns labels and gates, drives the training, and holds one share of the network.

    Parameters
    ----------
    party : str
    table : PartyTable or None
        Own columns, if there are any.
    target : Target
    params : BlindParams
    n_parties : int
        Parties with columns.
    checkpoints : Path, optional
        Directory for this party's own checkpoints.
    """

    report: EpochReport | None = None
    """Told about every opening: numbers only, at this party."""

    def __init__(
        self,
        party: str,
        table: PartyTable | None,
        target: Target,
        params: BlindParams,
        n_parties: int,
        *,
        checkpoints: Path | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, party, params, table, target, may_change=MAY_CHANGE)
        self._party = party
        self._table = table
        self._target = target
        self._params = params
        self._n_parties = n_parties
        seed = None if params.seed is None else [params.seed, *(party + " (labels)").encode()]
        self._rng = np.random.default_rng(seed)
        self.stop_requested = False
        self._saved: State = {}
        self._layer: SharedLayer | OpenLayer | None = None
        self._training_phase: BlindTraining | None = None
        self._own_selected: Small = np.empty(0, dtype=np.int64)
        self._own_encoder: InputEncoder | None = None
        self._own_inputs: Small | None = None
        self._own_scale = 1.0

    async def drive(self, net: Network) -> BlindlyTrained:
        """The whole training, seen from the label holder."""
        await self.begin(net)
        parties = net.members(messages.FEATURE_HOLDER)
        self._split_rows()
        self._targets, self._mean, self._spread = prepare_targets(
            self._target, self._train_rows, self._params
        )
        self._prepare_own()
        widths, keys = await self._introduce(parties, net)
        self._check_opened(widths)
        gates = Gates(
            await self._start(widths, net),
            self._params.sigma,
            self._params.lam,
            self._params.gate_learning_rate,
        )
        layer = await self._open_layer(widths, keys, net)
        phase = self._training_phase = self._new_phase(layer, gates)
        if self._saved:
            phase.load(self._saved["phase"])
        else:
            await self.done(net)
        await phase.run(net, lambda: self.stop_requested, self.report, self.done)
        await self._tell_selection(phase, layer, net)
        if not self.stop_requested and phase.diverged is None:
            await self.finish(net)
        return self._outcome(phase, parties)

    # Before the training

    def _check_opened(self, widths: Mapping[str, Small]) -> None:
        n_features = sum(map(len, widths.values()))
        n_hidden = n_features - len(widths.get(self._party, ()))
        rows = (len(self._train_rows), len(self._judge_rows))
        check_opened(self._params, *rows, n_hidden, n_features)

    def _split_rows(self) -> None:
        if self._saved:
            self._train_rows, self._judge_rows = self._saved["rows"]
            return
        by_class = self._target.kind == "classes"
        strata = self._target.codes if by_class else np.zeros(self._target.n_rows, np.int64)
        self._train_rows, self._judge_rows = validation_split(
            strata, self._params.validation, self._rng
        )
        # Classes with few rows leave none out; a block of losses needs some all the same.
        hidden = self._table is None or self._n_parties > 1
        fewest = fewest_to_validate(self._target.n_rows, hidden=hidden)
        missing = max(0, fewest - len(self._judge_rows))
        cut = len(self._train_rows) - missing
        self._judge_rows = np.concatenate([self._judge_rows, self._train_rows[cut:]])
        self._train_rows = self._train_rows[:cut]

    def _prepare_own(self) -> None:
        if self._table is None:
            return
        self._own_encoder = InputEncoder.fit(self._table, self._train_rows)
        inputs = self._own_encoder.transform(self._table)
        self._own_scale = input_scale(
            inputs[self._train_rows], self._n_parties, self._params.batch_size
        )
        self._own_inputs = input_integers(inputs, self._own_scale)

    async def _introduce(
        self, parties: Sequence[str], net: Network
    ) -> tuple[dict[str, Small], dict[str, PublicKeys]]:
        """How many inputs the features of every party make, and keys for masks."""
        widths: dict[str, Small] = {}
        if self._own_encoder is not None:
            n_own = len(self._own_encoder.names)
            widths[self._party] = np.bincount(self._own_encoder.feature_of_input, minlength=n_own)
        if not parties:
            return widths, {}
        hello = messages.BlindStart(
            self._target.n_rows,
            PublicArray.of(self._train_rows),
            PublicArray.of(self._judge_rows),
            self.unit if self._saved else -1,
        )
        replies = await net.ask(messages.FEATURE_HOLDER, hello, messages.BlindReady)
        keys = {}
        for party, reply in zip(parties, replies, strict=True):
            with errors_belong_to(party, "BlindStart", 0):
                widths[party] = checked_widths(reply.widths)
            keys[party] = reply.mask_key
        return widths, keys

    async def _start(self, widths: Mapping[str, Small], net: Network) -> Floats:
        """Where gates start: the Gini impurity of every feature, by the filter protocol."""
        n_features = sum(map(len, widths.values()))
        if self._saved or self._params.init != "gini" or not self._params.has_gates:
            return np.full(n_features, _MIDDLE if self._params.has_gates else 1.0)
        table = None if self._table is None else self._table.take(self._train_rows)
        settings = self._params.filter_params
        target = as_classes(self._target.take(self._train_rows), settings)
        gini = filters.LabelHolder(self._party, table, target, len(self._train_rows), settings)
        with self.clock("initialise"):
            impurities = await gini.feature_scores(net)
        return start_from_gini(np.concatenate([impurities[party] for party in widths]))

    async def _open_layer(
        self, widths: Mapping[str, Small], keys: Mapping[str, PublicKeys], net: Network
    ) -> SharedLayer | OpenLayer:
        saved = self._saved["layer"] if self._saved else None
        if not keys:
            alone = self._layer = self._alone(widths)
            if saved is not None:
                alone.load(saved)
            return alone
        layer = self._layer = SharedLayer(
            self._params,
            self._party,
            widths,
            self._targets,
            self._own_inputs,
            self.clock,
            self.unit if self._saved else -1,
        )
        await layer.open(keys, net, saved)
        return layer

    def _alone(self, widths: Mapping[str, Small]) -> OpenLayer:
        """Nobody else has columns: there is nobody to hide anything from."""
        assert self._own_inputs is not None  # noqa: S101 - somebody has columns
        assert self._own_encoder is not None  # noqa: S101 - the same
        shape = (self._params.hidden, self._own_inputs.shape[1])
        n_features = sum(map(len, widths.values()))
        names = (self._party, f"{self._party} (helper)")
        one, other = (starting_weights(self._params, name, shape, n_features) for name in names)
        feature_of_input = self._own_encoder.feature_of_input
        scales = self._params.scales
        return OpenLayer(self._own_inputs, one + other, self._targets, feature_of_input, scales)

    def _new_phase(self, layer: SharedLayer | OpenLayer, gates: Gates) -> BlindTraining:
        known = self._targets[:, self._train_rows] / 2.0**self._params.scales.outputs
        variance = float((known**2).sum(axis=0).mean())
        return BlindTraining(
            layer,
            self._params,
            gates,
            self._train_rows,
            self._judge_rows,
            variance,
            self._rng,
        )

    # After the training

    async def _tell_selection(
        self, phase: BlindTraining, layer: SharedLayer | OpenLayer, net: Network
    ) -> None:
        assert phase.selected is not None  # noqa: S101 - the run has selected
        if isinstance(layer, OpenLayer):
            self._own_selected = phase.selected
            return
        await layer.fix_gates(phase.final_gates(), net)
        self._selected = {
            party: _within(phase.selected, layer.of_party(party)) for party in layer.parties
        }
        if self._table is not None:
            self._own_selected = _within(phase.selected, layer.of_party(self._party))
        told = {party: Chosen(tuple(numbers.tolist())) for party, numbers in self._selected.items()}
        await net.tell(messages.FEATURE_HOLDER, told)

    def _outcome(self, phase: BlindTraining, parties: Sequence[str]) -> BlindlyTrained:
        assert phase.selected is not None  # noqa: S101 - the run has selected
        remarks, warning = [], ""
        if phase.all_closed:
            remarks.append("All gates closed; the column whose gate closed last was kept.")
        if phase.diverged is not None:
            warning = (
                f"{phase.diverged} What the gates had selected before is kept; the model of this "
                "run is of no use."
            )
            remarks.append(warning)
        chosen, (cost, error) = phase.chosen, phase.cost
        if cost > error > 0:
            warning = (
                f"The selection costs {100 * cost / phase.variance:.1f} points of explained "
                f"variance on validation rows against all features, {cost / error:.1f} standard "
                "errors; choose='best', a smaller lam or more features cost less."
            )
            remarks.append(warning)
        return BlindlyTrained(
            len(phase.selected),
            -1 if chosen is None else chosen.number,
            0.0 if chosen is None else phase.history[chosen.number]["validation_score"],
            tuple(phase.history),
            self.stop_requested,
            tuple(parties),
            tuple(remarks),
            warning,
        )

    # Files and facts

    def checkpoint(self) -> State:
        """Rows, gates and course, and this party's shares."""
        if self._layer is None or self._training_phase is None:
            return {}
        return {
            "rows": [self._train_rows, self._judge_rows],
            "layer": self._layer.state(),
            "phase": self._training_phase.state(),
        }

    def restore(self, saved: State) -> None:
        """Go on after the last opening; keys and masks are new."""
        self._saved = saved

    def facts(self) -> dict[str, Any]:
        """What this party knows of its own columns."""
        names = () if self._table is None else self._table.feature_names
        means = np.zeros(len(names))
        means[self._own_selected] = 1.0
        return {
            "names": list(names),
            "selected": [names[i] for i in self._own_selected],
            "gate_means": means,
        }

    @property
    def column_order(self) -> Small:
        """Own columns are numbered as in the table."""
        return np.arange(0 if self._table is None else self._table.n_columns)

    def frontier(self) -> list[tuple[Judged, dict[str, Floats]]]:
        """Best states by number of features, each with the gates of every party's columns."""
        layer, phase = self._layer, self._training_phase
        assert phase is not None  # noqa: S101 - the training came before
        if isinstance(layer, SharedLayer):
            holders = (*layer.parties, *([] if self._table is None else [self._party]))
            places = {party: layer.of_party(party) for party in holders}
        else:
            places = {self._party: slice(None)}
        return [
            (state, {party: state.means[place] for party, place in places.items()})
            for state in phase.frontier()
        ]

    def part_state(self) -> State:
        """This party's part of the finished model, for its own file."""
        layer, phase = self._layer, self._training_phase
        assert layer is not None  # noqa: S101 - the training came before
        assert phase is not None  # noqa: S101 - the same
        own = self._own_encoder
        return {
            "role": messages.LABEL_HOLDER,
            "parties": list(layer.parties) if isinstance(layer, SharedLayer) else [],
            "widths": self._kept_widths(layer) if isinstance(layer, SharedLayer) else {},
            "gated": layer.gated(self._selected) if isinstance(layer, SharedLayer) else {},
            "layer": layer.state(gated=True) if isinstance(layer, SharedLayer) else layer.state(),
            "classes": list(self._target.classes),
            "mean": self._mean,
            "spread": self._spread,
            "class_weights": self._class_weights(),
            "columns": [] if self._table is None else list(self._table.feature_names),
            "selected": self.facts()["selected"],
            "own_selected": self._own_selected,
            "own_gates": self._own_gates(phase, layer),
            "own_widths": [] if own is None else np.bincount(own.feature_of_input).tolist(),
            "encoder": None if own is None else own.only(self._own_selected).to_plain(),
            "scale": self._own_scale,
        }

    def _class_weights(self) -> list[float]:
        if self._target.kind != "classes" or self._params.class_weight is None:
            return []
        weights = weights_of_classes(self._target, self._train_rows, self._params.class_weight)
        return [float(weight) for weight in weights]

    def _own_gates(self, phase: BlindTraining, layer: SharedLayer | OpenLayer) -> Small:
        gates = phase.final_gates()
        if isinstance(layer, OpenLayer):
            return gates
        return gates[layer.of_party(self._party)] if self._table is not None else gates[:0]

    def _kept_widths(self, layer: SharedLayer) -> dict[str, list[int]]:
        return {
            party: layer.widths_of(party)[numbers].tolist()
            for party, numbers in self._selected.items()
        }


def checked_widths(sent: PublicArray) -> Small:
    """Inputs of every feature of a party; refuses what cannot be any."""
    widths: Small = sent.array()
    if widths.ndim != 1 or widths.dtype != np.int64 or not len(widths) or (widths < 1).any():
        raise BadFrame(
            "A party announced features without inputs.",
            "Every feature makes one input at least.",
            "Check that all parties run the same version of fedsift.",
        )
    return widths


def _within(features: Small, place: slice) -> Small:
    """Those of some features that belong to a party, numbered from its first."""
    inside = features[(features >= place.start) & (features < place.stop)]
    return np.asarray(inside - place.start)


PROTOCOL = replace(messages.DECLARED, roles=(BlindLabelHolder, BlindFeatureHolder))


def build_nodes(
    tables: Mapping[str, PartyTable],
    label_holder: str,
    target: Target,
    params: BlindParams,
    *,
    checkpoints: Path | None = None,
) -> dict[str, Sequence[Role]]:
    """One node per party: the label holder drives, everybody else holds features."""
    n_parties = len(tables)
    holder: Role = RemoteRole(BlindLabelHolder)
    if not is_remote(target):
        own = tables.get(label_holder)
        holder = BlindLabelHolder(
            label_holder, own, target, params, n_parties, checkpoints=checkpoints
        )
    nodes: dict[str, Sequence[Role]] = {label_holder: (holder,)}
    for party, table in tables.items():
        if party == label_holder:
            continue
        if is_remote(table):
            nodes[party] = (RemoteRole(BlindFeatureHolder),)
            continue
        nodes[party] = (BlindFeatureHolder(table, params, n_parties, checkpoints=checkpoints),)
    return nodes
