"""Between organisations a seed drives public draws only; in one process it repeats all but noise."""

import numpy as np
import pytest

from fedsift.engine import LocalEngine
from fedsift.engine.remote.engine import SiteEngine
from fedsift.jobs.run import plan_joint, run_joint
from fedsift.methods.dcfs.settings import anchors_for
from fedsift.testing.draws import let_seeds_drive_everything
from helpers.fedsdg import PAPER
from helpers.joint import at_sites, columns_homes, horizontal, rows_homes, vertical

NUMERIC = ["income", "visits", "spend", "clicks", "hours"]
FOUR = ("bank", "shop", "store", "mill")
WIDE = {
    "bank": ["income", "age", "amount", "region"],
    "shop": ["visits", "spend", "clicks", "hours"],
}
PLAIN = {"security": "plain"}
NETWORK = {"max_epochs": 1, "min_epochs": 1, "embedding": 2, "outputs": 2, "batch_size": 64}
SWARM = {"n_particles": 4, "n_iterations": 2, "n_rounds": 1}


def wide(method, columns=WIDE, **parameters):
    job = vertical(method, ("bank", "shop"), ids=False, **parameters)
    policies = dict.fromkeys(job.parties, PAPER["policy"]) if "protocol" in parameters else None
    return job, columns_homes(job, columns=columns, policies=policies)


def four(method, **parameters):
    job = vertical(method, FOUR, ids=False, **parameters)
    return job, columns_homes(job)


def rows(method, **parameters):
    return horizontal(method, **parameters), rows_homes(NUMERIC)


NUMBERS = {party: [name for name in names if name != "region"] for party, names in WIDE.items()}
JOBS = {
    "filter": wide("filter", n_features_to_select=2, **PLAIN),
    "interaction": wide("interaction", NUMBERS, n_features_to_select=2, **PLAIN),
    "stepwise": wide("stepwise", NUMBERS, n_features_to_select=2, **PLAIN),
    "vfps": four("vfps", n_participants=2, n_queries=12, n_groups=4, **PLAIN),
    "fedsdg": wide("fedsdg", init="constant", outputs=2, max_epochs=1, **PLAIN),
    "fedsdg paper": wide("fedsdg", init="constant", protocol="paper", **NETWORK, **PLAIN),
    "dcfs": rows("dcfs", n_features_to_select=2, n_anchors=3, **PLAIN),
    "fpso": rows("fpso", **SWARM, **PLAIN),
}
FIELDS = {
    "filter": ("_order", "_rng"),
    "interaction": ("_order", "_rng"),
    "stepwise": ("_order", "_turn"),
    "vfps": ("_queries", "_secret"),
    "fedsdg": ("_order", "_rng", "_train_rows"),
    "fedsdg paper": (
        *("_order", "_seed", "_refit_seed", "_top_seed", "_rng", "_training", "_blur_key"),
    ),
    "dcfs": ("anchors",),
    "fpso": ("fitness",),
}
"""Fields of roles that hold what a party draws for itself."""


def drawn(nodes, fields):
    """Private draws of all roles that are real here, as texts."""
    found = {}
    for party, roles in nodes.items():
        for role in roles:
            if "anchors" in fields and getattr(role, "scale", None) is not None:
                known = anchors_for(role._params, role.secret, role.scale)
                found[party, role.role_name, "anchors"] = known.tobytes().hex()
            for field in fields:
                value = getattr(role, field, None)
                if value is None or isinstance(value, bool):
                    continue
                value = value.bit_generator.seed_seq.entropy if field == "_rng" else value
                value = value.folds if field == "fitness" else value
                value = value.tolist() if isinstance(value, np.ndarray) else value
                found[party, role.role_name, field] = repr(value)
    return found


@pytest.fixture
def watched(monkeypatch):
    """Nodes of the latest run of a method, wherever it ran."""
    kept = []

    def watch(engine):
        run = engine.run

        def recorded(self, protocol, nodes, **options):
            kept.append((protocol.name, nodes))
            return run(self, protocol, nodes, **options)

        monkeypatch.setattr(engine, "run", recorded)

    watch(LocalEngine)
    watch(SiteEngine)
    return kept


def private_draws(watched, name, *, at_home):
    job, homes = JOBS[name]
    watched.clear()
    if at_home:
        run_joint(job, homes)
    else:
        _, ended = at_sites(job, homes)
        assert {site: end.error for site, end in ended.items()} == dict.fromkeys(ended)
    found = {}
    for method, nodes in watched:
        if method == name.split()[0]:
            found |= drawn(nodes, FIELDS[name])
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", JOBS)
def test_two_runs_with_one_seed_draw_different_secrets(watched, name):
    one, two = (private_draws(watched, name, at_home=False) for _ in range(2))

    assert one
    assert one.keys() == two.keys()
    same = [place for place in one if one[place] == two[place]]
    # Four columns have 24 orders, so that two may be equal by chance; nothing else may.
    assert {field for _, _, field in same} <= {"_order"}
    assert len(same) < len(one)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", JOBS)
def test_in_one_process_the_seed_repeats_them(watched, name):
    one, two = (private_draws(watched, name, at_home=True) for _ in range(2))

    # The secret of the shuffles never came from a seed.
    seeded = {place for place in one if place[2] != "_secret"}
    assert {place: one[place] for place in seeded} == {place: two[place] for place in seeded}
    with let_seeds_drive_everything():
        hooked = private_draws(watched, name, at_home=False)
    assert {place: one[place] for place in seeded} == {place: hooked[place] for place in seeded}


def test_groups_are_public_and_follow_the_seed(watched):
    groups = []
    for _ in range(2):
        private_draws(watched, "vfps", at_home=False)
        (leader,) = [
            role
            for method, nodes in watched
            if method == "vfps"
            for role in nodes["bank"]
            if role.role_name == "leader" and hasattr(role, "served")
        ]
        groups.append(list(leader.served))
    assert groups[0] == groups[1]


def test_the_plan_of_a_seeded_job_says_what_holds_between_organisations():
    job, homes = JOBS["dcfs"]
    kinds = [
        {row.kind for row in plan_joint(job, homes, simulated=simulated)[1].disclosures}
        for simulated in (True, False)
    ]
    assert "known-anchor-images" in kinds[0]
    assert "known-anchor-images" not in kinds[1]
    assert "anchor-images" in kinds[1]
