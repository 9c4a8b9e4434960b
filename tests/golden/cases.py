# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The runs whose results are stored: every method, small data, fixed seeds.

They use what a user can call and nothing else, so that they stay as they are while the package's
modules are moved and renamed. Only :func:`run_at_sites` and :func:`repeat_noise` need inner
modules.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import fedsift as fs
from fedsift.cli import app
from fedsift.methods.registry import joint_declarations, list_methods
from fedsift.testing.draws import let_seeds_drive_everything

Run = Callable[[], dict[str, Any]]

N_ROWS = 66
COLUMNS = {
    "bank": ["income", "age", "debt"],
    "shop": ["visits", "spend"],
    "store": ["clicks", "hours"],
    "mill": ["orders", "region"],
}
NUMBERS = [name for names in COLUMNS.values() for name in names if name != "region"]
MEMBERS = {"north": slice(20), "south": slice(20, 40), "west": slice(40, None)}

# Federations


def make_people() -> pd.DataFrame:
    """Rounded columns of falling relevance, one column of words, and two labels."""
    rng = np.random.default_rng(20)
    paid = rng.permutation(np.arange(N_ROWS) % 2)
    frame = pd.DataFrame({"id": [f"person-{number:02d}" for number in range(N_ROWS)]})
    for place, name in enumerate(NUMBERS):
        frame[name] = np.round(rng.normal(size=N_ROWS) + (1.6 - 0.2 * place) * paid, 2)
    frame["region"] = np.array(["north", "south", "west"])[(paid + rng.integers(0, 2, N_ROWS)) % 3]
    frame["paid"] = np.where(paid == 1, "yes", "no")
    frame["amount"] = np.round(3 * paid + rng.normal(size=N_ROWS), 2)
    return frame


PEOPLE = make_people()


def by_columns(columns=NUMBERS, label="paid") -> fs.Federation:
    """Four parties that know different things about the same people."""
    owned = {p: [name for name in own if name in columns] for p, own in COLUMNS.items()}
    tables = {party: PEOPLE[own] for party, own in owned.items() if own}
    return fs.Federation.vertical(tables, ("bank", PEOPLE[label]))


def by_rows(columns=NUMBERS, label="paid") -> fs.Federation:
    """Three parties that know the same things about different people."""
    table = PEOPLE[[*columns, *([label] if label else [])]]
    return fs.Federation.horizontal({p: table.iloc[own] for p, own in MEMBERS.items()}, label)


def with_words(federation) -> Callable[[], fs.Federation]:
    return partial(federation, [*NUMBERS, "region"])


# Ways to run

OPENED = ("embedding-gradients", "gate-start", "layer-outputs", "single-layer-outputs")
LEAVE = {
    "may_reveal": sorted(
        {
            declaration.kind
            for method in list_methods()
            for _, declaration in method.declarations()
            if not declaration.optional or declaration.kind in OPENED
        }
        | {declaration.kind for declaration in joint_declarations()}
    ),
    "min_security_bits": 0,
    "min_bin_size": 1,
}
"""A policy of what any method needs, and of what the paper's FedSDG-FS opens of single rows."""


def fit(selector: str, federation: Callable[[], fs.Federation], *given, **options) -> Run:
    """An estimator, given a federation."""

    def run():
        fitted = getattr(fs, selector)(*given, **{"random_state": 1} | options).fit(federation())
        return json.loads(fitted.result_.to_json())

    return run


def repeat_noise(run: Run) -> Run:
    """A run whose noise follows the seed, which it never does outside tests."""

    def repeated():
        with let_seeds_drive_everything():
            return run()

    return repeated


def fit_chain(federation: Callable[[], fs.Federation], *steps, **options) -> Run:
    """A chain of estimators, each given as its name and options."""

    def run():
        return fit("Chain", federation, [getattr(fs, s)(**own) for s, own in steps], **options)()

    return run


def run_job(setting: str, *steps: tuple[str, dict[str, Any]]) -> Run:
    """``fedsift run`` with a job on the parties' own tables; what it writes down."""

    def run():
        with tempfile.TemporaryDirectory() as name:
            path, out = write_job(Path(name), setting, steps), Path(name) / "out"
            ran = CliRunner().invoke(app, ["run", str(path), "--out", str(out), "--quiet"])
            if ran.exit_code:
                raise RuntimeError(ran.output) from ran.exception
            return json.loads((out / "result.json").read_text(encoding="utf-8"))

    return run


def run_at_sites(setting: str, *steps: tuple[str, dict[str, Any]]) -> Run:
    """The same job with every party at a site of its own; sites are threads of this process.

    There is no public way to do this, so inner modules are named here, and nowhere else.
    """

    def run():
        from fedsift.cli.prepare import prepare, read_job
        from fedsift.jobs.run import run_joint
        from helpers.joint import at_sites

        with tempfile.TemporaryDirectory() as name:
            ready = prepare(read_job(write_job(Path(name), setting, steps)))
        script = run_joint
        with let_seeds_drive_everything():  # between organisations private draws never do
            coordinator, ended = at_sites(ready.joint, ready.local_parties, script)
        for end in ended.values():
            if end.error is not None:
                raise end.error
        return json.loads(ended[coordinator].value.to_json())

    return run


def write_job(folder: Path, setting: str, steps) -> Path:
    """A job file, and every party's own table: in an order of its own, and with rows missing."""
    lines = ["[job]", "seed = 5"]
    for method, options in steps:
        lines += (
            [f'method = "{method}"', "[method]"]
            if len(steps) == 1
            else ["[[step]]", f'method = "{method}"']
        )
        lines += [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    lines += ["[data]", f'setting = "{setting}"']
    if setting == "vertical":
        lines += ['id = "id"', 'label = { party = "bank", column = "paid" }']
        tables = {
            party: PEOPLE.drop(index=[7 * place, 7 * place + 1])
            .sample(frac=1, random_state=place)
            .get(["id", *(n for n in own if n in NUMBERS), *(["paid"] if party == "bank" else [])])
            for place, (party, own) in enumerate(COLUMNS.items())
        }
    else:
        lines.append('label = "paid"')
        tables = {party: PEOPLE[[*NUMBERS, "paid"]].iloc[own] for party, own in MEMBERS.items()}
    for party, table in tables.items():
        table.to_csv(folder / f"{party}.csv", index=False)
        lines += ["[[party]]", f'name = "{party}"', f'data = "{party}.csv"']
        if any("protocol" in options for _, options in steps):
            lines += ["[party.policy]", *(f"{k} = {json.dumps(v)}" for k, v in LEAVE.items())]
    path = folder / "job.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


# The cases

PLAIN = {"security": "plain"}
PAILLIER = {"he": "paillier"}
THREE = {"n_features_to_select": 3}
EDGES = {"bins": [-1.0, 0.0, 1.0]}
ANY_NUMBER = LEAVE | {
    "may_reveal": [*LEAVE["may_reveal"], "numeric-scores"],
    "min_class_size": 1,
}
"""A policy without a limit on products, so that few rows do for shuffled labels."""
PAIRED = PLAIN | {
    "policy": {
        "may_reveal": [
            *("row-count", "feature-count", "query-rows", "stop-depths", "sub-rankings"),
            *("common-neighbours", "tie-depths", "candidates", "test-groups", "paired-groups"),
            "participant-choice",
        ],
        "min_security_bits": 0,
    }
}
VFPS = {
    "n_participants": 2,
    "n_queries": 4,
    "n_groups": 6,
    "strategy": "group-testing",
    "design": "separate",
    "keep_own": False,
    "scaling": "columns",
}
NETWORK = {
    "protocol": "paper",
    "max_epochs": 2,
    "min_epochs": 1,
    "embedding": 2,
    "outputs": 2,
    "batch_size": 32,
    "min_batches": 1,
}
TRAINING = NETWORK | {"gates": "none", "init": "constant"}
DCFS = THREE | {"n_components": 2, "n_dimensions": 3}
BY_PARTY = ("schema", "local-subset", "unnamed-subsets", "accuracies", "selection")
POOLED = ("schema", "pooled-sums", "pooled-moments", "known-anchor-images", "alignment",
          "pooled-scores", "selection")  # fmt: skip
SWARM = {"n_particles": 4, "n_iterations": 3, "n_rounds": 2}

GINI = ("filter", THREE | {"score": "gini"})
MI = ("filter", THREE | {"score": "mi"})
STEPS = (
    ("vfps", VFPS | PLAIN | {"n_participants": 3}),
    ("filter", PLAIN | {"n_features_to_select": 4}),
    ("interaction", PLAIN | THREE),
    ("train", PLAIN | NETWORK),
    ("predict", {"rows": "held-out", "share": 0.25}),
)

filtering = partial(fit, "FilterSelector", **THREE)
interacting = partial(fit, "InteractionSelector", by_columns, **THREE)


def adding(federation=by_columns, **options) -> Run:
    """Stepwise selection."""
    return fit("StepwiseSelector", federation, **THREE | options)


valuing = partial(fit, "VFPSSelector", by_columns, **VFPS)
training = partial(fit, "FedSDGSelector", policy=fs.Policy(**LEAVE), **NETWORK)
blind = partial(
    fit,
    "FedSDGSelector",
    partial(by_columns, ["income", "age", "visits", "spend"]),
    max_epochs=3,
    outputs=2,
    min_batches=2,
    n_features_to_select=2,
)
aligning = partial(fit, "DCFSSelector", partial(by_rows, label=None), **DCFS)
swarming = partial(fit, "FPSOSelector", by_rows)


def filter_cases() -> dict[str, Run]:
    """Every score, in both settings, plain and protected."""
    cases = {}
    for score in ("gini", "f", "mi", "chi2", "iv", "variance"):
        for where, federation in (("vertical", by_columns), ("horizontal", by_rows)):
            tables = federation if score in ("f", "variance") else with_words(federation)
            cases[f"{score} {where} secure"] = filtering(tables, score)
            if where == "vertical" or score in ("gini", "f"):
                cases[f"{score} {where} plain"] = filtering(tables, score, **PLAIN)
    for score in ("gini", "f", "mi"):
        cases[f"{score} vertical paillier"] = filtering(by_columns, score, **PAILLIER)
    noisy, drawn = EDGES | {"epsilon": 2.0}, EDGES | {"release_epsilon": 2.0}
    return cases | {
        "f of numbers": filtering(partial(by_columns, label="amount"), "f"),
        "gini with counts": filtering(by_columns, "gini", disclose="counts"),
        "gini vertical noisy": repeat_noise(filtering(by_columns, "gini", **noisy)),
        "mi vertical drawn": repeat_noise(filtering(by_columns, "mi", **drawn)),
        "mi horizontal noisy": repeat_noise(filtering(by_rows, "mi", **noisy)),
    }


CASES: dict[str, dict[str, Run]] = {
    "filter": filter_cases(),
    "interaction": {
        "plain": interacting(**PLAIN),
        "secure": interacting(n_features_to_select=2),
        "paper plain": interacting(measure="paper", **PLAIN),
        "auto plain": interacting(n_features_to_select="auto", **PLAIN),
    },
    "stepwise": {
        "plain": adding(**PLAIN),
        "secure": adding(n_features_to_select=2),
        "paillier": adding(
            partial(by_columns, ["income", "visits"]), n_features_to_select=1, **PAILLIER
        ),
        "words plain": adding(with_words(by_columns), keep_own=False, **PLAIN),
        "numbers plain": adding(partial(by_columns, label="amount"), **PLAIN),
        "auto plain": adding(n_features_to_select="auto", policy=fs.Policy(**ANY_NUMBER), **PLAIN),
        "fdr plain": adding(n_features_to_select="fdr", fdr=0.5, **PLAIN),
        "horizontal": adding(by_rows),
    },
    "vfps": {
        "plain": valuing(**PLAIN),
        "secure": valuing(),
        "paillier": valuing(**PAILLIER),
        "greedy plain": valuing(strategy="greedy", **PAIRED),
        "shared plain": valuing(design="shared", **PAIRED),
        "unbatched plain": valuing(design="shared", fagin=False, batching=False, **PAIRED),
    },
    "fedsdg": {
        "plain": training(with_words(by_columns), **PLAIN),
        "secure": training(with_words(by_columns)),
        "linear paillier": training(
            partial(by_columns, ["income", "visits"]), model="linear", init="constant", **PAILLIER
        ),
        "refitted plain": training(by_columns, refit=True, **PLAIN),
        "eliminating plain": training(by_columns, **THREE, **PLAIN, gates="none", init="constant"),
        "blind plain": blind(**PLAIN),
        "blind secure": blind(),
    },
    "dcfs": {
        "plain": aligning(**PLAIN),
        "secure": aligning(),
        "open": aligning(alignment="open", target="paper"),
        "local": aligning(alignment="local"),
        "pooled": aligning(scale="pooled", policy=fs.Policy(may_reveal=POOLED)),
    },
    "fpso": {
        "plain": swarming(**SWARM, **PLAIN),
        "secure": swarming(**SWARM),
        "third party": swarming(
            aggregation="third-party",
            integration="max-min",
            policy=fs.Policy(may_reveal=BY_PARTY, min_security_bits=0),
            **SWARM,
        ),
        "federated fitness": swarming(mode="federated-fitness", **SWARM),
        "noisy votes": repeat_noise(swarming(n_blocks=2, epsilon=2.0, **THREE)),
    },
    "chain": {
        "vertical plain": fit_chain(
            by_columns,
            ("VFPSSelector", VFPS | PLAIN | {"n_participants": 3}),
            ("FilterSelector", PLAIN | {"score": "f", "n_features_to_select": 4}),
            ("InteractionSelector", PLAIN | THREE),
            ("FedSDGSelector", PLAIN | TRAINING),
            held_out=0.25,
            policy=fs.Policy(**LEAVE),
        ),
        "vertical secure": fit_chain(
            by_columns,
            ("FilterSelector", THREE),
            ("FedSDGSelector", TRAINING),
            held_out=0.25,
            policy=fs.Policy(**LEAVE),
        ),
        "horizontal secure": fit_chain(
            by_rows,
            ("FilterSelector", {"score": "mi", "n_features_to_select": 5}),
            ("FPSOSelector", SWARM),
        ),
    },
    "job": {
        "filter vertical": run_job("vertical", GINI),
        "filter horizontal": run_job("horizontal", MI),
        "interaction": run_job("vertical", ("interaction", THREE | PLAIN)),
        "stepwise": run_job("vertical", ("stepwise", THREE | PLAIN)),
        "vfps": run_job("vertical", ("vfps", VFPS | PLAIN)),
        "fedsdg": run_job("vertical", ("fedsdg", NETWORK | PLAIN)),
        "dcfs": run_job("horizontal", ("dcfs", DCFS)),
        "fpso": run_job("horizontal", ("fpso", SWARM)),
        "steps": run_job("vertical", *STEPS),
    },
}

SITES: dict[str, Run] = {
    "filter vertical": run_at_sites("vertical", GINI),
    "filter horizontal": run_at_sites("horizontal", MI),
    "steps": run_at_sites("vertical", *STEPS),
}
"""Cases of ``job`` once more; what is stored of those holds for these too."""
