"""A small bank and a small shop as files, and a way to call the command line on them."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from fedsift.cli import app

N_ROWS = 60

# A number that stands in the tables and may appear in no output.
CELL = 7654321.25


@dataclass
class Outcome:
    """What a command left behind."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def call(*arguments) -> Outcome:
    """Run one command in this process; an unknown error is raised, not swallowed."""
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return Outcome(ran.exit_code, ran.stdout, ran.stderr)


def toml(value) -> str:
    """A TOML value."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items()) + " }"
    return json.dumps(value)


class Workshop:
    """A directory with tables and a job file that can be bent in many ways."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        label = np.arange(N_ROWS) % 2
        ids = [f"C{number}" for number in range(N_ROWS)]
        self.bank = pd.DataFrame(
            {
                "customer_id": ids,
                "income": label + rng.normal(size=N_ROWS),
                "age": rng.normal(40, 5, N_ROWS),
                "default": np.where(label == 1, "yes", "no"),
            }
        )
        self.shop = pd.DataFrame(
            {
                "customer_id": ids,
                "visits": label + 0.1 * rng.normal(size=N_ROWS),
                "spend": rng.normal(size=N_ROWS),
                "region": rng.choice(["north", "south"], N_ROWS),
            }
        )
        self.bank.loc[3, "age"] = self.shop.loc[5, "spend"] = CELL
        self.shop = self.shop.iloc[::-1].reset_index(drop=True)
        self.sections = {
            "job": {"method": "filter", "seed": 7},
            "data": {
                "setting": "vertical",
                "label": {"party": "bank", "column": "default"},
                "id": "customer_id",
            },
            "method": {"score": "gini", "n_features_to_select": 2},
        }
        self.parties = [
            {"name": "bank", "data": "bank.csv"},
            {"name": "shop", "data": "shop.csv"},
        ]

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def write(self, text: str | None = None) -> Path:
        """Write tables and job file; ``text`` replaces the job file."""
        self.bank.to_csv(self.folder / "bank.csv", index=False)
        self.shop.to_csv(self.folder / "shop.csv", index=False)
        path = self.folder / "job.toml"
        path.write_text(self.text() if text is None else text, encoding="utf-8")
        return path

    def text(self) -> str:
        lines = []
        for section, entries in self.sections.items():
            lines += [f"[{section}]", *(f"{k} = {toml(v)}" for k, v in entries.items())]
        for party in self.parties:
            lines += ["[[party]]", *(f"{k} = {toml(v)}" for k, v in party.items())]
        return "\n".join(lines) + "\n"

    def run(self, *options, text: str | None = None) -> Outcome:
        return call("run", self.write(text), "--out", self.out, *options)

    def plan(self, *options) -> Outcome:
        return call("plan", self.write(), *options)
