# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The calibration: how long this machine takes for a unit of each kind of work.

What is timed are the functions that a run calls, on small made-up numbers. Units and what they
count are the keys below; the files beside this one say how often a run needs each of them.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedsift.costs.measure_crypto import BRIEFLY, Seconds, bgv, openly, paillier, per_call, shares
from fedsift.crypto.wire import Ciphertexts
from fedsift.engine.local import one_thread_each
from fedsift.protocol import DrivingRole, Message, Network, Protocol, Role, handles, message

if TYPE_CHECKING:
    from fedsift.methods.fpso.subset_fitness import KnnFitness

CROWD = 3
"""Parties at once that the nearest-neighbour fitness is measured with."""


def measure_rates() -> Seconds:
    """Measure everything that is installed; a few seconds on one core."""
    rates: Seconds = {}
    for part in (
        _messages,
        bgv,
        paillier,
        openly,
        shares,
        _columns,
        _vfps,
        _matrices,
        _subsets,
        _networks,
        _ids,
    ):
        try:
            with one_thread_each():
                rates |= part()
        except ImportError:
            continue  # typical rates stand in for what is not installed
    return rates


# --- the runtime ------------------------------------------------------------------------------


@message(flow="caller -> wall", reveals="nothing: zeros")
class _Shout(Message, frozen=True):
    content: Ciphertexts


@message(flow="wall -> caller", reveals="nothing: zeros")
class _Echo(Message, frozen=True):
    content: Ciphertexts


class _Wall(Role, name="wall"):
    @handles(_Shout)
    async def answer(self, shout: _Shout, net: Network) -> _Echo:  # noqa: ARG002
        return _Echo(shout.content)


class _Caller(DrivingRole, name="caller"):
    def __init__(self, steps: Sequence[tuple[int, int]]) -> None:
        self._steps = steps

    async def drive(self, net: Network) -> list[float]:
        """Seconds of one request, by size."""
        found = []
        for size, rounds in self._steps:
            shout = _Shout(Ciphertexts("none", (bytes(size),)))
            await net.ask("wall", shout, _Echo)
            start = time.process_time()
            for _ in range(rounds):
                await net.ask("wall", shout, _Echo)
            found.append((time.process_time() - start) / rounds)
        return found


def _messages() -> Seconds:
    from fedsift.engine import LOCAL_ENGINE
    from fedsift.methods.execution import versions

    protocol = Protocol("echo", (_Shout, _Echo), (_Caller, _Wall))

    def run(*steps: tuple[int, int]) -> list[float]:
        nodes: dict[str, Sequence[Role]] = {"a": (_Caller(steps),), "b": (_Wall(),)}
        found: list[float] = LOCAL_ENGINE.run(protocol, nodes).value
        return found

    small, large = run((16, 40), (1 << 20, 8))
    start = per_call(run) + per_call(versions)
    return {
        "start": start,
        "call": small,
        "byte": max(large - small, 0.0) / (2 << 20),
    }


# --- numbers of one party ---------------------------------------------------------------------


def _table(n_rows: int, n_columns: int) -> tuple[Any, Any]:
    from fedsift.data import PartyTable, Target

    rng = np.random.default_rng(0)
    table = PartyTable.from_any(rng.normal(size=(n_rows, n_columns)), name="own")
    return table, Target.from_values(rng.integers(0, 2, n_rows))


def _columns() -> Seconds:
    from fedsift.crypto.columns.api import BinnedRows, two_sides, values_of
    from fedsift.crypto.masking import MaskingKey, PairwiseMasks
    from fedsift.maths import moments
    from fedsift.methods.filter import features as filter_features
    from fedsift.methods.filter.ranking import Params, plain_scores
    from fedsift.privacy.mechanisms import CountNoise

    n_rows, n_columns = 2000, 4
    cells = n_rows * n_columns
    table, target = _table(n_rows, n_columns)
    numbers = table.numeric_matrix()
    keys = {name: MaskingKey.generate() for name in "abcde"}
    publics = {name: key.public for name, key in keys.items()}
    few = PairwiseMasks("a", keys["a"], {name: publics[name] for name in "ab"})
    many = PairwiseMasks("a", keys["a"], publics)
    contexts = iter(range(10**9))
    rows = BinnedRows(np.random.default_rng(0).integers(0, 10, (1024, 50), dtype=np.uint8), 10)
    plain = values_of(rows, 1 << 40)
    weighted = two_sides(rows, np.full((50, 10), 12345, dtype=object), (1 << 40) - 87)
    noise = CountNoise(1.0, 0.0, 10)
    values, labels, edges = list(range(500)), target.codes, np.linspace(-1.0, 1.0, 9)
    wanted, samples = slice(0, 500), slice(0, 1024)
    alone = per_call(lambda: few.mask(values, str(next(contexts))))
    peer = max(per_call(lambda: many.mask(values, str(next(contexts)))) - alone, 0.0) / 3
    return {
        "bin cell": per_call(lambda: filter_features.bin_table(table, 10, 5)) / cells,
        "score cell": per_call(lambda: plain_scores(table, target, Params("gini"))) / cells,
        "member cell": per_call(lambda: plain(wanted, samples)) / (500 * 1024),
        "weight cell": per_call(lambda: weighted(slice(500, 1000), samples)) / (500 * 1024),
        "noise number": per_call(lambda: noise.draw((50,))) / 50,
        "search column": per_call(
            lambda: np.append(np.searchsorted(numbers[:, 0], edges, side="right"), n_rows).tolist()
        ),
        "sort cell": per_call(lambda: np.sort(numbers, axis=0)) / cells,
        "moment cell": per_call(lambda: moments.column_sums(numbers[:, 0], labels, 2, np.empty(0)))
        / n_rows,
        "mask number": max(alone - peer, 0.0) / len(values),
        "mask number peer": peer / len(values),
    }


def _vfps() -> Seconds:
    """What participants and the aggregator do for one query, per query and per row of it."""
    from fedsift.crypto.shuffle import SecretOrder
    from fedsift.methods.vfps import distances as local
    from fedsift.methods.vfps import zero_shares
    from fedsift.methods.vfps.rounded_order import RoundedOrder

    secret, members, few, many = bytes(32), ("a", "b"), 500, 8000
    numbers = np.random.default_rng(0).normal(size=(many, 32))

    def works(n_rows: int) -> dict[str, float]:
        narrow = np.ascontiguousarray(numbers[:n_rows, :2])
        wide = np.ascontiguousarray(numbers[:n_rows])
        parts = local.part_of_distance(narrow, 0, 4)
        order = SecretOrder(secret, 0, n_rows)

        def mask() -> Any:
            rounded = local.rounded(parts)[order.row_of]
            return zero_shares.masked(rounded, secret, "c", members, "a")

        return {
            "distance": per_call(lambda: local.part_of_distance(narrow, 0, 4), BRIEFLY),
            "wide": per_call(lambda: local.part_of_distance(wide, 0, 4), BRIEFLY),
            "order": per_call(lambda: SecretOrder(secret, 0, n_rows), BRIEFLY),
            "round": per_call(mask, BRIEFLY),
            "rank": per_call(lambda: RoundedOrder(parts, 2).candidates(5), BRIEFLY),
            "sub-ranking": per_call(lambda: local.Ranking(parts, order).block(64), BRIEFLY),
        }

    small, large = works(few), works(many)
    rates = {"distance cell": max(large["wide"] - large["distance"], 0.0) / (30 * many)}
    del small["wide"], large["wide"]
    for unit, seconds in small.items():
        slope = max(large[unit] - seconds, 0.0) / (many - few)
        rates |= {f"{unit} row": slope, f"{unit} query": max(seconds - few * slope, 0.0)}
    return rates


def _matrices() -> Seconds:
    """Linear algebra of DCFS, in multiply-adds or numbers."""
    from scipy.linalg import eigh

    rng = np.random.default_rng(0)
    n = 200
    square = rng.normal(size=(n, n))
    spread = square @ square.T + n * np.eye(n)
    thin: npt.NDArray[np.float64] = rng.normal(size=(n, 5))
    return {
        "matrix product": per_call(lambda: square @ square) / n**3,
        "matrix solve": per_call(lambda: np.linalg.solve(spread, thin)) / n**3,
        "matrix eigen": per_call(lambda: np.linalg.eigh(spread)) / n**3,
        "matrix eigen pair": per_call(lambda: eigh(spread, spread, subset_by_index=[0, 4])) / n**3,
        "matrix sort": per_call(lambda: np.argsort(square, axis=1, kind="stable"))
        / (n * n * math.log2(n)),
        "matrix cell": per_call(lambda: np.maximum(square, square.T) + 2 * square) / (3 * n * n),
    }


def _subsets() -> Seconds:
    """The nearest-neighbour fitness per distance, and per column of it; swarms around it."""
    from fedsift.methods.fpso.subset_fitness import KnnFitness, stratified_folds

    rng = np.random.default_rng(0)
    seconds, n_masks = {}, 12  # as many new subsets as a swarm finds in one step
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 96))
    folds = stratified_folds(y, 5, rng)
    for n_rows in (100, 400):
        fitness = KnnFitness(X[:n_rows], y[:n_rows], folds[:n_rows], 3)
        for n_columns in (4, 96):
            masks = np.zeros((n_masks, 96), dtype=bool)
            for mask in masks:
                mask[rng.choice(96, n_columns, replace=False)] = True
            taken = per_call(lambda f=fitness, m=masks: f._evaluate(m))  # type: ignore[misc]
            seconds[n_rows, n_columns] = taken / n_masks
    slope = max(seconds[400, 96] - seconds[400, 4], 0.0) / 92 / 400**2
    plain = {n: max(seconds[n, 4] - 4 * slope * n * n, 0.0) for n in (100, 400)}
    per_distance = max(plain[400] - plain[100], 0.0) / (400**2 - 100**2)
    return {
        "subset": max(plain[100] - per_distance * 100**2, 0.0),
        "subset distance": per_distance,
        "subset distance column": slope,
        "swarm subset": _swarming(),
    } | _crowded(lambda: KnnFitness(X, y, folds, 3), masks)


def _crowded(make: Callable[[], KnnFitness], masks: npt.NDArray[np.bool_]) -> Seconds:
    """What becomes of that if several parties do it at once, in threads that share the cores.

    The only rates that are no seconds: how many times as much processor time a subset takes then,
    and how many parties' work is done in the time of one.
    """
    crowded, lanes = [], []
    fitnesses = [make() for _ in range(CROWD)]

    def work(fitness: KnnFitness) -> None:
        for _ in range(4):
            fitness._evaluate(masks)

    for fitness in fitnesses:
        fitness._evaluate(masks)
    for _ in range(5):
        cpu, wall = time.process_time(), time.perf_counter()
        work(fitnesses[0])
        alone = time.process_time() - cpu, time.perf_counter() - wall
        threads = [threading.Thread(target=work, args=(fitness,)) for fitness in fitnesses]
        cpu, wall = time.process_time(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        crowded.append((time.process_time() - cpu) / CROWD / alone[0])
        lanes.append(CROWD * alone[1] / (time.perf_counter() - wall))
    return {
        "crowded subset": max(1.0, statistics.median(crowded)),
        "subset lanes": max(0.5, statistics.median(lanes)),
    }


def _swarming() -> float:
    """What a swarm does itself for a subset that it has not met before."""
    from fedsift.methods.fpso import swarm
    from fedsift.methods.fpso.subset_fitness import SubsetFitness

    class Free(SubsetFitness):
        def _evaluate(self, masks: npt.NDArray[np.bool_]) -> list[int]:
            counts: list[int] = masks[:, :20].sum(axis=1).tolist()
            return counts

    found = []

    def search() -> None:
        free = Free(np.zeros(0, dtype=np.int64))
        swarm.search(swarm.Swarm(40, 20, np.random.default_rng(0)), free.correct, 25)
        found.append(free.n_lookups - free.n_hits)

    return per_call(search) / found[0]


def _networks() -> Seconds:
    """A step of one party's network, and of the top network."""
    import torch

    from fedsift.methods.fedsdg.inputs import InputEncoder
    from fedsift.methods.fedsdg.local_part import LocalPart, PartData
    from fedsift.methods.fedsdg.messages import Params
    from fedsift.methods.fedsdg.top import TopSide

    torch.set_num_threads(1)
    params = Params()
    seconds = {}
    rows, gradient = np.arange(64), np.zeros((64, params.embedding))
    for n_columns in (4, 128):
        table, target = _table(64, n_columns)
        encoder = InputEncoder.fit(table, rows)
        data = PartData(encoder, table)
        part = LocalPart(encoder, np.full(n_columns, 0.5), params, None, 0)

        def step(part: Any = part, data: Any = data, n: int = n_columns) -> None:
            part.embed(data.batch(rows), training=True)
            part.learn(gradient, n)

        seconds[n_columns] = per_call(step)
    top = TopSide(target, rows, params, 0)
    outputs = np.zeros((64, params.outputs))
    slope = max(seconds[128] - seconds[4], 0.0) / (124 * 64)
    return {
        "network step": max(seconds[4] - 4 * 64 * slope, 0.0),
        "network cell": slope,
        "top step": per_call(lambda: top.learn(rows, outputs)),
    }


def _ids() -> Seconds:
    """Private set intersection, per id and blinding."""
    from fedsift.crypto import psi
    from fedsift.errors import MissingPackage

    try:
        psi.library()
    except MissingPackage:
        return {}
    ids = [f"{number:032x}" for number in range(150)]
    return {"blind id": per_call(lambda: psi.SetAsker(ids)) / len(ids)}
