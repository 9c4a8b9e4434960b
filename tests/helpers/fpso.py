"""FPSO-FS on a small task, and what its third party sees."""

import fedsift as fs
from fedsift.engine import run_local
from fedsift.methods.fpso import messages as fpso_messages
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso.local_search import Params
from helpers.arrays import labelled
from helpers.runs import received

QUICK = {"n_iterations": 6, "n_rounds": 2, "n_particles": 10, "random_state": 0}
MODES = ["rounds", "federated-fitness"]
STEP = 1 / fpso.ACCURACY_STEPS
PAPER = {
    "aggregation": "third-party",
    "policy": fs.Policy(
        may_reveal=tuple({m.declaration.kind for m in fpso_messages.MESSAGES}), min_security_bits=0
    ),
}
"""What the paper's third party sees has to be allowed by name."""


def task(seed=0):
    X, y = labelled(120, 10, 2, seed)
    X[:, 0] += 2 * y
    return X, y


def run(federation, **settings):
    """A run with open frames: outcome and nodes."""
    params = Params(n_iterations=5, n_particles=8, seed=0, **{"n_rounds": 1, **settings})
    nodes = fpso.build_nodes(federation.tables, federation.targets, params)
    policies = dict.fromkeys(nodes, PAPER["policy"])
    return run_local(fpso.PROTOCOL, nodes, policies=policies, keep_frames=True), nodes


def seen_by_third_party(outcome, kind):
    return received(outcome, "third-party", kind, protocol=fpso.PROTOCOL)
