"""Three organisations with tables for both settings, and one small job per method."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from fedsift.deploy.kits import PartyData
from fedsift.methods.registry import method_named

PARTIES = ("bank", "shop", "clinic")
N_CUSTOMERS = 72

METHODS = {
    "filter": {"score": "gini", "n_features_to_select": 3},
    "interaction": {"n_features_to_select": 2},
    "vfps": {"n_participants": 2, "n_queries": 8},
    "fedsdg": {
        "protocol": "paper",
        "n_features_to_select": 4,
        "embedding": 2,
        "outputs": 2,
        "max_epochs": 1,
        "min_epochs": 1,
        "batch_size": 64,
    },
    "filter-horizontal": {"score": "mi", "n_features_to_select": 2},
    "dcfs": {"n_features_to_select": 2, "n_components": 2},
    "fpso": {"n_particles": 4, "n_iterations": 2, "n_rounds": 1},
}
# With so few participants VF-PS needs a disclosure that is optional elsewhere.
KINDS = {declaration.kind for _, declaration in method_named("vfps").declarations()}
# The paper's FedSDG-FS opens numbers of single rows, which policies have to name too.
OPENED = ("basic", "common-ids", "training", "paper-training")
NEEDED = {
    declaration.kind
    for method in ("filter", "interaction")
    for _, declaration in method_named(method).declarations()
    if not declaration.optional
}
POLICIES = {
    "vfps": {"may_reveal": sorted({*KINDS, "basic", "common-ids"})},
    "fedsdg": {"may_reveal": list(OPENED)},
    "vertical": {"may_reveal": sorted({*NEEDED, *OPENED})},
    # Organisations merge small cells; parties in one process do so where they have a policy.
    "filter-horizontal": {"min_class_size": 5},
    "horizontal": {"min_class_size": 5},
}
BLIND = {"n_features_to_select": 4, "outputs": 2, "max_epochs": 1, "batch_size": 64}
CHAINS = {
    "vertical": (
        {"method": "filter", "score": "gini", "n_features_to_select": 6},
        {"method": "interaction", "n_features_to_select": 5},
        {"method": "fedsdg"} | METHODS["fedsdg"],
        {"method": "train"} | {k: v for k, v in METHODS["fedsdg"].items() if "features" not in k},
        {"method": "predict", "share": 0.2},
    ),
    "horizontal": (
        {"method": "filter", "score": "mi", "n_features_to_select": 3},
        {"method": "dcfs", "n_features_to_select": 3, "n_components": 2},
        {"method": "fpso"} | METHODS["fpso"],
    ),
}
"""Chained jobs: what every method needs of a federation, with few processes to start."""

HORIZONTAL = ("filter-horizontal", "dcfs", "fpso")


class Tables:
    """Files of the organisations: other columns of common customers, or other rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(5)
        y = np.arange(N_CUSTOMERS) % 2
        for place, party in enumerate(PARTIES):
            own = {
                f"{party}_{k}": y * (1.5 - 0.4 * k - 0.3 * place) + rng.normal(size=N_CUSTOMERS)
                for k in range(3)
            }
            frame = pd.DataFrame({"customer": [f"C{n}" for n in range(N_CUSTOMERS)], **own})
            if party == "shop":
                frame["region"] = rng.choice(["north", "south"], N_CUSTOMERS)
            if party == "bank":
                frame["default"] = np.where(y == 1, "yes", "no")
            # Everybody lacks other customers, and lists its own in another order.
            kept = np.delete(np.arange(N_CUSTOMERS), np.arange(4) + 20 * place)
            frame.iloc[rng.permutation(kept)].to_csv(self.columns(party), index=False)
        X = rng.normal(size=(N_CUSTOMERS, 4)) + np.linspace(1.4, 0, 4) * y[:, None]
        pooled = pd.DataFrame(X, columns=list("abcd")).assign(
            region=rng.choice(["north", "south"], N_CUSTOMERS),
            default=np.where(y == 1, "yes", "no"),
        )
        for place, party in enumerate(PARTIES):
            pooled.iloc[place * 24 : (place + 1) * 24].to_csv(self.rows(party), index=False)

    def columns(self, party: str) -> Path:
        return self.folder / f"{party}.csv"

    def rows(self, party: str) -> Path:
        return self.folder / f"{party}_rows.csv"

    def data(self, party: str, *, horizontal: bool) -> PartyData:
        """What an organisation writes into its settings."""
        if horizontal:
            return PartyData(self.rows(party), label="default")
        label = "default" if party == "bank" else None
        return PartyData(self.columns(party), ("customer",), label)

    def job(self, name: str, parties=PARTIES, policy=None, **sections) -> Path:
        """The job file of a method, for either engine; keywords change sections."""
        method, _, _ = name.partition("-")
        horizontal = name in HORIZONTAL
        data = {"setting": "horizontal", "label": "default"}
        if not horizontal:
            label = {"party": "bank", "column": "default"}
            data = {"setting": "vertical", "label": label, "id": "customer"}
        content = {
            "job": {"method": method, "seed": 11, "timeout_seconds": 300},
            "data": data,
            "method": METHODS[name],
        }
        content |= sections
        lines = []
        for section, entries in content.items():
            lines += [
                f"[{section}]",
                *(f"{key} = {_toml(value)}" for key, value in entries.items()),
            ]
        policy = policy or POLICIES.get(name)
        for party in parties:
            file = self.rows(party) if horizontal else self.columns(party)
            lines += ["[[party]]", f'name = "{party}"', f'data = "{file.name}"']
            if policy:
                lines.append(f"policy = {_toml(policy)}")
            if method != "filter":
                # Only filters take categories.
                numeric = list("abcd") if horizontal else [f"{party}_{k}" for k in range(3)]
                lines.append(f"columns = {_toml(numeric)}")
        return self._write(name, lines)

    def chained(self, setting: str) -> Path:
        """The job file of a chain, for either engine."""
        method = "dcfs" if setting == "horizontal" else "interaction"
        job = self.job(method, policy=POLICIES.get(setting))
        before, _, after = job.read_text(encoding="utf-8").partition("[method]")
        lines = [before.replace(f'method = "{method}"\n', "")]
        lines.append(after[after.index("[[party]]") :])
        for step in CHAINS[setting]:
            lines += ["[[step]]", *(f"{key} = {_toml(value)}" for key, value in step.items())]
        return self._write(f"{setting}-chain", lines)

    def _write(self, name: str, lines: list[str]) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + " }"
    return json.dumps(value)
