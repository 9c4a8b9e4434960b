# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Write data/bank.csv and data/shop.csv: made-up customers known to a bank and a shop.

Both files have the same customers in different orders, as two organisations would.
"""

from pathlib import Path

import numpy as np

from fedsift.data.synthetic import mixed_bank

N_CUSTOMERS = 400
SEED = 20


def write(folder: Path) -> None:
    """Write both files."""
    rng = np.random.default_rng(SEED)
    data = mixed_bank(N_CUSTOMERS, random_state=SEED)
    ids = [f"C{number:05d}" for number in rng.permutation(90_000)[:N_CUSTOMERS] + 10_000]
    folder.mkdir(parents=True, exist_ok=True)
    for party, columns in data.owners.items():
        table = data.X[list(columns)].copy()
        table.insert(0, "customer_id", ids)
        if party == "bank":
            table["default"] = np.where(data.y == 1, "yes", "no")
        table.iloc[rng.permutation(N_CUSTOMERS)].to_csv(folder / f"{party}.csv", index=False)


if __name__ == "__main__":
    write(Path(__file__).parent / "data")
