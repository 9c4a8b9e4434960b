"""The fixed-point layer against the same network in float64: within the stated bounds, not vacuous.

The layer rounds in two places, embeddings and output gradients, and adds noise of the same size to
what leaves a party; everything else is exact. Bounds for one step follow from that
(``fedsift.methods.fedsdg.layer_numbers``); over several steps they add up.
"""

import numpy as np
import pytest
import torch
from torch import nn

from fedsift.methods.fedsdg.layer import EvaluatorLayer, OpenLayer, OwnedLayer, sum_of_outputs
from fedsift.methods.fedsdg.layer_numbers import LayerNumbers

SHAPES = [(256, 16, 16), (32, 4, 2), (64, 16, 1)]
NOT_VACUOUS = 50


class Layer:
    """The layer as two parties run it, with weights that start from given ones."""

    def __init__(self, weights, batch_size, numbers, scheme="plain", blur=True):
        shape = (batch_size, *weights.shape)
        self.numbers = numbers
        self._noise = np.random.default_rng(5)
        self._blur = int(blur)
        self.owner = OwnedLayer(scheme, *shape, security_bits=128)
        self.evaluator = EvaluatorLayer(self.owner.keys, *shape)
        integers = numbers.weights(weights)
        sent = self.owner.new_share(np.zeros_like(integers))
        self.evaluator.take_share(sent, integers)

    def _blurred(self, shape):
        return self._blur * self.numbers.blur(self._noise, shape)

    def forward(self, g):
        self.g = self.numbers.embedding(g)
        self.sealed = self.owner.encrypt(self.g), self.owner.encrypt_share()
        masked = self.evaluator.forward(self.sealed[0])
        blur = self._blurred((len(g), self.evaluator.share.shape[1]))
        answer = self.owner.outputs(masked, self.g, blur, "outputs")
        total = sum_of_outputs(
            [answer],
            [self.evaluator.output_mask(len(g))],
            (len(g), self.evaluator.share.shape[1]),
            self.evaluator.modulus,
            pairwise=False,
        )
        return self.numbers.outputs_as_reals(total)

    def backward(self, delta):
        rounded, shown = self.numbers.gradient(delta), self.numbers.shown_gradient(delta)
        blur = self._blurred(self.g.shape)
        weights, inputs = self.evaluator.backward(*self.sealed, rounded, shown, blur)
        gradient = self.owner.input_gradient(inputs, len(delta))
        self.owner.update(weights)
        return self.numbers.input_gradients_as_reals(gradient)

    def weights(self):
        """Both shares together, which no party ever has."""
        modulus = self.evaluator.modulus
        difference = self.evaluator.share.astype(object) - self.owner.share.astype(object)
        folded = (difference + modulus // 2) % modulus - modulus // 2 if modulus else difference
        return np.ldexp(folded.astype(np.float64), -self.numbers.weight_bits)


def drawn(shape, seed=0):
    batch, inputs, outputs = shape
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, 1 / np.sqrt(inputs), (inputs, outputs))
    return weights, np.tanh(rng.normal(size=(batch, inputs))), rng.normal(0, 0.5, (batch, outputs))


def within(errors, bound):
    """Errors stay below the bound; and the largest is not far below it."""
    errors, bound = np.abs(errors), np.broadcast_to(bound, np.shape(errors))
    assert (errors <= bound).all()
    assert errors.max() * NOT_VACUOUS >= bound.max()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("label_noise", [0.0, 10.0])
def test_one_step_against_float64(shape, label_noise):
    weights, g, delta = drawn(shape)
    numbers = LayerNumbers.for_batches(shape[0], 0.3, label_noise)
    layer = Layer(weights, shape[0], numbers)
    exact = layer.weights()  # the starting weights as the layer has them
    assert np.abs(exact - weights).max() <= 2.0 ** -(numbers.weight_bits + 1)

    tensor = torch.tensor(exact, dtype=torch.float64, requires_grad=True)
    embedding = torch.tensor(g, dtype=torch.float64, requires_grad=True)
    outputs = embedding @ tensor
    outputs.backward(torch.tensor(delta))

    within(layer.forward(g) - outputs.detach().numpy(), numbers.output_error(exact))
    within(layer.backward(delta) - embedding.grad.numpy(), numbers.input_gradient_error(exact))
    step = np.ldexp(tensor.grad.numpy(), -numbers.step_bits)
    within(exact - layer.weights() - step, numbers.step_error(g, delta))


def test_the_bound_is_of_the_stated_size():
    """A batch of 256, embedding 16: outputs are right to about three digits."""
    weights, g, delta = drawn((256, 16, 16))
    numbers = LayerNumbers.for_batches(256, 0.3)
    assert numbers.output_error(weights).max() < 0.02
    assert numbers.input_gradient_error(weights).max() < 0.002
    assert numbers.step_error(g, delta).max() < 2e-4


def test_numbers_already_on_the_grid_are_exact():
    """Rounding and noise are the only differences: without them there is none."""
    rng = np.random.default_rng(1)
    numbers = LayerNumbers.for_batches(32, 0.3)
    weights = np.ldexp(rng.integers(-400, 400, (4, 3)).astype(float), -9)
    g = np.ldexp(rng.integers(-512, 512, (32, 4)).astype(float), -9)
    delta = np.ldexp(rng.integers(-512, 512, (32, 3)).astype(float), -12)
    layer = Layer(weights, 32, numbers, blur=False)
    assert np.array_equal(layer.forward(g), g @ weights)
    assert np.array_equal(layer.backward(delta), delta @ weights.T)
    assert np.array_equal(layer.weights(), weights - np.ldexp(g.T @ delta, -numbers.step_bits))


def test_many_steps_drift_no_further_than_the_sum_of_their_bounds():
    """The same batches through both: weights differ by the errors of all steps together."""
    shape = (64, 8, 4)
    numbers = LayerNumbers.for_batches(64, 0.3)
    weights, _, _ = drawn(shape)
    layer = Layer(weights, 64, numbers)
    reference, bound = layer.weights(), np.zeros_like(weights)
    for seed in range(20):
        _, g, delta = drawn(shape, seed)
        layer.forward(g)
        layer.backward(delta)
        reference = reference - np.ldexp(g.T @ delta, -numbers.step_bits)
        bound += numbers.step_error(g, delta)
        assert (np.abs(layer.weights() - reference) <= bound).all()
    assert np.abs(layer.weights() - reference).max() > 0


def test_a_whole_network_stays_close_to_float64():
    """Layer, tanh and a linear top; gradients come from each one's own outputs.

    Here errors feed back through the loss, so the bound is that of the layer times what the top
    can stretch: its Lipschitz constant, times the step, for every step so far.
    """
    shape, rate, n_steps = (64, 8, 8), 0.3, 15
    rng = np.random.default_rng(3)
    weights, g, _ = drawn(shape)
    labels = torch.tensor((g[:, 0] + g[:, 1] ** 2 > 0.4).astype(np.int64))
    numbers = LayerNumbers.for_batches(shape[0], rate)
    layer = Layer(weights, shape[0], numbers)
    top = nn.Sequential(nn.Tanh(), nn.Linear(8, 2)).double()
    with torch.no_grad():
        top[1].weight.copy_(torch.tensor(rng.normal(0, 0.5, (2, 8))))
    stretch = float(torch.linalg.matrix_norm(top[1].weight.detach(), 2))

    def gradient(outputs):
        reached = torch.tensor(outputs, dtype=torch.float64, requires_grad=True)
        nn.functional.cross_entropy(top(reached), labels).backward()
        return reached.grad.numpy() * len(outputs)

    reference = layer.weights()
    distance = 0.0  # bound on the distance of the weights, Frobenius norm
    # Slope of the gradient in the outputs of one row: softmax 1/2, tanh' 1, tanh'' below 0.77.
    slope = 0.5 * stretch**2 + 0.77 * np.sqrt(2.0) * stretch
    norm_g = np.linalg.norm(g)
    for _ in range(n_steps):
        fixed, exact = layer.forward(g), g @ reference
        rounding = np.linalg.norm(
            np.broadcast_to(numbers.output_error(layer.weights()), fixed.shape)
        )
        off = rounding + norm_g * distance
        assert np.linalg.norm(fixed - exact) <= off
        delta, wanted = gradient(fixed), gradient(exact)
        assert np.linalg.norm(delta - wanted) <= slope * off
        layer.backward(delta)
        reference = reference - np.ldexp(g.T @ wanted, -numbers.step_bits)
        step = 2.0**-numbers.step_bits * np.linalg.norm(g, 2) * slope * off
        distance += step + np.linalg.norm(numbers.step_error(g, delta))
        observed = np.linalg.norm(layer.weights() - reference)
        assert observed <= distance
    assert observed < 0.01
    assert observed > 0


@pytest.mark.parametrize("scheme", ["bgv", "paillier"])
def test_encrypted_layers_give_the_same_integers(scheme):
    shape = (16, 3, 2)
    weights, g, delta = drawn(shape)
    numbers = LayerNumbers.for_batches(16, 0.3)
    secure = Layer(weights, 16, numbers, scheme, blur=False)
    # The label holder's own columns: the same integers, in the open.
    open_layer = OpenLayer(numbers.weights(weights))
    for _ in range(2):
        own = open_layer.forward(numbers.embedding(g))
        assert np.array_equal(secure.forward(g), numbers.outputs_as_reals(own))
        own = open_layer.backward(numbers.embedding(g), numbers.gradient(delta))
        assert np.array_equal(secure.backward(delta), numbers.input_gradients_as_reals(own))


@pytest.mark.parametrize("scheme", ["bgv", "paillier"])
def test_noise_on_what_leaves_is_the_same_under_encryption(scheme):
    shape = (16, 3, 2)
    weights, g, delta = drawn(shape)
    numbers = LayerNumbers.for_batches(16, 0.3)
    plain, secure = Layer(weights, 16, numbers), Layer(weights, 16, numbers, scheme)
    clean = Layer(weights, 16, numbers, blur=False)
    outputs = plain.forward(g)
    assert np.array_equal(secure.forward(g), outputs)
    assert not np.array_equal(clean.forward(g), outputs)
    assert np.array_equal(secure.backward(delta), plain.backward(delta))
