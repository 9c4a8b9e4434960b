# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A trained FedSDG-FS model on disk: an open header, and one file per party for its owner."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.errors import FileProblem
from fedsift.methods.fedsdg.blind.params import BlindParams
from fedsift.methods.fedsdg.messages import Params
from fedsift.result import write_atomically

AnyParams = Params | BlindParams
"""Settings of a training by either protocol."""

_HEADER = "model.json"
_FORMAT = "fedsift fedsdg model 1"


@dataclass(frozen=True)
class Layout:
    """Which party has which of the original columns."""

    label_holder: str
    column_order: dict[str, tuple[int, ...]]
    names: tuple[str, ...] | None
    from_federation: bool


@dataclass(frozen=True)
class Header:
    """What everybody may know of a model."""

    params: AnyParams
    layout: Layout
    classes: Any

    @property
    def protocol(self) -> str:
        """Of the training."""
        return "blind" if isinstance(self.params, BlindParams) else "paper"


def params_of(settings: Mapping[str, Any]) -> AnyParams:
    """Settings from a file."""
    return BlindParams(**settings) if "n_openings" in settings else Params(**settings)


def write_parts(directory: Path, parts: Mapping[str, Any]) -> None:
    """Write every party's own part, which only its owner can read."""
    from fedsift.data.state_files import part_path, write_state

    for party, part in parts.items():
        write_state(part_path(directory, party), part)


def write_model(
    directory: Path,
    params: AnyParams,
    parts: Mapping[str, Any],
    layout: Layout,
    classes: Any,
    parties: Sequence[str] | None = None,
) -> None:
    """Write the parts that are here and the header, which names ``parties`` or those of the parts.

    The header comes last: where there is one, there is a model.
    """
    write_parts(directory, parts)
    header = {
        "format": _FORMAT,
        "protocol": "blind" if isinstance(params, BlindParams) else "paper",
        "params": asdict(params),
        "layout": asdict(layout),
        "parties": list(parts if parties is None else parties),
        "classes": None if classes is None else classes.tolist(),
        "class_type": None if classes is None else classes.dtype.str,
    }
    write_atomically(directory / _HEADER, json.dumps(header, indent=1) + "\n")


def read_model(directory: Path) -> tuple[Header, dict[str, Any]]:
    """Read the header and the parts of all parties."""
    from fedsift.data.state_files import part_path, read_state

    path = directory / _HEADER
    try:
        header = json.loads(path.read_text())
        if header["format"] != _FORMAT:
            raise KeyError("format")
        layout = dict(header["layout"])
        layout["column_order"] = {p: tuple(o) for p, o in layout["column_order"].items()}
        layout["names"] = None if layout["names"] is None else tuple(layout["names"])
        classes = header["classes"]
        if classes is not None:
            dtype = header["class_type"]
            classes = np.array(classes, dtype=object if dtype.endswith("O") else dtype)
        known = Header(params_of(header["params"]), Layout(**layout), classes)
        parties = list(header["parties"])
    except FileNotFoundError as error:
        raise FileProblem(
            f"There is no {path}.",
            "A directory written by FedSDGSelector.save is needed.",
            "Check the path.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileProblem(
            f"{path} is not the header of a model.",
            f"A file of format {_FORMAT!r} is needed.",
            "Save the model again.",
        ) from error
    return known, {party: read_state(part_path(directory, party)) for party in parties}
