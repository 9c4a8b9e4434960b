# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""One cell of a comparison: one row of the table on one split, from selection to scores.

Everything that is chosen or trained sees the training rows of the split alone.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedsift.data import Federation
from fedsift.errors import FedsiftError
from fedsift.lab.compare.cases import (
    Case,
    Mask,
    Split,
    joint_target,
    make_splits,
    take_rows,
    with_permuted_labels,
)
from fedsift.lab.compare.judge import Judge, LocalModels, random_scores
from fedsift.lab.peers import peer_selection
from fedsift.lab.pooled import pooled_selection
from fedsift.methods.base import number_to_select
from fedsift.methods.registry import method_named

METHOD, PEER, ALL, RANDOM, LOCAL, POOLED = "method", "peer", "all", "random", "local", "pooled"
KINDS = (METHOD, PEER, ALL, RANDOM, LOCAL, POOLED)
"""Kinds of rows, in the order of the table."""


@dataclass(frozen=True)
class Contestant:
    """A method or a peer that takes part.

    Parameters
    ----------
    label : str
        Name of its row.
    name : str
        Of the method or of the peer.
    parameters : mapping
        Of the estimator; a peer knows ``n_features_to_select`` only.
    kind : {"method", "peer"}
    policy : Policy, mapping of party to policy, or None
    """

    label: str
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    kind: str = METHOD
    policy: Any = None

    def selector(self, security: str, seed: int) -> Any:
        """The estimator of a method."""
        return method_named(self.name).estimator(
            **{**self.parameters, "security": security}, policy=self.policy, random_state=seed
        )

    def security(self, default: str) -> str:
        """``secure`` or ``plain``; a method may have its own."""
        return str(self.parameters.get("security", default))


@dataclass(frozen=True)
class Task:
    """What to do for one cell.

    Parameters
    ----------
    case : int
        Number of the data set.
    seed, fold : int
        The split.
    kind : str
        One of `KINDS`.
    row : str
        Name of the row.
    contestant : int or None
        Number among those of the case, of methods, peers and pooled counterparts.
    permutation : int
        0 for the true labels, else the number of the shuffle.
    amount : int
        Random: number of features. Local: number of the party; -1 for all parties' own rows.
    secure : bool
        Verify a plain run by a secure one.
    """

    case: int
    seed: int
    fold: int
    kind: str
    row: str
    contestant: int | None = None
    permutation: int = 0
    amount: int = 0
    secure: bool = False


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one run of the comparison found.

    Attributes
    ----------
    data, row, kind, seed, fold, permutation
        Where it belongs; permutation 0 is the true labels.
    n_selected : float
        Number of features; a mean where several parties select.
    selected : tuple of int
        Their numbers, of methods, peers and pooled counterparts.
    scores : dict of model -> metric -> value
    seconds, cpu_seconds : float
        Of the selection alone.
    n_bytes, messages, rounds : int
        Sent by the parties to each other.
    disclosed : tuple of str
        Who learned what: ``learner: kind of about``, each once.
    security : str
        ``secure``, ``plain``, or empty where nothing federated ran.
    verification : bool
        A secure run of what otherwise ran plain.
    failed : str
        Why there is no outcome.
    """

    data: str
    row: str
    kind: str
    seed: int
    fold: int
    permutation: int = 0
    n_selected: float = 0.0
    selected: tuple[int, ...] = ()
    scores: dict[str, dict[str, float]] = {}
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    n_bytes: int = 0
    messages: int = 0
    rounds: int = 0
    disclosed: tuple[str, ...] = ()
    security: str = ""
    verification: bool = False
    failed: str = ""

    @property
    def split(self) -> tuple[int, int]:
        """Seed and fold."""
        return self.seed, self.fold


class Workplace:
    """Carries out tasks; every process of a comparison has one.

    Parameters
    ----------
    cases : tuple of Case
    contestants : tuple of tuple of Contestant
        By case.
    models : list of str
    folds : int
    security : {"secure", "plain"}
        Of methods that do not say it themselves.
    timeout_seconds : float, optional
        Limit of every request to a party.
    """

    def __init__(
        self,
        cases: tuple[Case, ...],
        contestants: tuple[tuple[Contestant, ...], ...],
        models: list[str],
        folds: int,
        security: str = "secure",
        timeout_seconds: float | None = None,
    ) -> None:
        self.cases, self.contestants = cases, contestants
        self.models, self.folds, self.security = models, folds, security
        self._timeout_seconds = timeout_seconds
        self._splits: dict[tuple[int, int], list[Split]] = {}
        self._last_train: tuple[tuple[int, int, int], Federation] | None = None

    def split(self, task: Task) -> Split:
        """The rows of a task's split."""
        key = (task.case, task.seed)
        if key not in self._splits:
            self._splits[key] = make_splits(self.cases[task.case], self.folds, (task.seed,))
        return self._splits[key][task.fold]

    def train(self, task: Task) -> Federation:
        """The federation with the training rows of a task; tasks of a split come together."""
        key = (task.case, task.seed, task.fold)
        if self._last_train is None or self._last_train[0] != key:
            rows = self.split(task).train
            self._last_train = key, take_rows(self.cases[task.case].federation, rows)
        return self._last_train[1]

    def key(self, task: Task) -> str:
        """Stands for a task and everything its outcome depends on."""
        case = self.cases[task.case]
        contestant = (
            None if task.contestant is None else self.contestants[task.case][task.contestant]
        )
        depends = [
            program_digest(), case.name, case.digest, case.copies_together, self.models, self.folds,
            self.security, repr(contestant), repr(task),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()

    def do(self, task: Task) -> Cell:
        """Carry out one task; a failure that fedsift knows becomes part of the outcome."""
        case, split = self.cases[task.case], self.split(task)
        facts: dict[str, Any] = {
            "data": case.name,
            "row": task.row,
            "kind": task.kind,
            "seed": task.seed,
            "fold": task.fold,
            "permutation": task.permutation,
            "verification": task.secure,
        }
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # results keep their own remarks
                return Cell(**facts, **self._outcome(task, case, split))
        except FedsiftError as error:
            return Cell(**facts, failed=error.one_line)

    def _outcome(self, task: Task, case: Case, split: Split) -> dict[str, Any]:
        federation = self.train(task)
        if task.permutation:
            federation = with_permuted_labels(federation, _shuffle_seed(split, task.permutation))
        target = joint_target(federation)
        labels = None
        if target is not None:
            labels = target.codes if target.kind == "classes" else target.values
        judge = None
        if labels is not None:
            judge = Judge(case.pooled, split.train, split.test, labels, self.models, split.seed)
        if task.kind in (METHOD, PEER, POOLED):
            found = self._selection(task, case, split, federation, labels)
            features = found.pop("features")
            if judge is not None and not task.secure:
                found["scores"] = judge.scores(features)
            found["selected"] = tuple(int(feature) for feature in features)
            return {**found, "n_selected": float(len(features))}
        return self._control(task, case, split, judge)

    def _selection(
        self, task: Task, case: Case, split: Split, federation: Federation, labels: Any
    ) -> dict[str, Any]:
        """Run a method, a peer, or a method's counterpart on open data."""
        assert task.contestant is not None  # noqa: S101 - these kinds have one
        contestant = self.contestants[task.case][task.contestant]
        start, cpu_start = time.perf_counter(), time.process_time()
        cost: dict[str, Any] = {}
        mask: Mask | None
        if task.kind == PEER:
            asked = contestant.parameters.get("n_features_to_select", 10)
            wanted = number_to_select(asked, case.pooled.n_features)
            mask = peer_selection(
                contestant.name, case.pooled, split.train, labels, wanted, split.seed
            )
        elif task.kind == POOLED:
            mask = pooled_selection(contestant.name, contestant.parameters, federation, split.seed)
        else:
            security = "secure" if task.secure else contestant.security(self.security)
            mask, cost = self._run(contestant, federation, security, split.seed)
        assert mask is not None  # noqa: S101 - counterparts that do not exist are not asked for
        return {
            "features": np.flatnonzero(mask),
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu_start,
            **cost,
        }

    def _run(
        self, contestant: Contestant, federation: Federation, security: str, seed: int
    ) -> tuple[Mask, dict[str, Any]]:
        selector = contestant.selector(security, seed)
        selector.run(federation, timeout_seconds=self._timeout_seconds)
        if getattr(selector, "interrupted_", False):
            # Training ends well after Ctrl-C, but half a training is no outcome to compare.
            raise KeyboardInterrupt
        result = selector.result_
        disclosed = {f"{row.learner}: {row.kind} of {row.about}" for row in result.disclosures}
        return selector.support_, {
            "n_bytes": result.traffic.n_bytes,
            "messages": result.traffic.messages,
            "rounds": result.traffic.rounds,
            "disclosed": tuple(sorted(disclosed)),
            "security": security,
        }

    def _control(self, task: Task, case: Case, split: Split, judge: Judge | None) -> dict[str, Any]:
        assert judge is not None  # noqa: S101 - without labels there are no controls to score
        n_features = case.pooled.n_features
        if task.kind == ALL:
            return {"n_selected": float(n_features), "scores": judge.scores(range(n_features))}
        if task.kind == RANDOM:
            scores = random_scores(judge, n_features, task.amount, split.seed + split.fold)
            return {"n_selected": float(task.amount), "scores": scores}
        local = LocalModels(case, split, judge)
        scores = local.of_rows() if task.amount < 0 else local.of_columns(task.amount)
        return {"n_selected": float(np.mean(local.n_features)), "scores": scores}


@cache
def program_digest() -> str:
    """Digest of the program text: cells of another version are not used again."""
    text = hashlib.sha256()
    for path in sorted(Path(__file__).parents[2].rglob("*.py")):
        text.update(path.read_bytes())
    return text.hexdigest()


def _shuffle_seed(split: Split, permutation: int) -> int:
    """Every split and every shuffle has an order of labels of its own."""
    return int(np.random.default_rng([split.seed, split.fold, permutation]).integers(2**31))
