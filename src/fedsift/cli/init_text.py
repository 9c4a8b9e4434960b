# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The text of a new job file, with comments that say what else could stand there."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsift.config.toml_write import toml_value

_MOST_FEATURES = 10
_LONGEST_NAME = 40
_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Draft:
    """What is known of a job that is to be written.

    Parameters
    ----------
    columns : mapping of path to names
        Tables of the parties.
    setting, method : str
    label, id : str, optional
        Columns.
    """

    columns: Mapping[Path, list[str]]
    setting: str
    method: str
    label: str | None = None
    id: str | None = None

    @property
    def names(self) -> dict[str, Path]:
        """A name for every party, after its file."""
        names: dict[str, Path] = {}
        for path in self.columns:
            # As organisations may be called between machines too: "müller & söhne" is muller-sohne.
            bare = unicodedata.normalize("NFKD", path.stem.casefold()).encode("ascii", "ignore")
            stem = _PLAIN.sub("-", bare.decode()).strip("-_")[:_LONGEST_NAME] or "party"
            name, number = stem, 2
            while name in names:
                name, number = f"{stem}-{number}", number + 1
            names[name] = path
        return names

    @property
    def n_features(self) -> int:
        """Columns that are neither id nor label."""
        closed = {self.label, self.id}
        counts = [len([n for n in names if n not in closed]) for names in self.columns.values()]
        return sum(counts) if self.setting == "vertical" else counts[0]

    @property
    def label_party(self) -> str | None:
        """The first party that has the label."""
        has = (name for name, path in self.names.items() if self.label in self.columns[path])
        return next(has, None)


def job_text(draft: Draft, place: Path) -> str:
    """A job file that runs as it is; paths are relative to where it will be."""
    lines = [
        "# A job for fedsift. 'fedsift plan' says who would learn what; 'fedsift run' runs it.",
        "",
        "[job]",
        f"method = {toml_value(draft.method)}",
        "seed = 0                # the same seed, the same selection; leave it out for real runs",
        "",
        *_data(draft),
        "",
        *_method(draft),
        "",
        "# Several steps one after the other: write [[step]] tables instead of both methods, each",
        "# with a method and its parameters (see docs/chains.md).",
        "",
    ]
    for name, path in draft.names.items():
        lines += _party(name, path, draft, place)
    lines += [
        "[runtime]",
        '# engine = "flare"      # between organisations; needs kit = "..." (see docs/deploy.md)',
        '# checkpoint = "kept"   # resume after an interruption with --resume',
        "",
        "[output]",
        f"directory = {toml_value(f'{place.stem}-out')}",
    ]
    return "\n".join(lines) + "\n"


def _data(draft: Draft) -> list[str]:
    lines = ["[data]", f"setting = {toml_value(draft.setting)}"]
    if draft.label is not None and draft.setting == "vertical":
        label = {"party": draft.label_party, "column": draft.label}
        lines.append(f"label = {toml_value(label)}")
    elif draft.label is not None:
        lines.append(f"label = {toml_value(draft.label)}")
    else:
        lines.append('# label = { party = "...", column = "..." }')
    if draft.id is not None:
        lines.append(f"id = {toml_value(draft.id)}")
        if draft.setting == "vertical":
            lines.append("# Rows are matched by it; nobody shows ids that others do not have.")
    elif draft.setting == "vertical":
        lines.append('# id = "..."            # without it all tables need the same rows in order')
    lines.append('# task = "auto"         # or "classification", "regression"')
    lines.append("# categorical = []      # columns of numbers that are categories")
    return lines


def _method(draft: Draft) -> list[str]:
    """What is set, and every other parameter with its default as a comment."""
    from fedsift.methods.registry import method_named
    from fedsift.methods.spec import Missing

    method = method_named(draft.method)
    known = dict(method.parameters)
    chosen: dict[str, Any] = {}
    wanted = known.get("n_features_to_select")
    if isinstance(wanted, int):
        chosen["n_features_to_select"] = max(1, min(_MOST_FEATURES, draft.n_features // 2))
    if draft.label is None and not isinstance(method.without_label, Missing):
        chosen |= method.without_label
    lines = [f"[method]                # {method.summary}"]
    lines += [f"{name} = {toml_value(value)}" for name, value in chosen.items()]
    for name, default in known.items():
        if name not in chosen and isinstance(default, (str, int, float, bool)):
            lines.append(f"# {name} = {toml_value(default)}")
    return lines


def _party(name: str, path: Path, draft: Draft, place: Path) -> list[str]:
    own = [n for n in draft.columns[path] if n not in (draft.label, draft.id)]
    label = draft.setting == "vertical" and draft.label in draft.columns[path]
    if label and name != draft.label_party:
        own_text = f"columns = {toml_value(own)}"
    else:
        own_text = f"# columns = {toml_value(own)}"
    return [
        "[[party]]",
        f"name = {toml_value(name)}",
        f"data = {toml_value(_relative(path, place))}",
        own_text,
        "# policy = { may_not_reveal = [], min_rows = 0 }   # see 'fedsift methods'",
        "",
    ]


def _relative(path: Path, place: Path) -> str:
    """A path as the job file names it, the same on all systems where that is possible."""
    start = place.absolute().parent
    try:
        return Path(os.path.relpath(path.absolute(), start)).as_posix()
    except ValueError:  # another drive
        return path.absolute().as_posix()
