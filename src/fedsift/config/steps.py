# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of a chained job: ``[[step]]`` tables, one after the other on what the last one left.

Selections come first; then a model may be trained on what is left (``train``) and used
(``predict``). Whatever cannot follow what stands before it is a problem of the job file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedsift.config.toml import Key, Kinds, TomlCheck, did_you_mean

if TYPE_CHECKING:
    from fedsift.config.job import MethodSchema

TRAIN, PREDICT = "train", "predict"

HELD_OUT, UNLABELLED = "held-out", "unlabelled"
DEFAULT_SHARE = 0.2
PREDICTING: dict[str, Kinds] = {"rows": (str,), "share": (float,)}
"""What a job file may say about ``predict``."""

_STEP_KEYS: dict[str, Kinds] = {"method": (str,), "seed": (int,)}
_MOST_STEPS = 20


@dataclass(frozen=True)
class StepEntry:
    """One step: a method, ``train`` or ``predict``.

    Parameters
    ----------
    method : str
    parameters : mapping
        Of the method; of ``predict`` which rows.
    seed : int, optional
        Given, or made of the job's seed and the step's number.
    """

    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None


def step_seed(seed: int | None, number: int) -> int | None:
    """Seed of a step that has none of its own; steps of a job without a seed have none.

    Examples
    --------
    >>> step_seed(7, 1) == step_seed(7, 1), step_seed(7, 1) == step_seed(7, 2), step_seed(None, 1)
    (True, False, None)
    """
    if seed is None:
        return None
    digest = hashlib.sha256(f"fedsift: step {number} of a job with seed {seed}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def training_schema(methods: Mapping[str, MethodSchema]) -> MethodSchema:
    """What a job file may say about ``train``: what it may say about the model's method, less."""
    known = _model(methods)
    kept = {n: kinds for n, kinds in known.parameters.items() if n in (known.training or ())}
    return replace(known, parameters=kept)


def _model(methods: Mapping[str, MethodSchema]) -> MethodSchema:
    """The method that trains the model of a ``train`` step."""
    return next(schema for schema in methods.values() if schema.training is not None)


def steps_in(
    check: TomlCheck,
    given: Any,
    methods: Mapping[str, MethodSchema],
    seed: int | None,
) -> tuple[StepEntry, ...]:
    """Read all steps of a job file; whatever is wrong with one becomes a problem."""
    taken: dict[Key, str] = {("job", "method"): "method in [job]", ("method",): "[method]"}
    for place_of, name in taken.items():
        if check.has(place_of):
            needed = "Every [[step]] names its method and has the parameters beside it."
            check.add(
                place_of, f"Both [[step]] and {name} are given.", needed, "Remove one of them."
            )
    if not given:
        needed = f"Every [[step]] names a method, one of: {', '.join(methods)}."
        check.add(("step",), "The job has no steps.", needed, "Add some, or give [job] a method.")
    if len(given) > _MOST_STEPS:
        found = f"The job has {len(given)} steps."
        check.add(("step",), found, f"At most {_MOST_STEPS} are possible.", "Leave some out.")
    steps = []
    for place, value in enumerate(given):
        where: Key = ("step", place)
        if not isinstance(value, dict):
            check.add(where, "'step' is a list of values.", "Write [[step]] tables.", "Mend it.")
            continue
        entry = _step(check, where, value, methods, step_seed(seed, place + 1))
        if entry is not None:
            steps.append((place, entry))
    _check_order(check, steps)
    _check_numbers(check, steps)
    return tuple(entry for _, entry in steps)


def _step(
    check: TomlCheck,
    where: Key,
    given: dict[str, Any],
    methods: Mapping[str, MethodSchema],
    seed: int | None,
) -> StepEntry | None:
    own = {key: given[key] for key in _STEP_KEYS if key in given}
    known = check.table(where, own, _STEP_KEYS, "[[step]]")
    if known.get("seed", 0) < 0:
        check.add((*where, "seed"), "seed is negative.", "It must be 0 or more.", "Change it.")
    name = known.get("method")
    names = (*methods, TRAIN, PREDICT)
    if name is None:
        if "method" not in given:
            needed = f"[[step]] needs method, one of: {', '.join(names)}."
            check.add(where, "A step names no method.", needed, "Add it.")
        return None
    if name not in names:
        needed = f"Known: {', '.join(names)}."
        action = did_you_mean(name, names, "See 'fedsift methods'.")
        check.add((*where, "method"), f"Unknown method {name!r} in a step.", needed, action)
        return None
    rest = {key: value for key, value in given.items() if key not in _STEP_KEYS}
    shown = f"[[step]] of {name!r}"
    seed = known.get("seed", seed)
    if name == PREDICT:
        parameters = check.table(where, rest, PREDICTING, shown)
        return StepEntry(name, _which_rows(check, where, parameters), seed)
    schema = training_schema(methods) if name == TRAIN else methods[name]
    for key in sorted(set(rest) & set(schema.elsewhere)):
        needed = f"A job file gives it as {schema.elsewhere[key]}."
        check.add((*where, key), f"{key!r} does not belong to [[step]].", needed, "Move it.")
    rest = {key: value for key, value in rest.items() if key not in schema.elsewhere}
    return StepEntry(name, check.table(where, rest, schema.parameters, shown), seed)


def _which_rows(check: TomlCheck, where: Key, given: dict[str, Any]) -> dict[str, Any]:
    """Rows that no step before may see."""
    rows = given.get("rows", HELD_OUT)
    check.choice((*where, "rows"), rows, (HELD_OUT, UNLABELLED))
    if rows == UNLABELLED and "share" in given:
        needed = f"It has a meaning with rows = {HELD_OUT!r} only."
        check.add((*where, "share"), "share is given for rows without a label.", needed, "Remove.")
    if not 0 < given.get("share", DEFAULT_SHARE) < 1:
        needed = "It must be a share between 0 and 1."
        check.add((*where, "share"), f"share = {given['share']}.", needed, "Change it.")
    if rows == UNLABELLED:
        return {"rows": rows}
    return {"rows": rows, "share": float(given.get("share", DEFAULT_SHARE))}


def _check_order(check: TomlCheck, steps: list[tuple[int, StepEntry]]) -> None:
    """Selections, then a training, then a prediction; each of the last two once at most."""
    before: str | None = None
    for place, entry in steps:
        where: Key = ("step", place, "method")
        name = entry.method
        if name == PREDICT and before != TRAIN:
            needed = "A prediction needs the model of a train step right before it."
            check.add(where, "predict has no model to predict with.", needed, "Add a train step.")
        elif before == PREDICT:
            needed = "A prediction is the last step of a chain."
            check.add(where, f"{name} comes after predict.", needed, "Move it up.")
        elif before == TRAIN and name != PREDICT:
            needed = "After train there is nothing left to do but predict."
            check.add(where, f"{name} comes after train.", needed, "Move it before the training.")
        before = name


def _check_numbers(check: TomlCheck, steps: list[tuple[int, StepEntry]]) -> None:
    """Nobody can choose more than the step before has left."""
    left: dict[str, tuple[int, int]] = {}
    for place, entry in steps:
        for key in ("n_features_to_select", "n_participants"):
            wanted = entry.parameters.get(key)
            if not isinstance(wanted, int) or isinstance(wanted, bool):
                continue
            if key in left:
                most, number = left[key]
                # A choice of participants has to leave somebody out.
                largest = most - 1 if key == "n_participants" else most
                if wanted > largest:
                    found = f"{key} = {wanted}, and step {number} leaves {most} at most."
                    needed = f"This step can choose {largest} at most."
                    if largest < 1:
                        needed = "Nothing is left to choose from."
                    check.add(("step", place, key), found, needed, "Ask for fewer, or drop it.")
                    continue
            left[key] = (wanted, place + 1)


def check_setting(
    check: TomlCheck,
    steps: tuple[StepEntry, ...],
    methods: Mapping[str, MethodSchema],
    setting: str,
    *,
    has_gaps: bool,
) -> None:
    """Every step must work in the setting of the data; ``has_gaps`` says if labels may lack."""
    for place, entry in enumerate(steps):
        known = _model(methods) if entry.method in (TRAIN, PREDICT) else methods[entry.method]
        where: Key = ("step", place, "method")
        if setting not in known.settings:
            found = f"{entry.method} does not work in the {setting} setting."
            needed = f"It works in: {', '.join(known.settings)}."
            check.add(where, found, needed, "Choose another method, or another setting in [data].")
        if entry.parameters.get("rows") == UNLABELLED and not has_gaps:
            needed = "Labels may be missing in the table of a party, in a job with [[party]]."
            check.add(
                ("step", place, "rows"),
                "A catalogued data set has no rows without a label.",
                needed,
                f"Use rows = {HELD_OUT!r}.",
            )
