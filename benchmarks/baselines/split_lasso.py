# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Feature selection by a group penalty in a supervised split network, with its traffic counted.

Every party embeds its own columns; a network on top of all embeddings learns the label. All weights
that leave one feature form a group, whose l2 norm has a price, so that they vanish together. Both
methods run openly in one process: they are rivals in accuracy and traffic, not protocols.

``vflfs``     VFLFS (Feng, 2022) without its part for rows that parties do not share: the whole
              network and the penalty are trained together, with an exchange per batch.
``less-vfl``  LESS-VFL (Castiglia et al., 2023): a short training without a penalty, then the top
              network finds out which embedding columns matter, and every party alone looks for
              few features that still make these columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedsift.methods.fedsdg.split_network import made_with_seed, torch_seed

Floats = npt.NDArray[np.float64]

WIDTH = 16
_HIDDEN = 32
_RATE = 3e-3
_BATCH = 128
_NUMBER = 4
"""Bytes of a number that travels."""


@dataclass(frozen=True)
class Part:
    """What one party brings.

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_inputs)
        Standardised.
    feature_of_input : ndarray of shape (n_inputs,)
        Categories have several inputs; they count as one group.
    travels : bool
        Whether its embedding goes to another party; not that of the label holder.
    """

    inputs: npt.NDArray[np.float32]
    feature_of_input: npt.NDArray[np.int64]
    travels: bool = True


@dataclass(frozen=True)
class Found:
    """Norms of every party's features, and the bytes that the parties exchanged."""

    norms: list[Floats]
    n_bytes: int


class SplitNetwork(nn.Module):
    """An embedding network per party and one on top."""

    def __init__(self, n_inputs: Sequence[int], n_outputs: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Sequential(nn.Linear(n, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, WIDTH), nn.Tanh())
            for n in n_inputs
        )
        self.top = nn.Sequential(
            nn.Linear(WIDTH * len(n_inputs), _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, n_outputs)
        )

    def embed(self, inputs: Iterable[torch.Tensor]) -> torch.Tensor:
        """Embeddings of all parties, side by side."""
        pairs = zip(self.embeddings, inputs, strict=True)
        return torch.cat([network(some) for network, some in pairs], dim=1)


def vflfs(
    parts: Sequence[Part],
    target: npt.NDArray[np.generic],
    *,
    penalty: float = 2.0,
    n_steps: int = 600,
    seed: int = 0,
) -> Found:
    """Train the network and the penalty on first layers together.

    Parameters
    ----------
    parts : sequence of Part
    target : ndarray of shape (n_rows,)
        Integer codes of classes, or real numbers.
    penalty : float
        Price of the mean norm of a feature.
    n_steps : int
        Batches, however many rows there are.
    seed : int

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    >>> parts = [Part(X[:, :3], np.arange(3)), Part(X[:, 3:], np.arange(3))]
    >>> found = vflfs(parts, (X[:, 1] > 0).astype(int), n_steps=100)
    >>> int(found.norms[0].argmax()), found.n_bytes == 100 * 2 * 2 * 128 * 16 * 4
    (1, True)
    """
    network, inputs = _new(parts, target, seed)
    _train(network, parts, inputs, target, n_steps, penalty, seed)
    return Found(_norms_of(network, parts), _exchanged(parts, n_steps * _BATCH))


def less_vfl(
    parts: Sequence[Part],
    target: npt.NDArray[np.generic],
    *,
    penalty: float = 2.0,
    component_penalty: float = 2.0,
    n_steps: int = 150,
    n_local: int = 600,
    seed: int = 0,
) -> Found:
    """Train shortly, find the embedding columns that matter, then rebuild them from few features.

    Parameters
    ----------
    parts, target, seed
        As for :func:`vflfs`.
    penalty, component_penalty : float
        Price of the mean norm of a feature, and of an embedding column.
    n_steps, n_local : int
        Batches of the common training, and of what each party does alone.
    """
    network, inputs = _new(parts, target, seed)
    _train(network, parts, inputs, target, n_steps, 0.0, seed)
    with torch.no_grad():
        embedding = network.embed(inputs)
    matters = _components(network, embedding, target, component_penalty, n_local, seed)
    for place, part in enumerate(parts):
        wanted = slice(place * WIDTH, (place + 1) * WIDTH)
        chosen = matters[wanted]
        _rebuild(
            network.embeddings[place],
            inputs[place],
            embedding[:, wanted][:, chosen],
            chosen,
            (_groups(part), penalty, n_local, seed),
        )
    sent = sum(part.travels for part in parts) * WIDTH
    once = sent * _NUMBER * len(inputs[0]) + sent  # embeddings of all rows, and which matter
    return Found(_norms_of(network, parts), _exchanged(parts, n_steps * _BATCH) + once)


def _new(
    parts: Sequence[Part], target: npt.NDArray[np.generic], seed: int
) -> tuple[SplitNetwork, list[torch.Tensor]]:
    n_outputs = int(target.max()) + 1 if target.dtype.kind in "iu" else 1
    widths = [part.inputs.shape[1] for part in parts]
    network = made_with_seed(lambda: SplitNetwork(widths, n_outputs), seed)
    assert isinstance(network, SplitNetwork)
    return network, [torch.from_numpy(part.inputs) for part in parts]


def _train(
    network: SplitNetwork,
    parts: Sequence[Part],
    inputs: Sequence[torch.Tensor],
    target: npt.NDArray[np.generic],
    n_steps: int,
    penalty: float,
    seed: int,
) -> None:
    wanted, loss_of = _judged(target)
    groups = [_groups(part) for part in parts]
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    for rows in _batches(len(wanted), n_steps, seed):
        loss = loss_of(network.top(network.embed(some[rows] for some in inputs)), wanted[rows])
        norms = [
            _norms(_weight(own), group)
            for own, group in zip(network.embeddings, groups, strict=True)
        ]
        loss = loss + penalty * torch.cat(norms).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _components(
    network: SplitNetwork,
    embedding: torch.Tensor,
    target: npt.NDArray[np.generic],
    penalty: float,
    n_steps: int,
    seed: int,
) -> npt.NDArray[np.bool_]:
    """Which embedding columns the top network needs: those of half the mean norm at least."""
    wanted, loss_of = _judged(target)
    weight = _weight(network.top)
    columns = torch.arange(embedding.shape[1])
    optimiser = torch.optim.Adam(network.top.parameters(), lr=_RATE)
    for rows in _batches(len(wanted), n_steps, seed + 1):
        loss = loss_of(network.top(embedding[rows]), wanted[rows])
        loss = loss + penalty * _norms(weight, columns).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    norms = _norms(weight, columns).detach().numpy()
    return np.asarray(norms >= 0.5 * norms.mean())


def _rebuild(
    own: nn.Module,
    inputs: torch.Tensor,
    embedding: torch.Tensor,
    chosen: npt.NDArray[np.bool_],
    settings: tuple[torch.Tensor, float, int, int],
) -> None:
    """A party alone: few features that make the chosen columns of its own embedding again."""
    groups, penalty, n_steps, seed = settings
    kept = torch.from_numpy(chosen)
    optimiser = torch.optim.Adam(own.parameters(), lr=_RATE)
    for rows in _batches(len(inputs), n_steps, seed + 2):
        price = penalty * _norms(_weight(own), groups).mean()
        errors = own(inputs[rows])[:, kept] - embedding[rows]
        loss = price + errors.square().mean() if chosen.any() else price
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _judged(target: npt.NDArray[np.generic]) -> tuple[torch.Tensor, nn.Module]:
    if target.dtype.kind in "iu":
        return torch.from_numpy(target.astype(np.int64)), nn.CrossEntropyLoss()
    spread = (target - target.mean()) / (target.std() or 1.0)
    return torch.from_numpy(spread.astype(np.float32))[:, None], nn.MSELoss()


def _batches(n_rows: int, n_steps: int, seed: int) -> Iterable[torch.Tensor]:
    order = torch.Generator().manual_seed(torch_seed(seed))
    return (torch.randint(n_rows, (_BATCH,), generator=order) for _ in range(n_steps))


def _groups(part: Part) -> torch.Tensor:
    return torch.from_numpy(part.feature_of_input)


def _weight(network: nn.Module) -> torch.Tensor:
    """Of the layer that inputs meet first."""
    return next(network.parameters())


def _norms_of(network: SplitNetwork, parts: Sequence[Part]) -> list[Floats]:
    pairs = zip(network.embeddings, parts, strict=True)
    found = [_norms(_weight(own), _groups(part)).detach().numpy() for own, part in pairs]
    return [norms.astype(np.float64) for norms in found]


def _norms(weights: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Norm of all weights of each group of inputs."""
    n_groups = int(groups.max()) + 1
    squares = torch.zeros(n_groups).index_add(0, groups, (weights**2).sum(dim=0))
    # The root has no slope at zero; a tiny constant keeps gradients finite there.
    return torch.sqrt(squares + 1e-12)


def _exchanged(parts: Sequence[Part], n_rows: int) -> int:
    """Bytes of embeddings, and of as many gradients, for so many rows in all."""
    return 2 * sum(part.travels for part in parts) * n_rows * WIDTH * _NUMBER
