# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What feature holders of both protocols do alike: rows, the filter's scores, the selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.state_files import State
from fedsift.data.table import PartyTable
from fedsift.errors import AlignmentError, ParameterError
from fedsift.methods.fedsdg.blind.messages import BlindStart
from fedsift.methods.fedsdg.messages import Chosen, TrainingStart
from fedsift.methods.fedsdg.row_splits import Rows
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter import messages as filter_messages
from fedsift.protocol import Network, handles
from fedsift.protocol.resume import Resumable

Floats = npt.NDArray[np.float64]


class GatedHolder(Resumable):
    """A feature holder whose gates may start from scores of the Gini filter."""

    _table: PartyTable
    _saved: State
    _gini: filters.FeatureHolder | None = None
    _features: Rows = np.empty(0, dtype=np.int64)
    _gate_means: Floats | None = None

    def _agreed_rows(self, ask: TrainingStart | BlindStart) -> list[Rows]:
        """Rows that train and that validate, checked against the own table and checkpoint."""
        n_rows = self._table.n_rows
        rows = [part.array() for part in (ask.training, ask.validation)]
        together = np.concatenate(rows)
        if (
            ask.n_rows != n_rows
            or together.dtype != np.int64
            or not np.array_equal(np.sort(together), np.arange(n_rows))
        ):
            raise AlignmentError(
                f"The label holder has {ask.n_rows} rows and splits {len(together)} of them; this "
                f"party has {n_rows}.",
                "Vertical methods need the same rows in the same order at every party.",
                "Align the parties by id first.",
            )
        if (ask.resume_from >= 0) != bool(self._saved):
            raise ParameterError(
                "The label holder continues a training, or begins one, and this party does not.",
                "All parties continue from the same checkpoint.",
                "Start this party with the directory it had before, or train again.",
            )
        return rows

    @handles(filter_messages.Introduction)
    async def offer(self, ask: filter_messages.Introduction, net: Network) -> filter_messages.Offer:
        """Lines 1-2 of Algorithm 1, by the filter."""
        return await self._filter().offer(ask, net)

    @handles(filter_messages.EncryptedLabels)
    async def impurities(
        self, ask: filter_messages.EncryptedLabels, net: Network
    ) -> filter_messages.SealedScores:
        """Lines 3-9, by the filter."""
        with self.clock("evaluate"):
            answer = await self._filter().answer(ask, net)
        assert isinstance(answer, filter_messages.SealedScores)  # noqa: S101 - by its settings
        return answer

    def _filter(self) -> filters.FeatureHolder:
        if self._gini is None:
            raise ParameterError(
                "Labels arrived before the training was announced.",
                "The message that starts a training comes first.",
                "Check that all parties run the same version of fedsift.",
            )
        return self._gini

    def _chosen_numbers(self, told: Chosen) -> Rows:
        """Numbers of the own features that were chosen."""
        numbers = np.array(told.features, dtype=np.int64)
        if (
            len(set(told.features)) != len(numbers)
            or not np.isin(numbers, np.arange(self._table.n_columns)).all()
        ):
            raise ParameterError(
                "The selection names features this party does not have.",
                f"Feature numbers run from 0 to {self._table.n_columns - 1}.",
                "Check that all parties run the same job.",
            )
        return numbers

    def facts(self) -> dict[str, Any]:
        """What this party knows of its own columns; read only where its data is at home."""
        names = self._table.feature_names
        return {
            "names": list(names),
            "selected": [names[i] for i in self._features],
            "gate_means": self._gate_means,
        }


def checked_batch(rows: Rows, allowed: Rows, largest: int) -> Rows:
    """Row numbers of a batch that was asked for; refuses others than those agreed on."""
    if (
        rows.ndim != 1
        or rows.dtype != np.int64
        or not 1 <= len(rows) <= largest
        or len(np.unique(rows)) != len(rows)
        or not np.isin(rows, allowed).all()
    ):
        raise ParameterError(
            f"A batch of {rows.size} rows was asked for that is not part of this step.",
            f"1 to {largest} different rows of those agreed on are needed.",
            "Check that all parties run the same job.",
        )
    return rows
