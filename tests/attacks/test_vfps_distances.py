"""Attack: the leader of VF-PS decrypts sums of distances and wants single participants' parts.

Leaks of paper 002: groups of one, and groups that form a linear system, hand partial distances to
whoever decrypts; distances of a one-column party are that column.
"""

import numpy as np
import pytest

from fedsift.attacks import distance_reconstruction as attack
from fedsift.data import split_vertical
from fedsift.errors import PolicyViolation
from fedsift.methods import vfps
from fedsift.methods.vfps_local import Params, part_of_distance, standardised
from fedsift.methods.vfps_messages import MESSAGES
from fedsift.protocol import Policy
from fedsift.runtime import run_embedded
from fedsift.selectors.vfps import VFPSSelector

N_ROWS = 150


def four_columns(seed=0):
    """Four one-column participants; the label is held by a party of its own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, N_ROWS)
    X = rng.normal(size=(N_ROWS, 4)) + np.array([1.5, 1.0, 0.5, 0.0]) * y[:, None]
    return split_vertical(X, y, 4, label_holder=None)


def views_of(federation, **settings):
    """Everything the leader decrypts in a run."""
    params = Params(**{"n_queries": 60, "seed": 0, "scheme": "plain", **settings})
    nodes = vfps.build_nodes(federation.tables, federation.label_holder, federation.target, params)
    leader = attack.CuriousLeader(federation.target, None, params)
    nodes[federation.label_holder] = (leader,)
    policies = None
    if params.singles:
        kinds = tuple(m.declaration.kind for m in MESSAGES)
        policies = dict.fromkeys(nodes, Policy(may_reveal=kinds, min_security_bits=0))
    run_embedded(vfps.PROTOCOL, nodes, policies=policies, protected=False)
    return leader.views


def parts_of(federation, name, query):
    matrix, _ = standardised(federation.tables[name])
    return part_of_distance(matrix, query, len(federation.tables)).astype(float)


def by_query(views):
    grouped = {}
    for view in views:
        grouped.setdefault(view.query, []).append(view)
    return grouped


def solve_all(federation, views):
    """Mean squared correlation with the truth per participant, and the share of solved parts."""
    likeness, solved = [], []
    for query, some in by_query(views).items():
        for name, guess in attack.solve_parts(some, {}).items():
            truth = parts_of(federation, name, query)[guess.rows]
            likeness.append(attack.likeness(guess.values, truth))
            solved.append(guess.solved)
    return float(np.mean(likeness)), float(np.mean(solved))


def test_separate_groups_leave_every_part_undetermined():
    federation = four_columns()
    likeness, solved = solve_all(federation, views_of(federation))
    assert solved == 0.0
    # A sum of two parts resembles each of them, and that is all there is.
    assert likeness < 0.7


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "shapley", "n_groups": 40},
        {"strategy": "brute-force", "n_participants": 2},
        {"design": "shared"},
    ],
    ids=["shapley", "brute-force", "shared design"],
)
def test_overlapping_groups_give_every_part_away(settings):
    """Why these declare 'paired-groups': blinded or not, the sums are a linear system."""
    federation = four_columns()
    likeness, solved = solve_all(federation, views_of(federation, **settings))
    assert solved == 1.0
    assert likeness > 0.999


def test_how_much_a_greedy_run_gives_away(capsys):
    federation = four_columns()
    views = views_of(federation, strategy="greedy", n_participants=2)
    likeness, solved = solve_all(federation, views)
    with capsys.disabled():
        print(f"\ngreedy run: {solved:.0%} of the parts solved, r2 {likeness:.3f}")  # noqa: T201
    assert solved > 0.9


def test_exact_distances_of_a_one_column_party_are_its_column():
    """The unprotected variant: groups of one, as in the paper's example."""
    federation = four_columns()
    views = [
        v
        for v in views_of(federation, strategy="individual", singles=True, fagin=False)
        if v.group == ("party-1",)
    ]
    first, second = views[:2]
    exact = []
    for view in (first, second):
        numbers = attack.unblind(view.blinded).astype(float)
        exact.append(numbers - numbers[view.query])
    column = attack.column_from_distances(*exact, second=second.query)
    truth = standardised(federation.tables["party-1"])[0][:, 0]
    assert attack.likeness(column, truth) > 0.999


def test_our_sums_do_not_give_the_column():
    federation = four_columns()
    views = views_of(federation, fagin=False)
    first, second = [v for v in views if "party-1" in v.group and v.query][:2]
    exact = []
    for view in (first, second):
        numbers = attack.unblind(view.blinded).astype(float)
        exact.append(numbers - numbers[view.query])
    column = attack.column_from_distances(*exact, second=second.query)
    truth = standardised(federation.tables["party-1"])[0][:, 0]
    assert attack.likeness(column, truth) < 0.9


def estimate_by_geometry(federation, views):
    """Subtract the geometries of three overlapping pairs; no query needs to be shared."""
    pairs = np.random.default_rng(1).integers(0, N_ROWS, size=(400, 2))
    shapes = [
        attack.geometry(views, group, pairs)
        for group in (("party-1", "party-2"), ("party-1", "party-3"), ("party-2", "party-3"))
    ]
    if any(shape is None for shape in shapes):
        return None
    column = standardised(federation.tables["party-1"])[0][:, 0]
    truth = (column[pairs[:, 0]] - column[pairs[:, 1]]) ** 2
    return attack.likeness((shapes[0] + shapes[1] - shapes[2]) / 2, truth)


def test_geometry_survives_separation_where_all_rows_are_compared(capsys):
    """A limit we state rather than hide: many queries on all rows are coordinates."""
    federation = four_columns()
    found = estimate_by_geometry(federation, views_of(federation, fagin=False))
    with capsys.disabled():
        print(f"\ntrilateration on full scans: r2 {found:.3f}")  # noqa: T201
    assert found > 0.9


def test_candidates_are_too_few_for_geometry():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 3000)
    X = rng.normal(size=(3000, 4)) + y[:, None]
    federation = split_vertical(X, y, 4, label_holder=None)
    views = views_of(federation)
    assert max(len(view.rows) for view in views) < 1500
    assert estimate_by_geometry(federation, views) is None


def test_a_group_of_one_is_refused_without_permission():
    with pytest.raises(PolicyViolation, match="single-party-distances"):
        VFPSSelector(strategy="individual", n_participants=2).fit(four_columns())


def test_a_group_of_one_needs_everybodys_permission():
    federation = four_columns()
    kinds = {m.declaration.kind for m in MESSAGES}
    generous = Policy(may_reveal=tuple(sorted(kinds)))
    policy = dict.fromkeys(federation.parties, generous)
    selector = VFPSSelector(strategy="individual", n_participants=2, n_queries=20, random_state=0)
    assert len(selector.set_params(policy=policy).fit(federation).selected_participants_) == 2
    policy["party-3"] = Policy(may_reveal=tuple(sorted(kinds - {"single-party-distances"})))
    with pytest.raises(PolicyViolation, match="party-3"):
        selector.set_params(policy=policy).fit(federation)


@pytest.mark.parametrize("strategy", ["greedy", "shapley", "brute-force"])
def test_a_policy_can_forbid_overlapping_groups(strategy):
    selector = VFPSSelector(
        strategy=strategy, n_participants=2, policy=Policy(may_not_reveal=("paired-groups",))
    )
    with pytest.raises(PolicyViolation, match="paired-groups"):
        selector.fit(four_columns())


def test_a_leader_cannot_pass_overlapping_groups_off_as_separate():
    class Liar(attack.CuriousLeader):
        def _batches(self, groups, most):
            return [("separate", list(groups))]

    federation = four_columns()
    params = Params(n_queries=10, seed=0, scheme="plain", strategy="shapley", n_groups=20)
    nodes = vfps.build_nodes(federation.tables, federation.label_holder, federation.target, params)
    nodes[federation.label_holder] = (Liar(federation.target, None, params),)
    with pytest.raises(Exception, match="overlapping groups"):
        run_embedded(vfps.PROTOCOL, nodes, protected=False)
