# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How much an autoencoder needs each feature, when every feature it looks at has a price.

The first layer's weights are penalised by the l2,1 norm: all weights of one feature shrink together
and vanish together unless the feature helps to rebuild the inputs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedsift.methods.fedsdg.split_network import made_with_seed, torch_seed

Floats = npt.NDArray[np.float64]

_RATE = 1e-2
_BATCH = 128


def group_norms(
    inputs: npt.NDArray[np.float32],
    feature_of_input: npt.NDArray[np.int64],
    *,
    width: int = 16,
    penalty: float = 0.01,
    n_steps: int = 600,
    seed: int = 0,
) -> Floats:
    """Norm of every feature's weights in the first layer of a trained autoencoder.

    Parameters
    ----------
    inputs : ndarray of shape (n_rows, n_inputs)
        Standardised.
    feature_of_input : ndarray of shape (n_inputs,)
        Categories have several inputs; they count as one group.
    width : int
        Units of the narrow layer.
    penalty : float
        Price of the norms, relative to the mean squared error of an input.
    n_steps : int
        Batches to learn from, however many rows there are.
    seed : int

    Returns
    -------
    norms : ndarray of shape (n_features,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(200, 1))
    >>> inputs = np.hstack([common + 0.1 * rng.normal(size=(200, 4)), rng.normal(size=(200, 1))])
    >>> norms = group_norms(inputs.astype(np.float32), np.arange(5), width=1)
    >>> bool(norms[:4].min() > norms[4])
    True
    """
    n_inputs = inputs.shape[1]
    encoder = made_with_seed(lambda: nn.Linear(n_inputs, width), seed)
    decoder = made_with_seed(lambda: nn.Linear(width, n_inputs), seed + 1)
    assert isinstance(encoder, nn.Linear)
    order = torch.Generator().manual_seed(torch_seed(seed))
    rows, groups = torch.from_numpy(inputs), torch.from_numpy(feature_of_input)
    n_features = int(feature_of_input.max()) + 1
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=_RATE)
    for _ in range(n_steps):
        batch = rows[torch.randint(len(rows), (_BATCH,), generator=order)]
        loss = nn.functional.mse_loss(decoder(torch.tanh(encoder(batch))), batch)
        loss = loss + penalty * _norms(encoder.weight, groups, n_features).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    norms: Floats = _norms(encoder.weight, groups, n_features).detach().numpy().astype(np.float64)
    return norms


def _norms(weights: torch.Tensor, groups: torch.Tensor, n_features: int) -> torch.Tensor:
    squares = torch.zeros(n_features).index_add(0, groups, (weights**2).sum(dim=0))
    # The root has no slope at zero; a tiny constant keeps gradients finite there.
    return torch.sqrt(squares + 1e-12)
