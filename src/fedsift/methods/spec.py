# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a method is: one :class:`MethodSpec` per package, and nothing about it anywhere else.

A specification holds plain data and addresses (``"module:name"``), so that reading it imports
nothing. :mod:`fedsift.methods.registry` finds the specifications and imports by their addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsift.config.parameters import Parameter
    from fedsift.result import SelectionResult

Text = Callable[["SelectionResult"], str] | str
"""A text, or a function that writes it for one result."""


@dataclass(frozen=True)
class Missing:
    """Something that a method does not have, and the reason."""

    reason: str


@dataclass(frozen=True)
class Demo:
    """A job that shows the method within seconds.

    Parameters
    ----------
    setting : str
    parameters : mapping
    n_parties : int
    """

    setting: str
    parameters: Mapping[str, Any]
    n_parties: int = 3


@dataclass(frozen=True)
class Attacks:
    """Known attacks on a method.

    Parameters
    ----------
    suite : str
        Address of a tuple of :class:`~fedsift.lab.attacks.attack.Attack`, on generated data.
    on_run : str
        Address of a function that mounts these attacks on a recorded run of a job.
    curious : str, optional
        Address of a mapping from kinds of roles to their curious twins, which note what they see.
    needs_frames : bool
        Whether ``on_run`` reads the bytes of all messages; those of a training fill the memory.
    """

    suite: str
    on_run: str
    curious: str | None = None
    needs_frames: bool = True


@dataclass(frozen=True)
class Pooled:
    """What the method would select if all data lay open.

    Parameters
    ----------
    select : str
        Address of a function of a federation, parameters and a seed; returns a mask of features in
        the order of the original columns.
    unless : mapping
        Parameters for which there is no answer.
    """

    select: str
    unless: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """How the method trains the model of a ``train`` step.

    Parameters
    ----------
    settings : mapping
        Parameters that make a run a training, in which nothing is selected.
    without : tuple of str
        Parameters that decide on a selection, and mean nothing in a training.
    """

    settings: Mapping[str, Any]
    without: tuple[str, ...]


@dataclass(frozen=True)
class ReportTexts:
    """What a report says about results of the method.

    Parameters
    ----------
    score : Text
        What a score is, after "The score is"; may be empty.
    no_errors : Text
        Why scores have no standard errors, where they have none.
    course : str
        A sentence above the charts of the run.
    why : Text
        Replaces the sentences about the score and the cut, if it is not empty.
    cut : Text
        Where the cut is, if the method decides by itself how many features it keeps.
    found_in : Text
        Which subsets a search counts, where a result tells in how many of ``{n_subsets}`` a
        feature was.
    tested : str
        What p-values are of, after "how likely".
    worth : str
        What a participant's number is called.
    phases : mapping of phase to str
        Phases of the timings that have another name than usual.
    """

    score: Text = ""
    no_errors: Text = ""
    course: str = ""
    why: Text = ""
    cut: Text = "The method decided by itself how many to keep."
    found_in: Text = "{n_subsets} subsets"
    tested: str = "such a score"
    worth: str = "importance"
    phases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """All that fedsift knows of a method. No field has a default: what is not there has a reason.

    Parameters
    ----------
    name : str
        As in job files.
    summary : str
        One sentence.
    selects : {"features", "participants"}
    selector : str
        Address of the estimator.
    protocols : mapping of setting to str
        Address of the protocol for each setting that the method works in.
    parameters : mapping of name to Parameter
        Parameters of the constructor; those that every estimator has
        (:data:`~fedsift.config.parameters.COMMON`) only if they are described in other words.
    packages : tuple of str
        Optional packages, as installers name them, without which the method does not run.
    neutral : mapping of setting to str
        Name of the party without data that takes part; a horizontal method always has one.
    cost_model : str or Missing
        Address of a function of an estimator, a federation and the ``params`` of a prepared run;
        returns an :class:`~fedsift.costs.counts.Expected`.
    texts : str or Missing
        Address of the :class:`ReportTexts`.
    pooled : Pooled or Missing
    demo : Demo or Missing
    attacks : Attacks or Missing
    training : Training or Missing
    without_label : mapping or Missing
        Parameters with which the method needs no label.
    """

    name: str
    summary: str
    selects: str
    selector: str
    protocols: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    packages: tuple[str, ...]
    neutral: Mapping[str, str]
    cost_model: str | Missing
    texts: str | Missing
    pooled: Pooled | Missing
    demo: Demo | Missing
    attacks: Attacks | Missing
    training: Training | Missing
    without_label: Mapping[str, Any] | Missing
