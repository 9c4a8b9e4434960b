# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Methods that jobs can name. A new one is one more entry in ``METHODS``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from fedsift.config.job import MethodSchema
from fedsift.config.steps import PREDICT, PREDICTING, TRAIN, training_schema
from fedsift.config.toml import Kinds, did_you_mean
from fedsift.errors import UnknownMethod

if TYPE_CHECKING:
    from fedsift.protocol.message import Declaration
    from fedsift.protocol.protocol import Protocol

# Constructor parameters that a job file gives elsewhere.
_ELSEWHERE = {
    "parties": "parties in [data], or as [[party]] entries",
    "policy": "policy of a [[party]]",
    "random_state": "seed in [job]",
    "checkpoint": "checkpoint in [runtime]",
    "embedding_network": "embedding_network of FedSDGSelector, in Python only",
}


@dataclass(frozen=True)
class Method:
    """A method by name: where its estimator and its protocols are.

    Parameters
    ----------
    name : str
        As in job files.
    summary : str
        One sentence.
    selects : str
        ``"features"`` or ``"participants"``.
    selector : str
        ``module:class`` of the estimator.
    protocols : mapping of setting to str
        ``module:name`` of the protocol for each setting it works in.
    accepts : mapping of parameter name to types
        Where the type of a parameter's default is not the whole truth.
    neutral : mapping of setting to str
        Name of the party without data that takes part, where there is one.
    """

    name: str
    summary: str
    selects: str
    selector: str
    protocols: Mapping[str, str]
    accepts: Mapping[str, Kinds] = field(default_factory=dict)
    neutral: Mapping[str, str] = field(default_factory=dict)

    @property
    def estimator(self) -> Any:
        """The estimator class."""
        return _imported(self.selector)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters a job file may set, with their defaults."""
        signature = inspect.signature(self.estimator)
        return {
            name: parameter.default
            for name, parameter in signature.parameters.items()
            if name not in _ELSEWHERE
        }

    def declarations(self) -> Iterator[tuple[str, Declaration]]:
        """Pairs (setting, declaration) of every message that reveals something."""
        for setting, address in self.protocols.items():
            protocol: Protocol = _imported(address)
            for message in protocol.messages:
                if message.declaration.reveals_something:
                    yield setting, message.declaration

    def schema(self) -> MethodSchema:
        """What a job file may say about this method."""
        kinds = {
            name: self.accepts.get(name, (_type_of(default),))
            for name, default in self.parameters.items()
        }
        return MethodSchema(
            kinds,
            frozenset(
                declaration.kind
                for declaration in (*(own for _, own in self.declarations()), *joint_declarations())
            ),
            tuple(self.protocols),
            _ELSEWHERE,
        )


METHODS = (
    Method(
        "dcfs",
        "Unsupervised: keeps the structure of all parties' rows, aligned through anchor data.",
        "features",
        "fedsift.methods.dcfs.selector:DCFSSelector",
        {"horizontal": "fedsift.methods.dcfs.coordinator:PROTOCOL"},
        {"n_features_to_select": (int, float), "n_anchors": (int, str)},
        {"horizontal": "coordinator"},
    ),
    Method(
        "fedsdg",
        "Opens and closes a gate per feature while the parties train a network together.",
        "features",
        "fedsift.methods.fedsdg.selector:FedSDGSelector",
        {"vertical": "fedsift.methods.fedsdg.messages:DECLARED"},
        {
            "n_features_to_select": (int, float, str),
            "lam": (int, float, str),
            "outputs": (int, str),
        },
    ),
    Method(
        "fpso",
        "Searches a common subset with particle swarms, judged by accuracy at every party.",
        "features",
        "fedsift.methods.fpso.selector:FPSOSelector",
        {"horizontal": "fedsift.methods.fpso.third_party:PROTOCOL"},
        {
            "n_features_to_select": (int, float, str),
            "epsilon": (int, float),
            "delta": (int, float),
            "n_blocks": (int,),
            "n_votes": (int,),
        },
        {"horizontal": "third-party"},
    ),
    Method(
        "filter",
        "Ranks features by one score: gini, f, mi, chi2, iv or variance.",
        "features",
        "fedsift.methods.filter.selector:FilterSelector",
        {
            "vertical": "fedsift.methods.filter.label_holder:PROTOCOL",
            "horizontal": "fedsift.methods.filter.coordinator:PROTOCOL",
        },
        {
            "n_features_to_select": (int, float),
            "bins": (int, list, dict),
            "epsilon": (int, float),
            "delta": (int, float),
            "release_epsilon": (int, float),
            "release_delta": (int, float),
        },
        {"horizontal": "coordinator"},
    ),
    Method(
        "interaction",
        "Ranks features by relevance and by how they interact with those already selected.",
        "features",
        "fedsift.methods.interaction.selector:InteractionSelector",
        {"vertical": "fedsift.methods.interaction.label_owner:PROTOCOL"},
        {"n_features_to_select": (int, float, str)},
        {"vertical": "cloud"},
    ),
    Method(
        "vfps",
        "Selects participants by the mutual information of their columns with the label.",
        "participants",
        "fedsift.methods.vfps.selector:VFPSSelector",
        {"vertical": "fedsift.methods.vfps.leader:PROTOCOL"},
        {"n_participants": (int, float)},
        {"vertical": "aggregator"},
    ),
)


# What parties do together before and after any method that runs on their own tables.
_AROUND = (
    "fedsift.jobs.setup:PROTOCOL",
    "fedsift.jobs.align:PROTOCOL",
    "fedsift.jobs.collect:PROTOCOL",
    "fedsift.jobs.chain_messages:PROTOCOL",
)


def joint_declarations() -> Iterator[Declaration]:
    """Messages around a method that reveal something: meeting, alignment, findings, steps."""
    for address in _AROUND:
        for message in _imported(address).messages:
            if message.declaration.reveals_something:
                yield message.declaration


def method_named(name: str) -> Method:
    """Look a method up."""
    for method in METHODS:
        if method.name == name:
            return method
    names = [method.name for method in METHODS]
    raise UnknownMethod(
        f"There is no method {name!r}.",
        f"Known methods: {', '.join(names)}.",
        did_you_mean(name, names, "See 'fedsift methods'."),
    )


def method_of(estimator: Any) -> Method:
    """The method that an estimator runs."""
    kind = type(estimator)
    return next(m for m in METHODS if m.selector == f"{kind.__module__}:{kind.__qualname__}")


@cache
def schemas() -> dict[str, MethodSchema]:
    """Schemas of all methods, for reading job files."""
    return {method.name: method.schema() for method in METHODS}


def step_schema(name: str, methods: Mapping[str, MethodSchema]) -> MethodSchema:
    """What a step of a chained job may say: a method, ``train`` or ``predict``."""
    if name == PREDICT:
        return MethodSchema(PREDICTING, settings=("vertical",))
    if name == TRAIN:
        return training_schema(methods)
    if name not in methods:
        method_named(name)
    return methods[name]


def _imported(address: str) -> Any:
    module, _, name = address.partition(":")
    return getattr(importlib.import_module(module), name)


def _type_of(default: Any) -> Any:
    """The TOML type of a default; a whole number by default may be any number if it is a float."""
    return type(default) if isinstance(default, (str, int, float, bool, list, dict)) else object
