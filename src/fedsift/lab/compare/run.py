# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``compare``: several methods on the same folds of the same federations, with all controls."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsift.config.parameters import check_parameters
from fedsift.data import Federation
from fedsift.errors import ParameterError
from fedsift.lab.compare.cases import Case, count_copies, make_splits, take_rows
from fedsift.lab.compare.cells import METHOD, PEER, Contestant, Workplace
from fedsift.lab.compare.comparison import Comparison, DataOutcome, outcome_of
from fedsift.lab.compare.file import LIMITED
from fedsift.lab.compare.judge import check_models
from fedsift.lab.compare.runner import Echo, Journal, Run
from fedsift.lab.peers import missing_package, peer_named
from fedsift.methods.execution import versions
from fedsift.methods.registry import method_named, method_of

DEFAULT_MODELS = ("knn", "logistic")
_NOT_PARAMETERS = ("parties", "policy", "random_state", "checkpoint")

Methods = Mapping[str, Any] | Iterable[Contestant]


def compare(
    data: Federation | Case | Mapping[str, Federation] | Sequence[Case],
    methods: Methods | Sequence[Methods],
    *,
    peers: Sequence[str] = (),
    models: Sequence[str] = DEFAULT_MODELS,
    folds: int = 5,
    seeds: int = 1,
    seed: int = 0,
    security: str = "secure",
    verify: bool = True,
    permutations: int = 2,
    workers: int = 1,
    journal: str | os.PathLike[str] | None = None,
    timeout_seconds: float | None = None,
    echo: Echo | None = None,
) -> Comparison:
    """Compare methods honestly: same folds, selection inside them, and controls beside them.

    Parameters
    ----------
    data : Federation, Case, mapping of name to Federation, or sequence of Case
        A :class:`~fedsift.lab.compare.Case` also knows which features matter.
    methods : mapping of label to estimator, or contestants
        Estimators such as ``FilterSelector("gini")``; they are not fitted. A list with one entry
        per federation gives each its own.
    peers : sequence of str
        Selectors of other packages on pooled data, see `fedsift.lab.peers`; those that are not
        installed are left out with a note.
    models : sequence of str
        Downstream models; see `fedsift.lab.compare.judge`.
    folds, seeds, seed : int
        Every seed from ``seed`` on deals the rows out anew into so many folds.
    security : {"secure", "plain"}
        ``plain`` runs the same protocols without encryption, which is far cheaper. Filters select
        the same to the last bit.
    verify : bool
        With ``plain``, run every method once with encryption and compare.
    permutations : int
        Shuffles of the training labels per split, for the control that must give chance.
    workers : int
        Processes. A script that asks for more than one needs ``if __name__ == "__main__"``.
    journal : path, optional
        File for finished cells. If it holds cells of the same comparison, they are used again; it
        is removed at the end.
    timeout_seconds : float, optional
        Limit of every request to a party.
    echo : callable, optional
        Called with one line of text per finished cell.

    Returns
    -------
    comparison : Comparison
        Ctrl-C gives one of the cells finished so far, with ``interrupted`` set.

    Examples
    --------
    >>> import fedsift as fs
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> federation = fs.split_vertical(X, y, 2, random_state=0)
    >>> quick = {"folds": 2, "models": ["knn"], "security": "plain", "verify": False}
    >>> found = compare(federation, {"gini": fs.FilterSelector(n_features_to_select=3)}, **quick)
    >>> found.data[0].row("gini").n_selected.value
    3.0
    """
    start, cpu_start = time.perf_counter(), _cpu_seconds()
    cases = _cases(data)
    given = (folds, seeds, seed, permutations, workers, security)
    check_parameters(LIMITED, dict(zip(LIMITED, given, strict=True)))
    names = list(models)
    check_models(names)
    contestants, notes = _line_up(cases, methods, peers)
    workplace = Workplace(cases, contestants, names, folds, security, timeout_seconds)
    check_ahead(workplace, seed)
    book = Journal(None if journal is None else Path(journal))
    run = Run(
        workplace,
        tuple(range(seed, seed + seeds)),
        permutations,
        verify and security == "plain",
        workers,
        book,
        echo or (lambda _: None),
    )
    run.go()
    outcomes = [_outcome(case, run, notes[i], folds) for i, case in enumerate(cases)]
    if not run.interrupted:
        book.remove()
    return Comparison(
        data=tuple(outcomes),
        settings={
            "folds": folds,
            "seeds": list(run.seeds),
            "models": names,
            "security": security,
            "verified": run.verify,
            "permutations": permutations,
            "workers": workers,
        },
        cells=tuple(run.cells),
        seconds=time.perf_counter() - start,
        cpu_seconds=_cpu_seconds() - cpu_start,
        reused=run.reused,
        interrupted=run.interrupted,
        versions=versions(),
    )


def contestant_of(label: str, estimator: Any) -> Contestant:
    """A contestant from an estimator of fedsift; the estimator itself is not touched."""
    method = method_of(estimator)
    if method is None:
        raise ParameterError(
            f"{label!r} is a {type(estimator).__name__}.",
            "Methods are given as estimators of fedsift; other packages are peers.",
            "Use for example FilterSelector('gini'), or name a peer in `peers`.",
        )
    given, defaults = estimator.get_params(deep=False), method.defaults
    parameters = {
        name: value
        for name, value in given.items()
        if name not in _NOT_PARAMETERS and value is not defaults.get(name, "")
    }
    return Contestant(label, method.name, parameters, METHOD, given["policy"])


def check_ahead(workplace: Workplace, seed: int) -> None:
    """Refuse wrong settings, missing packages and policies before the first long run."""
    for case, contestants in zip(workplace.cases, workplace.contestants, strict=True):
        first = make_splits(case, workplace.folds, (seed,))[0]
        federation = take_rows(case.federation, first.train)
        for contestant in contestants:
            if contestant.kind == PEER:
                continue
            security = contestant.security(workplace.security)
            try:
                contestant.selector(security, seed).plan(federation)
            except Exception as error:
                error.add_note(f"This was about {contestant.label!r} on {case.name!r}.")
                raise


def _cases(data: Any) -> tuple[Case, ...]:
    if isinstance(data, Federation):
        return (Case("data", data),)
    if isinstance(data, Case):
        return (data,)
    cases = (
        tuple(Case(name, federation) for name, federation in data.items())
        if isinstance(data, Mapping)
        else tuple(data)
    )
    if not cases or len({case.name for case in cases}) < len(cases):
        raise ParameterError(
            f"{len(cases)} data sets are given, or two of the same name.",
            "At least one federation is needed, and every one needs a name of its own.",
            "Name them apart.",
        )
    return cases


def _line_up(
    cases: tuple[Case, ...], methods: Any, peers: Sequence[str]
) -> tuple[tuple[tuple[Contestant, ...], ...], list[list[str]]]:
    """Who takes part where; methods for the other setting are left out with a note."""
    given = methods if isinstance(methods, (list, tuple)) else [methods] * len(cases)
    if given and isinstance(given[0], Contestant):
        given = [given] * len(cases)
    if len(given) != len(cases):
        raise ParameterError(
            f"{len(given)} lists of methods for {len(cases)} data sets.",
            "Give one mapping for all data sets, or one for each.",
            "Correct the list.",
        )
    lines, notes = [], []
    for case, one in zip(cases, given, strict=True):
        everybody = (
            [contestant_of(label, estimator) for label, estimator in one.items()]
            if isinstance(one, Mapping)
            else list(one)
        )
        everybody += [Contestant(name, name, _same_number(everybody), PEER) for name in peers]
        reasons = [_unfit(contestant, case) for contestant in everybody]
        taking_part = [c for c, reason in zip(everybody, reasons, strict=True) if not reason]
        labels = [contestant.label for contestant in taking_part]
        if not any(c.kind == METHOD for c in taking_part) or len(set(labels)) < len(labels):
            raise ParameterError(
                f"{len(labels)} methods for {case.name!r}, or two of the same label.",
                f"At least one method for the {case.federation.setting} setting is needed, and "
                "every one needs a label of its own.",
                "See 'fedsift methods' for what works in which setting.",
            )
        lines.append(tuple(taking_part))
        notes.append([reason for reason in reasons if reason])
    return tuple(lines), notes


def _same_number(contestants: Sequence[Contestant]) -> dict[str, Any]:
    """Peers select as many features as the first method that was given a number."""
    for contestant in contestants:
        wanted = contestant.parameters.get("n_features_to_select")
        if isinstance(wanted, (int, float)):
            return {"n_features_to_select": wanted}
    return {}


def _unfit(contestant: Contestant, case: Case) -> str:
    """Why a contestant cannot take part, or nothing."""
    setting = case.federation.setting
    if contestant.kind == PEER:
        missing = missing_package(peer_named(contestant.name))
        if missing:
            return f"{contestant.label} is left out: {missing}"
        if case.pooled.target is None:
            return f"{contestant.label} is left out: the federation has no labels."
        return ""
    if setting not in method_named(contestant.name).protocols:
        return f"{contestant.label} is left out: {contestant.name!r} has no {setting} setting."
    return ""


def _outcome(case: Case, run: Run, notes: list[str], folds: int) -> DataOutcome:
    splits = make_splits(case, folds, run.seeds)
    own = [cell for cell in run.cells if cell.data == case.name]
    copies = count_copies(case, splits)
    return outcome_of(case, own, copies, run.permutations, 1 / (folds - 1), notes)


def _cpu_seconds() -> float:
    """CPU seconds of this process and of the workers that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
