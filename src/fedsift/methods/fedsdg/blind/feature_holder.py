# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The feature holder of the blind protocol; one of them is the helper. Needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedsift.crypto.masking import MaskingKey, masks_modulo
from fedsift.crypto.modular import Residues
from fedsift.crypto.products.between_two import (
    Small,
    TwoPartyEvaluator,
    join_products,
    moduli,
    own_products,
)
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import BadFrame, ParameterError
from fedsift.methods.fedsdg.blind import messages, requests
from fedsift.methods.fedsdg.blind.columns import (
    HeldColumns,
    HelperWeights,
    starting_weights,
)
from fedsift.methods.fedsdg.blind.helper import HelperNetwork
from fedsift.methods.fedsdg.blind.numbers import (
    input_integers,
    input_scale,
    residues_of,
    ring,
    secret_factors,
    shorten,
)
from fedsift.methods.fedsdg.blind.params import BlindParams, check_opened
from fedsift.methods.fedsdg.holding import GatedHolder, checked_batch
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.messages import Chosen
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as filter_messages
from fedsift.protocol import MaskedArray, Network, PublicArray, handles

MAY_CHANGE = ("n_openings", "n_settling", "trials", "n_blocks")
"""Settings that a resumed training may have others of: it may go on for longer."""


class BlindFeatureHolder(
    GatedHolder, name=messages.FEATURE_HOLDER, signals=filter_messages.SIGNALS
):
    """Owns columns and a share of their weights; sees shares and ciphertexts only.

    Parameters
    ----------
    table : PartyTable
    params : BlindParams
    n_parties : int
        Parties with columns, the label holder included if it has some.
    checkpoints : Path, optional
        Directory for this party's own checkpoints.
    part : mapping, optional
        A saved part, to predict with instead of training.
    """

    def __init__(
        self,
        table: PartyTable,
        params: BlindParams,
        n_parties: int,
        *,
        checkpoints: Path | None = None,
        part: State | None = None,
    ) -> None:
        self.keep_checkpoints(checkpoints, table.name, params, table, may_change=MAY_CHANGE)
        self._table = table
        self._params = params
        self._n_parties = n_parties
        self._part = part
        self._gate_means = np.zeros(table.n_columns)
        self._mask_key = MaskingKey.generate()
        self._secrets: dict[str, bytes] = {}
        self._common = b""
        self._resumed_from = -1
        self._seed: int | None = None
        self._helper = ""
        self._network: HelperNetwork | None = None
        self._others: HelperWeights | None = None
        self._columns: HeldColumns | None = None
        self._n_batches = 0
        self._batch = -1
        self._judging: set[int] = set()
        self._n_openings = 0
        self._n_judged = 0
        self._n_features = 0
        self._weights: Residues | None = None
        self._saved: State = {}
        if part is not None:
            self._take_part(part)

    # The beginning

    @handles(messages.BlindStart)
    async def start(self, ask: messages.BlindStart, net: Network) -> messages.BlindReady:
        """Check the job against the own table and standardise on the training rows."""
        self._train_rows, self._judge_rows = self._agreed_rows(ask)
        self._resumed_from = ask.resume_from
        with self.clock("prepare"):
            self._gini = filters.FeatureHolder(
                self._table.take(self._train_rows), self._params.filter_params
            )
            order = np.array(self._saved["order"]) if self._saved else self._gini.order
            self._prepare_inputs(order)
        widths = np.bincount(self._encoder.feature_of_input, minlength=len(order))
        return messages.BlindReady(PublicArray.of(widths.astype(np.int64)), self._announced(net))

    def _prepare_inputs(self, order: Small) -> None:
        """Columns in secret order, as integers."""
        self._order = np.asarray(order, dtype=np.int64)
        self._encoder = InputEncoder.fit(self._table, self._train_rows).only(self._order)
        inputs = self._encoder.transform(self._table)
        self._scale = input_scale(
            inputs[self._train_rows], self._n_parties, self._params.batch_size
        )
        self._inputs = input_integers(inputs, self._scale)

    @handles(messages.MaskKeyWanted)
    async def tell_mask_key(self, ask: messages.MaskKeyWanted, net: Network) -> messages.MaskKey:
        """Before a prediction."""
        return messages.MaskKey(self._announced(net))

    @handles(messages.BlindKeys)
    async def take_keys(self, told: messages.BlindKeys, net: Network) -> messages.HelperKeys:
        """Agree on masks with the helper; the helper makes keys and the common secret."""
        own_widths = told.own_widths.array()
        if self._part is None:
            self._check_opened(told.n_features, len(own_widths))
        if net.identity is None:  # one process
            self._seed = self._params.seed
        with self.clock("keys"):
            evaluator = join_products(told.keys)
            self._helper = told.helper
            self._agree(net, told.mask_keys)
        self._columns = HeldColumns(
            evaluator,
            self._inputs,
            self._starting(net.party, told.n_features),
            self._encoder.feature_of_input,
            self._new_secrets(net.party),
        )
        if self._weights is not None and self._part is not None:
            self._columns.gated = self._weights
        elif "last" in self._saved:
            self._columns.moving.restart(self._columns.weights, self._saved["last"])
        if self._part is None:
            self._factor(net.party)
        if net.party != told.helper:
            return messages.HelperKeys(None, None, {})
        return self._become_helper(told, own_widths, evaluator, net.party)

    def _check_opened(self, n_features: int, n_own: int) -> None:
        hidden = n_features - n_own
        if hidden < self._table.n_columns:
            raise requests.wrong_count(n_features, n_own, self._table.n_columns)
        rows = (len(self._train_rows), len(self._judge_rows))
        check_opened(self._params, *rows, hidden, n_features)

    def _factor(self, party: str) -> None:
        """Secret factors of the next sums that are opened."""
        features = len(self._encoder.names)
        opening = self._n_openings + 1
        self._held().use_factors(secret_factors(self._params.seed, party, opening, features))

    def _starting(self, party: str, n_features: int) -> Residues:
        """This party's share of the weights, new or from a file."""
        self._n_features = n_features
        if self._weights is not None:
            return self._weights
        return self._drawn(party, (self._params.hidden, self._inputs.shape[1]))

    def _drawn(self, name: str, shape: tuple[int, int]) -> Residues:
        return ring().of(starting_weights(self._params, name, shape, self._n_features))

    def _announced(self, net: Network) -> PublicKeys:
        """This party's key for masks, for all who may be drawn as the helper."""
        return self._mask_key.announce(net, net.members(messages.FEATURE_HOLDER))

    def _agree(self, net: Network, keys: dict[str, PublicKeys]) -> None:
        party, own = net.party, self._mask_key.public.blobs[0]
        if party not in keys or keys[party].blobs[0] != own or self._helper not in keys:
            raise BadFrame(
                "Keys for masks arrived without this party's own key or the helper's.",
                "All feature holders agree on masks with the helper.",
                "Check that all parties run the same job.",
            )
        peers = keys if party == self._helper else {self._helper: keys[self._helper]}
        for peer, key in peers.items():
            made = self._new_secrets("pair", *sorted((peer, party)))()
            if peer != party:
                agreed = self._mask_key.agree(peer, key, net.identity)
                made = agreed if self._seed is None else made
            self._secrets[peer] = made

    def _new_secrets(self, *names: str) -> requests.Secrets:
        return requests.Secrets(self._seed, *names, self._resumed_from)

    def _become_helper(
        self,
        told: messages.BlindKeys,
        own_widths: Small,
        evaluator: TwoPartyEvaluator,
        party: str,
    ) -> messages.HelperKeys:
        params = self._params
        n_own = int(own_widths.sum())
        self._network = HelperNetwork(evaluator, params)
        self._common = self._new_secrets("common")()
        saved = self._part if self._part is not None else self._saved
        if saved.get("bias") is not None:
            self._network.moving.restart(saved["bias"], saved.get("bias_last"))
        wrapped = {
            peer: MaskedArray.of(requests.wrap(secret, self._common))
            for peer, secret in self._secrets.items()
            if peer != party
        }
        if not n_own:
            return messages.HelperKeys(None, None, wrapped)
        with self.clock("keys"):
            owner = own_products(params.scheme, security_bits=params.security_bits)
        shape = (params.hidden, n_own)
        weights = saved.get("others")
        if weights is None:
            weights = self._drawn(party + " (helper)", shape)
        features = np.repeat(np.arange(len(own_widths)), own_widths)
        self._others = HelperWeights(owner, weights, features, self._new_secrets("helper"))
        self._others.moving.restart(weights, saved.get("others_last"))
        return messages.HelperKeys(owner.keys, self._others.seal_weights(), wrapped)

    @handles(messages.CommonSecret)
    async def take_secret(self, told: messages.CommonSecret, net: Network) -> None:
        """What the helper makes its shares of gradients from."""
        self._common = requests.unwrap(self._secrets[self._helper], told.secret)

    # Products that are prepared

    @handles(messages.ProductsWanted)
    async def prepare(self, ask: messages.ProductsWanted, net: Network) -> messages.ProductsMade:
        """[X R + r] for many uses of a batch, whose rows stay the same."""
        columns, rows = self._held(), self._checked_rows(ask)
        if not ask.training:
            self._judging.add(ask.batch)
        with self.clock("prepare"):
            place = ask.batch, ask.back
            made = columns.table.prepare(place, rows, ask.first, ask.uses, ask.masks)
        return messages.ProductsMade(made)

    def _checked_rows(self, ask: messages.ProductsWanted) -> Small:
        allowed = np.arange(self._table.n_rows)
        if self._part is None:
            allowed = self._train_rows if ask.training else self._judge_rows
        return checked_batch(ask.rows.array(), allowed, self._params.batch_size)

    @handles(messages.OwnMasksWanted)
    async def tell_own_masks(self, ask: messages.OwnMasksWanted, net: Network) -> messages.OwnMasks:
        """The helper's masks for products with the label holder's own columns."""
        with self.clock("prepare"):
            place = ask.batch, ask.back
            sealed = self._owning().table.seal(place, ask.first, ask.n_rows, ask.uses)
        return messages.OwnMasks(sealed)

    @handles(messages.OwnProducts)
    async def take_own_products(self, told: messages.OwnProducts, net: Network) -> None:
        """What they became."""
        with self.clock("prepare"):
            place = told.batch, told.back
            self._owning().table.take(place, told.first, told.n_rows, told.products)

    # One batch

    @handles(messages.GatesDrawn)
    async def gate(self, ask: messages.GatesDrawn, net: Network) -> messages.GatedWeights:
        """Share the gated weights; the gates stay hidden."""
        columns = self._held()
        with self.clock("evaluate"):
            if ask.own is not None:
                self._owning().take_gated(ask.own)
            return messages.GatedWeights(columns.gate(ask.gates))

    @handles(messages.RowsWanted)
    async def forward(self, ask: messages.RowsWanted, net: Network) -> messages.HiddenShare:
        """This party's share of X U, under a mask that the helper knows."""
        columns, hidden = self._held(), self._params.hidden
        self._n_batches += 1
        self._batch = ask.batch
        sent = residues_of(ask.weights, (hidden, columns.table.n_columns))
        with self.clock("evaluate"):
            share = columns.hidden(ask.batch, sent)
            secret = self._secrets[self._peer(net.party)]
            share = ring().add(share, self._masks(secret, *self._mask_context()))
            own = None
            if self._others is not None:
                own = MaskedArray.of(self._others.mask_weights(ask.batch))
        return messages.HiddenShare(MaskedArray.of(share), own)

    def _peer(self, party: str) -> str:
        return party if party == self._helper else self._helper

    def _mask_context(self) -> tuple[str, tuple[int, int]]:
        return f"hidden {self._n_batches}", (self._params.hidden, self._n_rows)

    @property
    def _n_rows(self) -> int:
        return len(self._held().table.rows_of(self._batch))

    @handles(messages.SquaresWanted)
    async def square(self, ask: messages.SquaresWanted, net: Network) -> messages.SquareShare:
        """The helper's part of the squares of hidden values."""
        network = self._helping()
        context, shape = self._mask_context()
        share = ring().of(np.zeros(shape, dtype=np.int64))
        for secret in self._secrets.values():
            share = ring().add(share, self._masks(secret, context, shape))
        share = ring().negate(share)
        with self.clock("evaluate"):
            if self._others is not None:
                share = ring().add(share, self._others.hidden)
            answer = messages.SquareShare(network.square(ask.hidden, share))
        if self._batch in self._judging and self._part is None:
            network.keep_for_losses()
        return answer

    @handles(messages.SlopesWanted)
    async def slope(self, ask: messages.SlopesWanted, net: Network) -> messages.SlopeShare:
        """The helper's part of the gradients of hidden values."""
        network = self._helping()
        with self.clock("evaluate"):
            sealed, slopes = network.slopes(ask.errors, self._slope_share())
            if self._others is None:
                return messages.SlopeShare(sealed, None, ())
            sent, weights = self._others.step(self._batch, slopes)
        return messages.SlopeShare(sealed, MaskedArray.of(sent), weights)

    def _slope_share(self) -> Residues:
        """The helper's share of gradients, which all feature holders can make."""
        shape = (self._params.hidden, self._n_rows)
        return self._masks(self._common, f"slopes {self._n_batches}", shape)

    @handles(messages.StepWanted)
    async def step(self, told: messages.StepWanted, net: Network) -> None:
        """This party's share of the step, and of what is counted."""
        columns = self._held()
        shift = self._params.scales.slope_shift
        sent = residues_of(told.slopes, (self._params.hidden, self._n_rows))
        with self.clock("evaluate"):
            slopes = shorten(self._slope_share(), shift, first=False)
            columns.step(self._batch, sent, slopes, told.before)

    @handles(messages.Restart)
    async def restart(self, ask: messages.Restart, net: Network) -> messages.Restarted:
        """New starting weights."""
        columns, own = self._held(), None
        columns.moving.restart(self._drawn(net.party, columns.weights.shape[1:]))
        if self._network is not None:
            self._network.moving.restart(np.zeros_like(self._network.bias))
        if self._others is not None:
            shape = self._others.weights.shape[1:]
            self._others.moving.restart(self._drawn(net.party + " (helper)", shape))
            own = self._others.seal_weights()
        return messages.Restarted(own)

    # Openings

    @handles(messages.Opening)
    async def open_sums(self, ask: messages.Opening, net: Network) -> messages.GateSums:
        """One number per column, as often as the job says and no more."""
        self._n_openings += 1
        if self._n_openings > self._params.n_openings:
            raise requests.too_often(self._params.n_openings)
        columns = self._held()
        with self.clock("evaluate"):
            own = None
            if self._others is not None and ask.own is not None and ask.own_rest is not None:
                own = self._open_own(ask.own, ask.own_rest, net.party)
            sums = columns.sums(ask.sums)
            self._factor(net.party)
            return messages.GateSums(sums, own)

    def _open_own(self, own: Ciphertexts, rest: Ciphertexts, party: str) -> Ciphertexts:
        """The label holder's own sums, times secret factors of the helper's."""
        assert self._others is not None  # noqa: S101 - this party is the helper
        factors = self._own_factors(party, self._others.n_features)
        return self._others.open_sums(own, rest, self._held().evaluator, factors)

    def _own_factors(self, party: str, n_features: int) -> Small:
        name = f"{party} (helper)"
        return secret_factors(self._params.seed, name, self._n_openings, n_features)

    @handles(messages.LossesWanted)
    async def open_losses(self, ask: messages.LossesWanted, net: Network) -> messages.LossSums:
        """Sums of squared errors over blocks of validation rows."""
        self._n_judged += 1
        if self._n_judged > self._params.n_judgements:
            raise requests.too_often(self._params.n_judgements)
        n_rows = len(self._judge_rows)
        with self.clock("evaluate"):
            return messages.LossSums(self._helping().losses(ask.errors, n_rows))

    @handles(messages.OutputsWanted)
    async def tell_outputs(
        self, ask: messages.OutputsWanted, net: Network
    ) -> messages.BlindOutputs:
        """The helper's share of a prediction; never of rows that were trained with."""
        if self._part is None:
            raise ParameterError(
                "Outputs were asked for while training.",
                "Nothing of a single row is opened while training.",
                "Check that all parties run the same job.",
            )
        return messages.BlindOutputs(MaskedArray.of(self._helping().outputs))

    @handles(Chosen)
    async def take_choice(self, told: Chosen, net: Network) -> None:
        """Remember which of the own features were chosen."""
        self._chosen = np.sort(self._chosen_numbers(told))
        self._features = np.sort(self._order[self._chosen])
        # Open or closed is all that an owner learns.
        self._gate_means = np.isin(np.arange(self._table.n_columns), self._features).astype(
            np.float64
        )

    # Files and facts

    @property
    def column_order(self) -> Small:
        """Own columns by their secret numbers."""
        return self._order

    def part_state(self) -> State:
        """This party's part of the finished model, for its own file: shares, selected columns."""
        columns = self._held()
        kept = np.isin(self._encoder.feature_of_input, self._chosen)
        others = None if self._others is None else self._others.gated
        return {
            "role": messages.FEATURE_HOLDER,
            "columns": list(self._table.feature_names),
            "selected": self.facts()["selected"],
            "encoder": self._encoder.only(self._chosen).to_plain(),
            "scale": self._scale,
            "weights": columns.gated[:, :, kept],
            "bias": None if self._network is None else self._network.bias,
            "others": others,
        }

    def _take_part(self, saved: State) -> None:
        """Take over a saved part, to predict."""
        self._encoder = InputEncoder.from_plain(saved["encoder"])
        inputs = self._encoder.transform(self._table)
        self._inputs = input_integers(inputs, float(saved["scale"]))
        self._weights = saved["weights"]
        if not self._inputs.shape[1]:  # the helper, without any selected column of its own
            self._inputs = np.zeros((len(inputs), 1), dtype=np.int64)
            self._weights = ring().of(np.zeros((self._params.hidden, 1), dtype=np.int64))

    def checkpoint(self) -> State:
        """Shares of weights and bias, the order of columns, and what was opened so far."""
        if self._columns is None:
            return {}
        return {
            "order": self._order,
            "weights": self._columns.weights,
            "last": self._columns.moving.last,
            "bias": None if self._network is None else self._network.bias,
            "bias_last": None if self._network is None else self._network.moving.last,
            "others": None if self._others is None else self._others.weights,
            "others_last": None if self._others is None else self._others.moving.last,
            "n_openings": self._n_openings,
            "n_judged": self._n_judged,
        }

    def restore(self, saved: State) -> None:
        """Go on with the shares of the checkpoint; keys and masks are new."""
        self._saved = saved
        if saved:
            self._weights = saved["weights"]
            self._n_openings = int(saved["n_openings"])
            self._n_judged = int(saved["n_judged"])

    def _masks(self, secret: bytes, context: str, shape: tuple[int, int]) -> Residues:
        return np.stack([masks_modulo(secret, context, shape, prime) for prime in moduli()])

    def _held(self) -> HeldColumns:
        return requests.present(self._columns, "BlindKeys")

    def _helping(self) -> HelperNetwork:
        return requests.present(self._network, "BlindKeys with this party as the helper")

    def _owning(self) -> HelperWeights:
        return requests.present(self._others, "BlindKeys with columns of the label holder")
