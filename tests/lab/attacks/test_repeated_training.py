"""The training that an attacker repeats is the one that PyTorch and the layer do."""

import numpy as np
import pytest
import torch

from fedsift.lab.attacks.fedsdg.repeated_training import LinearGuess, NetworkGuess, Seen
from fedsift.methods.fedsdg.messages import Params
from fedsift.methods.fedsdg.split_network import bounded_embedding, linear_embedding

pytestmark = pytest.mark.xdist_group("gradients")
N_ROWS, N_EPOCHS, N_OUTPUTS, SIZES, WIDTH = 40, 6, 4, (2, 1), 5


def trained(model, gates):
    """Outputs of every epoch, by PyTorch's own gradients and Adam; and all that is secret."""
    rng = np.random.default_rng(0)
    params = Params(model=model, gates=gates, embedding=WIDTH, outputs=N_OUTPUTS, batch_size=64)
    X = rng.normal(size=(N_ROWS, sum(SIZES)))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    delta = rng.normal(size=(N_EPOCHS, N_ROWS, N_OUTPUTS))
    opened = rng.uniform(0.2, 1, size=(N_EPOCHS, sum(SIZES)))
    behind = rng.uniform(0.5, 1, size=(N_EPOCHS, len(SIZES), WIDTH))
    behind = behind if gates == "dual" else np.ones_like(behind)
    make = linear_embedding if model == "linear" else bounded_embedding
    torch.manual_seed(0)
    nets = [make(size, WIDTH).double() for size in SIZES]
    layers = [torch.tensor(rng.normal(size=(WIDTH, N_OUTPUTS)) * 0.4) for _ in SIZES]
    secret = {
        "parts": [[p.detach().clone() for p in net.parameters()] for net in nets],
        "layers": [layer.clone() for layer in layers],
    }
    adams = [torch.optim.Adam(net.parameters(), lr=params.learning_rate) for net in nets]
    cuts, outputs = np.cumsum((0, *SIZES)), []
    step = 2.0**-params.numbers.step_bits
    for t in range(N_EPOCHS):
        total = 0
        for i, net in enumerate(nets):
            inputs = torch.tensor((X * opened[t])[:, cuts[i] : cuts[i + 1]])
            embedding = net(inputs) * torch.tensor(behind[t, i])
            total = total + embedding.detach() @ layers[i]
            adams[i].zero_grad()
            embedding.backward(torch.tensor(delta[t]) @ layers[i].T / N_ROWS)
            adams[i].step()
            layers[i] = layers[i] - step * embedding.detach().T @ torch.tensor(delta[t])
        outputs.append(total.numpy())
    return Seen(np.array(outputs), delta, SIZES, params), X, opened, behind, secret


def put_in(guess, X, opened, behind, secret):
    """The truth in place of the guess."""
    linear = isinstance(guess, LinearGuess)
    known = guess._basis.T @ X / N_ROWS if linear else X
    with torch.no_grad():
        guess._columns.copy_(torch.tensor(known))
        guess._gates.copy_(torch.tensor(opened))
        if not linear:
            guess._back_gates.copy_(torch.tensor(behind))
        for layer, true in zip(guess._layers, secret["layers"], strict=True):
            layer.copy_(true)
        for part, true in zip(guess._parts, secret["parts"], strict=True):
            for weights, values in zip(part, true, strict=True):
                weights.copy_(values.T if linear else values)


def off(guess, damping):
    """Mean squared distance from what was seen."""
    with torch.no_grad():
        return float(((guess.outputs(damping) - guess.wanted) ** 2).mean())


@pytest.mark.parametrize(
    ("made", "model", "gates"),
    [
        (LinearGuess, "linear", "input"),
        (NetworkGuess, "network", "input"),
        (NetworkGuess, "network", "dual"),
    ],
)
def test_with_the_truth_outputs_are_those_of_the_training(made, model, gates):
    seen, *truth = trained(model, gates)
    guess = made(seen, 0)
    before = off(guess, 0.0)
    put_in(guess, *truth)
    after = off(guess, 0.0)
    assert before > 1e-3
    assert after < 1e-12 * guess.variance


def test_outputs_of_a_linear_model_span_its_columns():
    seen, X, *_ = trained("linear", "input")
    basis = LinearGuess(seen, 0)._basis
    assert np.allclose(basis @ (basis.T @ X) / N_ROWS, X, atol=1e-8)


def test_damping_holds_first_steps_back():
    seen, *truth = trained("linear", "input")
    guess = LinearGuess(seen, 0)
    put_in(guess, *truth)
    losses = [off(guess, damping) for damping in (0.0, 0.3, 30.0, None)]
    assert losses == sorted(losses)
