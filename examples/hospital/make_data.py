# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write clinic.csv, laboratory.csv and imaging.csv: three houses that know the same patients.

The measurements are those of a public data set (Wisconsin breast cancer). Every house has some
patients that the others do not have, and lists them in an order of its own.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

HOUSES = {"clinic": slice(0, 10), "laboratory": slice(10, 20), "imaging": slice(20, 30)}
N_PATIENTS, SEED = 300, 4


def write(folder: Path) -> None:
    """Write the three files."""
    rng = np.random.default_rng(SEED)
    data = load_breast_cancer(as_frame=True)
    names = [name.replace(" ", "_") for name in data.data.columns]
    frame = data.data.set_axis(names, axis=1).iloc[:N_PATIENTS]
    frame.insert(0, "patient", [f"P{number:04d}" for number in rng.permutation(9999)[:N_PATIENTS]])
    for house, columns in HOUSES.items():
        own = frame[["patient", *names[columns]]].copy()
        if house == "clinic":
            own["diagnosis"] = np.where(data.target[:N_PATIENTS] == 0, "malignant", "benign")
        known = rng.permutation(N_PATIENTS)[: int(0.9 * N_PATIENTS)]
        own.iloc[known].to_csv(folder / f"{house}.csv", index=False)


if __name__ == "__main__":
    write(Path(__file__).parent)
