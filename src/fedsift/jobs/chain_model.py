# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a training in a chain leaves at a site: the parts of the model that belong there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsift.data.state_files import State
from fedsift.methods.fedsdg import model_files as files
from fedsift.methods.fedsdg.messages import Params
from fedsift.protocol import Role


@dataclass(frozen=True, eq=False, repr=False)
class ChainModel:
    """Parts of a trained model.

    Parameters
    ----------
    params : Params
        Of the training.
    coordinator : str
        The label holder.
    parts : mapping of party to state
        Of the parties at home.
    columns : mapping of party to names
        Features in the model, of all parties; known at the coordinator.
    """

    params: Params
    coordinator: str
    parts: Mapping[str, State]
    columns: Mapping[str, tuple[str, ...]]

    def save(self, directory: Path) -> None:
        """Write a file per party at home; the coordinator also writes the header for all of them.

        Where all files of a model are in one folder, ``FedSDGSelector.load`` reads it.
        """
        parts, classes = dict(self.parts), None
        if self.coordinator not in parts:
            files.write_parts(directory, parts)
            return
        known = parts[self.coordinator]
        if known["classes"]:
            labels = np.array(known["classes"])
            order = np.argsort(labels, kind="stable")
            classes = labels[order]
            parts[self.coordinator] = known | {"class_order": order.tolist()}
        places: dict[str, tuple[int, ...]] = {}
        n_columns = 0
        for party, names in self.columns.items():
            places[party] = tuple(range(n_columns, n_columns + len(names)))
            n_columns += len(names)
        layout = files.Layout(self.coordinator, places, None, from_federation=True)
        files.write_model(directory, self.params, parts, layout, classes, tuple(self.columns))


def parts_of_model(nodes: Mapping[str, Sequence[Role]]) -> dict[str, State]:
    """Parts of a trained model that belong to the parties here, if the method leaves one."""
    return {
        party: role.part_state()
        for party, roles in nodes.items()
        for role in roles
        if hasattr(role, "part_state")
    }
