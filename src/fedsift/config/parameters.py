# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of methods: what each one takes and means, declared once.

Checks of constructors, checks of job files, docstrings, reference pages and the settings that a
result lists are all made from the declarations. Defaults are in the constructor's signature.
"""

from __future__ import annotations

import inspect
import numbers
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedsift.errors import ParameterError

_WIDTH = 96
_SECTION = re.compile(r"\n\n\w+\n-{3,}\n")
_LONGEST_SHOWN = 60
_LARGEST = 1e300
"""Stands for no limit; larger numbers only break the arithmetic."""


@dataclass(frozen=True)
class Accepted:
    """Values that a parameter, or a key of a file, takes as far as that does not depend on data.

    Parameters
    ----------
    kinds : tuple
        Types that a job file may give.
    shown, needed : str
        In docstrings, and in errors.
    takes : callable
        Whether a value is one of them.
    convert : callable
        To Python's own type.
    words : tuple of str
        All of them, if they are words.
    """

    kinds: tuple[Any, ...]
    shown: str
    needed: str
    takes: Callable[[Any], bool]
    convert: Callable[[Any], Any]
    words: tuple[str, ...] = ()


def accept_whole(least: int = 1, most: int | None = None) -> Accepted:
    """Accept whole numbers within limits."""
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    usual = (least, most) == (1, None)
    return Accepted(
        (int,),
        "int" if usual else f"int {limits}",
        "a positive whole number" if usual else f"a whole number {limits}",
        lambda value: (
            _is_number(value)
            and isinstance(value, numbers.Integral)
            and least <= int(value) <= (_LARGEST if most is None else most)
        ),
        int,
    )


def accept_number(
    least: float, most: float = _LARGEST, *, strict: bool = False, zero: bool = False
) -> Accepted:
    """Accept numbers within limits; ``strict`` leaves out the least one, ``zero`` adds 0."""
    limits = f"above {least:g}" if strict else f"of at least {least:g}"
    limits += f" and at most {most:.10g}" if most < _LARGEST else ""
    limits += ", or 0" if zero else ""
    return Accepted(
        (float,),
        f"float {limits}",
        f"a number {limits}",
        lambda value: (
            _is_number(value)
            and (least < value <= most or (value == least and not strict) or (zero and value == 0))
        ),
        float,
    )


def accept_share(*, below: bool = False) -> Accepted:
    """Accept parts of 1: numbers above 0, up to 1 or ``below`` it; whole numbers are none."""
    return Accepted(
        (float,),
        "float",
        "a share between 0 and 1" if below else "a share in (0, 1]",
        lambda value: (
            _is_number(value)
            and not isinstance(value, numbers.Integral)
            and (0 < value < 1 or (value == 1 and not below))
        ),
        float,
    )


def accept_words(*words: str) -> Accepted:
    """Accept one of a few words."""
    quoted = ", ".join(f'"{word}"' for word in words)
    return Accepted(
        (str,),
        quoted if len(words) == 1 else f"{{{quoted}}}",
        repr(words[0]) if len(words) == 1 else f"one of {', '.join(words)}",
        lambda value: isinstance(value, str) and value in words,
        str,
        words,
    )


def accept_switch() -> Accepted:
    """Accept true or false, of Python or of numpy."""
    return Accepted(
        (bool,),
        "bool",
        "True or False",
        lambda value: isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool",
        bool,
    )


def accept_any(shown: str, *kinds: Any) -> Accepted:
    """Accept what the method itself checks; a job file may give values of some kinds."""
    return Accepted(kinds, shown, shown, lambda value: True, lambda value: value)  # noqa: ARG005


@dataclass(frozen=True)
class Parameter:
    """One parameter of an estimator.

    Parameters
    ----------
    text : str
        What it means, as docstrings and reference pages say it.
    accepts : Accepted, or tuple of them
    optional : bool
        Whether None stands for "not given"; a job file leaves it out then.
    elsewhere : str
        Where a job file gives it, if not among the parameters of the method.
    action : str
        What to do about a value that is not accepted, if that is not clear.
    """

    text: str
    accepts: Accepted | tuple[Accepted, ...]
    optional: bool = False
    elsewhere: str = ""
    action: str = ""

    @property
    def choices(self) -> tuple[Accepted, ...]:
        """What it takes, one after the other."""
        return self.accepts if isinstance(self.accepts, tuple) else (self.accepts,)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """Types that a job file may give."""
        return tuple(dict.fromkeys(kind for one in self.choices for kind in one.kinds))

    @property
    def words(self) -> tuple[str, ...]:
        """Words that it takes."""
        return tuple(word for one in self.choices for word in one.words)

    @property
    def shown(self) -> str:
        """What it takes, for docstrings."""
        alternatives = list(dict.fromkeys(one.shown for one in self.choices))
        return _listed(alternatives) + (", optional" if self.optional else "")

    @property
    def needed(self) -> str:
        """What it takes, for errors."""
        return _listed([one.needed for one in self.choices])

    def takes(self, value: Any) -> bool:
        """Whether a value is accepted, as far as that does not depend on data."""
        if value is None:
            return self.optional
        return any(one.takes(value) for one in self.choices)

    def convert(self, value: Any) -> Any:
        """An accepted value, as Python's own type."""
        first = next((one for one in self.choices if one.takes(value)), None)
        return value if value is None or first is None else first.convert(value)

    def but(self, text: str, **changes: Any) -> Parameter:
        """The same parameter with other words."""
        return replace(self, text=text, **changes)


def check_parameters(declared: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Values as Python's own types; refuses what no data could make right."""
    own = {name: (one, given[name]) for name, one in declared.items()}
    for name, (parameter, value) in own.items():
        if not parameter.takes(value):
            raise ParameterError(
                f"{name}={_in_short(value)}.",
                sentence(parameter.needed, " is needed, or None." if parameter.optional else ""),
                parameter.action or f"Give {name} another value.",
            )
    return {name: parameter.convert(value) for name, (parameter, value) in own.items()}


def with_parameters(text: str, declared: Mapping[str, Parameter]) -> str:
    """A docstring with a section on parameters, before its other sections."""
    lines = ["", "", "Parameters", "----------"]
    for name, one in declared.items():
        lines.append(f"{name} : {one.shown}")
        said = textwrap.wrap(one.text, _WIDTH, break_on_hyphens=False)
        lines += [f"    {line}" for line in said]
    text = inspect.cleandoc(text)
    section = _SECTION.search(text)
    place = len(text) if section is None else section.start()
    return text[:place] + "\n".join(lines) + text[place:]


def sentence(needed: str, end: str = "") -> str:
    """The second part of an error from what is needed."""
    return f"{needed[0].upper()}{needed[1:]}{end or ' is needed.'}"


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _in_short(value: Any) -> str:
    """A setting; of what may hold data only the type."""
    if value is None or isinstance(value, (str, bool, numbers.Number)):
        text = repr(value)
        return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return f"a {type(value).__name__}"


def _listed(parts: list[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


N_FEATURES = Parameter(
    "A number, or a share of all features. The default 10 keeps all if there are fewer.",
    (accept_whole(), accept_share()),
    action="Give the number of features to keep; this method cannot decide it by itself.",
)
N_FEATURES_OR_AUTO = Parameter(
    N_FEATURES.text, (accept_words("auto"), accept_whole(), accept_share())
)
N_FEATURES_OR_FDR = N_FEATURES.but(
    f"{N_FEATURES.text} ``fdr`` keeps all features whose q-value is at most ``fdr``; there may be "
    "none.",
    accepts=(accept_words("fdr"), accept_whole(), accept_share()),
    action="Give the number of features to keep, or 'fdr'.",
)
FDR = Parameter(
    "With ``n_features_to_select='fdr'``: the largest expected share of features among the "
    "selected ones that tell nothing of the label (Benjamini and Hochberg's procedure).",
    accept_share(below=True),
    action="0.05 and 0.1 are usual.",
)
HE = Parameter(
    "Encryption; ``auto`` takes BGV, the faster one.", accept_words("auto", "bgv", "paillier")
)
EPSILON = Parameter(
    "Differential privacy: all that a party reveals about one row stays within this budget.",
    accept_number(1e-6, 1_000_000),
    optional=True,
    action="Values between 0.1 and 10 are usual; smaller ones protect more.",
)
DELTA = Parameter(
    "0 for pure differential privacy; a tiny one allows for less noise with many features.",
    accept_number(1e-100, 0.999999, zero=True),
    action="Use 0, or something far smaller than one by the number of rows, such as 1e-6.",
)
COMMON = {
    "checkpoint": Parameter(
        "Directory in which every party keeps its own state while the run goes on. If it holds an "
        "interrupted run of the same job, ``fit`` continues there.",
        accept_any("path"),
        optional=True,
        elsewhere="checkpoint in [runtime]",
    ),
    "parties": Parameter(
        "How to split arrays; ignored when ``fit`` gets a federation.",
        accept_any("int or list of column lists"),
        elsewhere="parties in [data], or as [[party]] entries",
    ),
    "security": Parameter(
        "``plain`` runs the same protocol without encryption, for comparison only.",
        accept_words("secure", "plain"),
    ),
    "policy": Parameter(
        "What parties allow: one policy for all of them, or one for each.",
        accept_any("Policy, or dict of party to Policy"),
        optional=True,
        elsewhere="policy of a [[party]]",
    ),
    "random_state": Parameter(
        "Seeds the simulated split and, in one process, what parties draw; between organisations "
        "that never follows a seed.",
        accept_any("int or RandomState"),
        optional=True,
        elsewhere="seed in [job]",
    ),
}
"""Parameters that every estimator has; a method may describe them in words of its own."""
PYTHON_ONLY = "Python"
"""Stands for the place of a parameter that no job file can give."""
