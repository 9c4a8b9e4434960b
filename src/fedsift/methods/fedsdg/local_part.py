# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One party's part of the model: gates, embedding network and their optimiser.

Feature holders and a label holder that owns features use the same class; the only difference is how
the numbers that leave it reach the interactive layer.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtr

from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import ParameterError
from fedsift.methods.fedsdg.elimination import elimination_costs
from fedsift.methods.fedsdg.gates import GaussianGate
from fedsift.methods.fedsdg.inputs import InputEncoder
from fedsift.methods.fedsdg.layer_numbers import EMBEDDING_LIMIT, Integers
from fedsift.methods.fedsdg.messages import Params
from fedsift.methods.fedsdg.split_network import (
    MakeEmbedding,
    bounded_embedding,
    first_layer,
    linear_embedding,
    made_with_seed,
    torch_seed,
)

Floats = npt.NDArray[np.float64]


def private_seeds(seed: int | None, party: str, n_seeds: int) -> list[int]:
    """Seeds that only this party knows: from the operating system, or from a simulation's seed.

    They have 128 bits, are given to a party when its process starts, and never travel.
    """
    entropy = None if seed is None else [seed, *party.encode()]
    words = np.random.SeedSequence(entropy).generate_state(2 * n_seeds, np.uint64)
    return [int(high) << 64 | int(low) for high, low in words.reshape(n_seeds, 2)]


def keyed_generator(key: int, content: bytes) -> np.random.Generator:
    """Numbers that look random to everybody without the key, and are the same for same content."""
    secret = key.to_bytes(16, "big")
    digest = hashlib.blake2b(content, key=secret, digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


class LocalPart:
    """Gates and embedding network over some columns of one party.

    Parameters
    ----------
    encoder : InputEncoder
        Of the columns this part uses.
    gate_start : ndarray of shape (n_features,) or None
        Means of the feature gates to start from; None trains without gates.
    params : Params
    make : callable, optional
        From (number of inputs, width) to an embedding network.
    seed : int
        Starting weights and gate noise.
    """

    def __init__(
        self,
        encoder: InputEncoder,
        gate_start: npt.ArrayLike | None,
        params: Params,
        make: MakeEmbedding | None,
        seed: int,
    ) -> None:
        self.encoder = encoder
        self._params = params
        self._generator = torch.Generator().manual_seed(torch_seed(seed))
        self._feature_of_input = torch.from_numpy(encoder.feature_of_input)
        n_inputs = len(self._feature_of_input)
        factory = make or (linear_embedding if params.model == "linear" else bounded_embedding)
        self.network = made_with_seed(lambda: factory(n_inputs, params.embedding), seed)
        if params.eliminates and first_layer(self.network, n_inputs) is None:
            raise ParameterError(
                f"The embedding network has no torch.nn.Linear with {n_inputs} inputs.",
                "An exact number without gates depends on the weights that columns meet first.",
                "Begin the network with such a layer, or choose gates='dual'.",
            )
        self.feature_gates: GaussianGate | None = None
        self.embedding_gates: GaussianGate | None = None
        gates = []
        if gate_start is not None:
            self.feature_gates = GaussianGate(gate_start, params.sigma)
            gates.append(self.feature_gates)
            if params.gates == "dual":
                self.embedding_gates = GaussianGate(np.ones(params.embedding), params.sigma)
                gates.append(self.embedding_gates)
        groups = [{"params": list(self.network.parameters()), "lr": params.learning_rate}]
        if gates:
            means = [gate.mean for gate in gates]
            groups.append({"params": means, "lr": params.gate_learning_rate})
        self._optimiser = torch.optim.Adam(groups)
        self._pending: torch.Tensor | None = None

    @property
    def n_features(self) -> int:
        """Columns this part uses."""
        return len(self.encoder.names)

    def embed(self, inputs: torch.Tensor, *, training: bool) -> Floats:
        """Algorithm 2, lines 1-3: gated inputs, embedding, gated embedding."""
        generator = self._generator if training else None
        n_draws = self._params.gate_samples
        with torch.set_grad_enabled(training):
            if self.feature_gates is not None:
                gates = self.feature_gates.of_rows(len(inputs), generator, n_draws)
                inputs = inputs * gates[..., self._feature_of_input]
            embedding = self.network(inputs)
            if embedding.shape != (len(inputs), self._params.embedding):
                raise ParameterError(
                    f"The embedding network returns shape {tuple(embedding.shape)}.",
                    f"Shape {(len(inputs), self._params.embedding)} is needed.",
                    "Make a network from (n_inputs, width) to width outputs.",
                )
            if self.embedding_gates is not None:
                gates = self.embedding_gates.of_rows(len(inputs), generator, n_draws)
                embedding = embedding * gates
            embedding = embedding.clamp(-EMBEDDING_LIMIT, EMBEDDING_LIMIT)
        self._pending = embedding if training else None
        reals: Floats = embedding.detach().numpy().astype(np.float64)
        return reals

    def learn(self, gradient: Floats, n_features_of_all: int) -> None:
        """Algorithm 3, lines 15-17: from the embedding's gradient back to networks and gates.

        Parameters
        ----------
        gradient : ndarray of shape (n_rows, width)
            Of the mean loss of the batch embedded last.
        n_features_of_all : int
            Feature gates are penalised by their mean over all parties.
        """
        assert self._pending is not None  # noqa: S101 - embed(training=True) came before
        self._optimiser.zero_grad()
        self._pending.backward(torch.as_tensor(gradient, dtype=self._pending.dtype))  # type: ignore[no-untyped-call]
        self._pending = None
        penalty = self._penalty(n_features_of_all)
        if penalty is not None:
            penalty.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def _penalty(self, n_features_of_all: int) -> torch.Tensor | None:
        if self.feature_gates is None:
            return None
        penalty = self.feature_gates.open_probability().sum() * (
            self._params.lam / n_features_of_all
        )
        if self.embedding_gates is not None:
            share = self.embedding_gates.open_probability().mean()
            penalty = penalty + self._params.lam_embedding * share
        return penalty

    def open_features(self) -> npt.NDArray[np.bool_]:
        """Which columns the gates let through; all without gates."""
        if self.feature_gates is None:
            return np.ones(self.n_features, dtype=np.bool_)
        return self.feature_gates.open_gates()

    def open_embeddings(self) -> npt.NDArray[np.bool_]:
        """Which embedding columns the gates let through; all without gates."""
        if self.embedding_gates is None:
            return np.ones(self._params.embedding, dtype=np.bool_)
        return self.embedding_gates.open_gates()

    def gate_means(self) -> Floats:
        """Means of the feature gates; ones without gates."""
        if self.feature_gates is None:
            return np.ones(self.n_features)
        return self.feature_gates.mean.detach().numpy().astype(np.float64)

    def exact_scores(self, inputs: torch.Tensor) -> Floats:
        """What features are compared by, over all parties, if an exact number is wanted.

        Parameters
        ----------
        inputs : tensor of shape (n_rows, n_inputs)
            Of the training rows.
        """
        if not self._params.eliminates:
            return self.gate_means()
        layer = first_layer(self.network, inputs.shape[1])
        assert layer is not None  # noqa: S101 - checked when the network was made
        weights = layer.weight.detach().numpy().T
        return elimination_costs(inputs.numpy(), weights, self.encoder.feature_of_input)

    def model_state(self) -> State:
        """What prediction needs, copied."""
        state: State = {"network": copy.deepcopy(self.network.state_dict())}
        if self.feature_gates is not None:
            state["feature_gates"] = self.feature_gates.mean.detach().clone()
        if self.embedding_gates is not None:
            state["embedding_gates"] = self.embedding_gates.mean.detach().clone()
        return state

    def load_model(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`model_state` gave."""
        self.network.load_state_dict(state["network"])
        for name in ("feature_gates", "embedding_gates"):
            gate: GaussianGate | None = getattr(self, name)
            if gate is not None:
                with torch.no_grad():
                    gate.mean.copy_(state[name])

    def training_state(self) -> State:
        """What going on with the training needs on top: optimiser and noise."""
        return {
            "model": self.model_state(),
            "optimiser": copy.deepcopy(self._optimiser.state_dict()["state"]),
            "generator": self._generator.get_state(),
        }

    def load_training(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`training_state` gave."""
        self.load_model(state["model"])
        whole = self._optimiser.state_dict()
        whole["state"] = {int(key): value for key, value in state["optimiser"].items()}
        self._optimiser.load_state_dict(whole)
        self._generator.set_state(state["generator"])


def refitted_part(
    encoder: InputEncoder, params: Params, make: MakeEmbedding | None, seed: int
) -> LocalPart:
    """A new part for selected features: gates start wide open and cost nothing.

    What is left of them is their noise, which keeps a network from leaning on single features.
    """
    gates = None if params.gates == "none" else np.ones(len(encoder.names))
    return LocalPart(encoder, gates, replace(params, lam=0.0, lam_embedding=0.0), make, seed)


def open_probability(means: Floats, sigma: float) -> Floats:
    """Probability that gates with these means are open."""
    values: Floats = ndtr(means / sigma)
    return values


class PartData:
    """A party's inputs for one table, ready for batches."""

    def __init__(self, encoder: InputEncoder, table: PartyTable) -> None:
        self._inputs = torch.from_numpy(encoder.transform(table))

    def batch(self, rows: npt.NDArray[np.int64]) -> torch.Tensor:
        """Inputs of some rows."""
        return self._inputs[torch.from_numpy(np.array(rows, dtype=np.int64))]


def padded(numbers: Integers, n_rows: int) -> Integers:
    """Short batches end with zero rows: the layer's shape is fixed."""
    if len(numbers) == n_rows:
        return numbers
    full = np.zeros((n_rows, numbers.shape[1]), dtype=np.int64)
    full[: len(numbers)] = numbers
    return full


MakeEmbeddings = Callable[[str], MakeEmbedding | None]
"""From a party's name to its factory of embedding networks."""
