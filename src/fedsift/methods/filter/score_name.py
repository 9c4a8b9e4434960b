# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A parameter called ``score`` on an estimator that also needs a method called ``score``.

scikit-learn takes ``estimator.score`` for a method wherever it finds one (``Pipeline.score``,
``GridSearchCV`` without ``scoring``). The filter's ``score`` is the name of a statistic. It is kept
as a string that can also be called as ``score(X, y)``, so both readings work.
"""

from __future__ import annotations

import weakref
from typing import Any


class ScoreName(str):
    """The name of a score; called, it evaluates the fitted selector it belongs to."""

    _owner: weakref.ref[Any] | None = None

    def __call__(self, X, y=None):
        """Mean score of the selected features on other rows; higher is better."""
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            raise TypeError(f"{str(self)!r} does not belong to an estimator")
        return owner._score_rows(X, y)

    def __deepcopy__(self, memo):
        # clone() demands that the constructor keeps the very object it gets.
        return ScoreName(self)

    def __reduce__(self):
        return ScoreName, (str(self),)


class ScoreParameter:
    """Descriptor that stores the given name and hands it out bound to its estimator."""

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        name = instance.__dict__["score"]
        if isinstance(name, ScoreName):
            name._owner = weakref.ref(instance)
        return name

    def __set__(self, instance, value):
        if isinstance(value, ScoreName):
            # Another estimator's name is copied; the own one, or a clone's, is kept as it is.
            taken = value._owner is not None and value._owner() is not instance
            value = ScoreName(value) if taken else value
        elif isinstance(value, str):
            value = ScoreName(value)
        instance.__dict__["score"] = value
