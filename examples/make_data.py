# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write made-up tables into data: customers of a bank and a shop, patients of a clinic and a lab.

Both files of a pair have the same people in different orders, as two organisations would.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from fedsift.data.synthetic import mixed_bank

N_CUSTOMERS = 400
N_PATIENTS = 300
SEED = 20


def write(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    write_customers(folder)
    write_patients(folder)


def write_patients(folder: Path) -> None:
    """Write clinic.csv, with how long patients were followed, and laboratory.csv."""
    rng = np.random.default_rng(SEED)
    ids = [f"P{number:04d}" for number in rng.permutation(9_000)[:N_PATIENTS] + 1_000]
    clinic = {
        "age": rng.normal(62, 11, N_PATIENTS).round(),
        "stage": rng.integers(1, 5, N_PATIENTS),
    }
    clinic["pulse"] = rng.normal(75, 10, N_PATIENTS).round()
    names = ("marker_a", "marker_b", "marker_c", "sodium", "calcium")
    laboratory = {name: rng.normal(size=N_PATIENTS).round(3) for name in names}
    risk = 0.04 * clinic["age"] + 0.5 * clinic["stage"] + 0.8 * laboratory["marker_b"]
    came = 900 * rng.exponential(np.exp(risk.mean() - risk))
    left = rng.uniform(100, 2000, N_PATIENTS)
    clinic["days"] = np.minimum(came, left).round() + 1
    clinic["died"] = (came <= left).astype(int)
    for party, columns in {"clinic": clinic, "laboratory": laboratory}.items():
        table = pd.DataFrame({"patient": ids, **columns})
        table.iloc[rng.permutation(N_PATIENTS)].to_csv(folder / f"{party}.csv", index=False)


def write_customers(folder: Path) -> None:
    """Write bank.csv and shop.csv."""
    rng = np.random.default_rng(SEED)
    data = mixed_bank(N_CUSTOMERS, random_state=SEED)
    ids = [f"C{number:05d}" for number in rng.permutation(90_000)[:N_CUSTOMERS] + 10_000]
    for party, columns in data.owners.items():
        table = data.X[list(columns)].copy()
        table.insert(0, "customer_id", ids)
        if party == "bank":
            table["default"] = np.where(data.y == 1, "yes", "no")
        table.iloc[rng.permutation(N_CUSTOMERS)].to_csv(folder / f"{party}.csv", index=False)


if __name__ == "__main__":
    write(Path(__file__).parent / "data")
