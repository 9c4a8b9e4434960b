# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Methods that jobs can name: those of fedsift, and those that other packages add.

A package adds a method by an entry point of the group ``fedsift.methods``, named like the method,
that leads to its :class:`~fedsift.methods.spec.MethodSpec`. One that cannot be used is left out:
it breaks no other method, and says what is wrong with it where somebody names it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from fedsift.config.job import CHAIN, SETTINGS, MethodSchema
from fedsift.config.parameters import COMMON, PYTHON_ONLY, Parameter
from fedsift.config.steps import PREDICT, PREDICTING, TRAIN, training_schema
from fedsift.config.toml import did_you_mean
from fedsift.errors import BrokenMethod, FedsiftError, UnknownMethod
from fedsift.methods.spec import Attacks, MethodSpec, Missing, ReportTexts, Training

if TYPE_CHECKING:
    from fedsift.protocol.message import Declaration
    from fedsift.protocol.role import Protocol

BUILT_IN = (
    "fedsift.methods.dcfs",
    "fedsift.methods.fedsdg",
    "fedsift.methods.fpso",
    "fedsift.methods.filter",
    "fedsift.methods.interaction",
    "fedsift.methods.stepwise",
    "fedsift.methods.vfps",
)
"""Packages with a ``METHOD``. A new method of fedsift is one more line."""

GROUP = "fedsift.methods"
"""Entry points of other packages."""

ALIGN = "align"
ALIGNMENT = Attacks(
    "fedsift.lab.attacks.align:ATTACKS",
    "fedsift.lab.attacks.align:attack_run",
)
"""Attacks on what comes before any vertical method."""
_RESERVED = (TRAIN, PREDICT, CHAIN, ALIGN)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_SELECTS = ("features", "participants")

# What parties do together before and after any method that runs on their own tables.
_AROUND = (
    "fedsift.jobs.setup:PROTOCOL",
    "fedsift.jobs.align:PROTOCOL",
    "fedsift.jobs.collect:PROTOCOL",
    "fedsift.jobs.chain_messages:PROTOCOL",
)


@dataclass(frozen=True, kw_only=True)
class Method(MethodSpec):
    """A method that was found: its specification, and what its addresses lead to.

    Parameters
    ----------
    package : str
        Which package it comes from.
    """

    package: str

    def load(self, address: str) -> Any:
        """Import what an address of this method names."""
        try:
            return load_address(address)
        except FedsiftError:
            raise
        except Exception as error:
            raise _broken(self.package, self.name, _in_words(error)) from error

    @property
    def estimator(self) -> Any:
        """The estimator class."""
        return self.load(self.selector)

    @property
    def class_name(self) -> str:
        """Name of the estimator class."""
        return self.selector.partition(":")[2]

    @property
    def declared(self) -> dict[str, Parameter]:
        """What is known of every parameter of the estimator."""
        return COMMON | dict(self.parameters)

    @property
    def elsewhere(self) -> dict[str, str]:
        """Parameters that do not belong to ``[method]``, and where they belong."""
        places = {name: one.elsewhere for name, one in self.declared.items() if one.elsewhere}
        python_only = f"of {self.class_name}, in Python only"
        return {
            name: f"{name} {python_only}" if place == PYTHON_ONLY else place
            for name, place in places.items()
        }

    @property
    def defaults(self) -> dict[str, Any]:
        """Parameters a job file may set, with their defaults."""
        elsewhere = self.elsewhere
        signature = inspect.signature(self.estimator)
        return {
            name: parameter.default
            for name, parameter in signature.parameters.items()
            if name not in elsewhere
        }

    @property
    def report_texts(self) -> ReportTexts:
        """What reports say about its results."""
        if isinstance(self.texts, Missing):
            return ReportTexts()
        texts: ReportTexts = self.load(self.texts)
        return texts

    def protocol(self, setting: str) -> Protocol:
        """The protocol for a setting."""
        found: Protocol = self.load(self.protocols[setting])
        return found

    def declarations(self) -> Iterator[tuple[str, Declaration]]:
        """Pairs (setting, declaration) of every message that reveals something."""
        for setting in self.protocols:
            for message in self.protocol(setting).messages:
                if message.declaration.reveals_something:
                    yield setting, message.declaration

    def check(self) -> None:
        """Import the estimator and the protocols, which reading a job file needs."""
        known, taken = self.declared, inspect.signature(self.estimator).parameters
        for name in sorted(set(known) ^ set(taken)):
            problem = f"{self.class_name} has no parameter {name!r}"
            if name in taken:
                problem = f"the parameter {name!r} of {self.class_name} is not declared"
            raise _broken(self.package, self.name, problem)
        list(self.declarations())

    def schema(self) -> MethodSchema:
        """What a job file may say about this method."""
        declared = self.declared
        parameters = {name: declared[name] for name in self.defaults}
        without = None if isinstance(self.training, Missing) else self.training.without
        return MethodSchema(
            parameters,
            frozenset(
                declaration.kind
                for declaration in (*(own for _, own in self.declarations()), *joint_declarations())
            ),
            tuple(self.protocols),
            self.elsewhere,
            None if without is None else frozenset(parameters) - frozenset(without),
        )


def load_address(address: str) -> Any:
    """Import what ``"module:name"`` names."""
    module, _, name = address.partition(":")
    return getattr(importlib.import_module(module), name)


@cache
def list_built_in() -> tuple[Method, ...]:
    """The methods of fedsift itself."""
    return tuple(_method(load_address(f"{module}:METHOD"), "fedsift") for module in BUILT_IN)


def list_methods() -> tuple[Method, ...]:
    """All methods that can be used: those of fedsift, then others by name."""
    return _find_methods()[0]


def list_broken() -> tuple[BrokenMethod, ...]:
    """Why methods of other packages were left out."""
    return tuple(_find_methods()[1].values())


def method_named(name: str) -> Method:
    """Look a method up."""
    methods, broken = _find_methods()
    for method in methods:
        if method.name == name:
            return method
    if name in broken:
        raise broken[name]
    names = [method.name for method in methods]
    raise UnknownMethod(
        f"There is no method {name!r}.",
        f"Known methods: {', '.join(names)}.",
        did_you_mean(name, names, "See 'fedsift methods'."),
    )


def method_of(estimator: Any) -> Method | None:
    """The method that an estimator runs, if it is an estimator of one."""
    kind = type(estimator)
    address = f"{kind.__module__}:{kind.__qualname__}"
    return next((method for method in list_methods() if method.selector == address), None)


def training_method() -> tuple[Method, Training]:
    """The method that trains the model of a ``train`` step, and how."""
    for method in list_methods():
        if isinstance(method.training, Training):
            return method, method.training
    raise UnknownMethod("No method trains a model.", "A 'train' step needs one.", "Leave it out.")


def report_texts(name: str) -> ReportTexts:
    """Texts for results of a method; usual ones if it is not installed, or there is no such one."""
    found = next((method for method in list_methods() if method.name == name), None)
    return ReportTexts() if found is None else found.report_texts


def joint_declarations() -> Iterator[Declaration]:
    """Messages around a method that reveal something: setup, alignment, results, steps."""
    for address in _AROUND:
        for message in load_address(address).messages:
            if message.declaration.reveals_something:
                yield message.declaration


@cache
def schemas() -> dict[str, MethodSchema]:
    """Schemas of all methods, for reading job files."""
    return {method.name: method.schema() for method in list_methods()}


def step_schema(name: str, methods: Mapping[str, MethodSchema]) -> MethodSchema:
    """What a step of a chained job may say: a method, ``train`` or ``predict``."""
    if name == PREDICT:
        return MethodSchema(PREDICTING, settings=("vertical",))
    if name == TRAIN:
        return training_schema(methods)
    if name not in methods:
        method_named(name)
    return methods[name]


@cache
def _find_methods() -> tuple[tuple[Method, ...], dict[str, BrokenMethod]]:
    """Methods that can be used, and what is wrong with the others."""
    taken = {method.name: method.package for method in list_built_in()}
    others: list[Method] = []
    broken: dict[str, BrokenMethod] = {}
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda e: (e.name, _owner(e))):
        package = _owner(entry)
        if entry.name in taken:
            problem = f"{taken[entry.name]} has a method of that name"
            broken[entry.name] = _broken(package, entry.name, problem)
            continue
        taken[entry.name] = package
        try:
            others.append(_loaded(entry, package))
        except BrokenMethod as error:
            broken[entry.name] = error
    return (*list_built_in(), *others), broken


def _loaded(entry: metadata.EntryPoint, package: str) -> Method:
    try:
        spec = entry.load()
    except Exception as error:
        raise _broken(package, entry.name, _in_words(error)) from error
    problem = next(_problems(spec, entry.name), "")
    if problem:
        raise _broken(package, entry.name, problem)
    made = _method(spec, package)
    try:
        made.check()
    except BrokenMethod:
        raise
    except Exception as error:
        raise _broken(package, entry.name, _in_words(error)) from error
    return made


def _problems(spec: Any, name: str) -> Iterator[str]:
    """What is wrong with a specification of another package."""
    if not isinstance(spec, MethodSpec):
        yield f"its entry point leads to a {type(spec).__name__}, not to a MethodSpec"
        return
    if spec.name != name:
        yield f"its MethodSpec is called {spec.name!r}"
    if not _NAME.fullmatch(name):
        yield "a name has lower-case letters, digits, '-' and '_', and starts with a letter"
    if name in _RESERVED:
        yield "the name means something else in job files"
    if spec.selects not in _SELECTS:
        yield f"selects is {spec.selects!r}, not one of {', '.join(_SELECTS)}"
    if not spec.protocols or not set(spec.protocols) <= set(SETTINGS):
        yield f"protocols are given for {sorted(spec.protocols)}, not for {' or '.join(SETTINGS)}"
    if "horizontal" in spec.protocols and "horizontal" not in spec.neutral:
        yield "a horizontal method needs a neutral party"


def _method(spec: MethodSpec, package: str) -> Method:
    return Method(**{one.name: getattr(spec, one.name) for one in fields(spec)}, package=package)


def _owner(entry: metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value.partition(":")[0]


def _broken(package: str, name: str, problem: str) -> BrokenMethod:
    return BrokenMethod(
        f"The method {name!r} of the package {package!r} cannot be used: {problem}.",
        "An entry point of the group 'fedsift.methods' leads to a MethodSpec of the same name, "
        "and every address in it can be imported.",
        f"Update or remove {package!r}, or tell its authors; other methods are not concerned.",
    )


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).rstrip('.') or 'no reason is given'}"
