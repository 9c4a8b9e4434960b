"""Small organisations with tables of their own, and jobs that run in one process or at their sites."""

from __future__ import annotations

import msgspec
import numpy as np
import pandas as pd

from fedsift.data.part import read_part
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.jobs.spec import JointJob
from fedsift.protocol.verify import verify_result
from fedsift.result import SelectionResult
from helpers.relay import Sites

N_ROWS = 80
HUB = "hub"
REGIONS = ("highlands", "lowlands", "coastline")
CLASSES = ("settled", "defaulted")
"""Long words, which do not turn up in ciphertexts by chance."""

WITH_KEYS = {
    *("OwnOutline", "SecretWanted", "WordsWanted", "Greeting", "Roster"),
    *("Joined", "SharedSecret", "ShuffleSecret", "LayerKeys", "MaskKeys"),
}
"""Messages that carry keys, and between organisations proofs of them: longer there."""


def without_proofs(result):
    """Traffic, disclosures and history of a run, without sizes where proofs of keys count."""
    rows = [
        (row.message, row.sender, row.receiver, row.messages, row.ciphertexts,
         None if row.message in WITH_KEYS else row.n_bytes)
        for row in result.traffic.rows
    ]  # fmt: skip
    learned = [
        msgspec.structs.replace(row, n_bytes=0) if row.message in WITH_KEYS else row
        for row in result.disclosures
    ]
    history = [{key: entry[key] for key in entry if key != "n_bytes"} for entry in result.history]
    return {
        "traffic": (result.traffic.rounds, result.traffic.messages, rows),
        "disclosures": learned,
        "history": history,
    }


def people(n_rows=N_ROWS, seed=0):
    """Everything there is to know about some people; nobody knows all of it."""
    rng = np.random.default_rng(seed)
    paid = np.arange(n_rows) % 2
    frame = pd.DataFrame(
        {
            "id": [f"customer-number-{number:03d}" for number in range(n_rows)],
            "income": paid + rng.normal(size=n_rows),
            "age": rng.normal(40, 8, n_rows),
            "visits": paid + 0.3 * rng.normal(size=n_rows),
            "spend": rng.gamma(2.0, size=n_rows),
            "clicks": paid + 2 * rng.normal(size=n_rows),
            "hours": rng.normal(size=n_rows),
            "region": np.array(REGIONS)[(paid + rng.integers(0, 2, n_rows)) % 3],
            "paid": np.where(paid == 1, *CLASSES),
            "amount": 3 * paid + rng.normal(size=n_rows),
        }
    )
    frame.loc[::9, "age"] = np.nan
    frame.loc[::11, "region"] = None
    return frame.iloc[rng.permutation(n_rows)].reset_index(drop=True)


COLUMNS = {
    "bank": ["income", "age"],
    "shop": ["visits", "spend"],
    "store": ["clicks", "hours"],
    "mill": ["region"],
}


def vertical(method, parties=("bank", "shop", "store"), *, label="paid", ids=True, **options):
    """A vertical job; its label is at the bank."""
    fields = {key: options.pop(key) for key in ("task", "categorical", "seed") if key in options}
    return JointJob(
        method=method,
        setting="vertical",
        parties=tuple(parties),
        label_party=None if label is None else "bank",
        labelled=label is not None,
        aligned=ids,
        parameters=options,
        **{"seed": 7, **fields},
    )


def columns_homes(job, *, label="paid", columns=COLUMNS, policies=None):
    """Every party's own columns of the same people, in an order and with gaps of its own."""
    frame = people()
    homes = {}
    for number, party in enumerate(job.parties):
        own = [*columns[party], *([label] if label and party == "bank" else [])]
        rows = frame
        if job.aligned:
            rows = frame.drop(index=[10 * number, 10 * number + 1]) if number else frame
            rows = rows.sample(frac=1, random_state=number) if number else rows
            own = ["id", *own]
        part = read_part(
            party,
            rows[own],
            ids=["id"] if job.aligned else [],
            label=label if label and party == "bank" else None,
            categorical=job.categorical,
        )
        homes[party] = LocalParty.of(part, (policies or {}).get(party))
    return homes


def horizontal(method, *, labelled=True, seed=7, **parameters):
    """A job of three clinics with the same columns."""
    return JointJob(
        method=method,
        setting="horizontal",
        parties=("north", "south", "west"),
        labelled=labelled,
        seed=seed,
        parameters=parameters,
    )


def rows_sources(columns, label="paid"):
    """Every clinic's own rows; one of them has its columns in another order."""
    frame = people()[[*columns, label]]
    return {
        "north": frame.iloc[:30],
        "south": frame.iloc[30:50][[label, *reversed(columns)]],
        "west": frame.iloc[50:],
    }


def rows_homes(columns, label="paid", policies=None):
    return {
        party: LocalParty.of(read_part(party, rows, label=label), (policies or {}).get(party))
        for party, rows in rows_sources(columns, label).items()
    }


def at_sites(job, homes, script=run_joint):
    """How every site's part ended; a site is given the parts of its own parties only.

    A result that is signed has to be what the sites signed.
    """
    members = {party: party for party in job.parties} | dict.fromkeys(job.neutrals, HUB)

    def play(engine):
        own = {party: homes[party] for party in engine.home if party in homes}
        return script(job, own, engine)

    sites = Sites(members)
    ended = sites.run(play)
    result = ended[members[job.coordinator]].value
    if isinstance(result, SelectionResult) and result.commitments is not None:
        keys = {name: key.signing.public for name, key in sites.keys.items()}
        problems = verify_result(result, keys).problems
        assert problems == (), problems
    return members[job.coordinator], ended


def refusal(job, homes, script=run_joint):
    """The error that the coordinator's site ends with."""
    coordinator, ended = at_sites(job, homes, script)
    assert ended[coordinator].error is not None
    return ended[coordinator].error
