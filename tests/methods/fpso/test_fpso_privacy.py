"""Who learns what in FPSO-FS, message by message, and what a third party that lies gains."""

import msgspec
import numpy as np
import pytest

import fedsift as fs
from fedsift.crypto.masking import unmask_sum
from fedsift.engine import run_local
from fedsift.errors import (
    PolicyViolation,
    ProtocolError,
)
from fedsift.methods.fpso import messages as fpso_messages
from fedsift.methods.fpso import third_party as fpso
from fedsift.methods.fpso import unnamed
from fedsift.methods.fpso.local_search import Params
from fedsift.methods.fpso.selector import FPSOSelector
from helpers.fpso import MODES, PAPER, QUICK, run, seen_by_third_party, task
from helpers.runs import received


def test_the_smallest_accuracy_is_all_that_max_min_opens():
    """Sums are zero up to the smallest accuracy, and noise above it for every subset."""
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    outcome, _ = run(federation, integration="max-min")
    replies = seen_by_third_party(outcome, fpso_messages.MaskedShortfalls)
    assert len(replies) == 3
    *sums, left = unmask_sum([r.shortfalls.array() for r in replies])
    assert left == 0
    sums = np.array(sums, dtype=np.int64).reshape(3, fpso.ACCURACY_STEPS)
    reached = (sums == 0).sum(axis=1)
    assert all(
        (row[:n] == 0).all() and (row[n:] != 0).all() for row, n in zip(sums, reached, strict=True)
    )
    # Above the smallest accuracy the sums are as random as one party's noise: all distinct.
    noise = np.concatenate([row[n:] for row, n in zip(sums, reached, strict=True)])
    assert len(np.unique(noise)) == len(noise)
    assert np.abs(noise.astype(float)).max() > 2**60
    # One message alone has no zeros that would give its sender's accuracy away.
    assert all((r.shortfalls.array() != 0).all() for r in replies)


def test_a_masked_accuracy_alone_is_noise():
    """The same run twice: single messages are unrelated, their sums the same."""
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    views = []
    for _ in range(2):
        outcome, _ = run(federation, mode="federated-fitness")
        replies = seen_by_third_party(outcome, fpso_messages.MaskedAccuracies)
        views.append([reply.accuracies.array() for reply in replies[:3]])
    for first, second in zip(*views, strict=True):
        assert (first != second).all()
        assert (first > 2**40).mean() > 0.9  # an accuracy has ten bits
    assert unmask_sum(views[0]) != []
    totals = [sorted(unmask_sum(view)) for view in views]
    assert all(0 <= t <= 3 * fpso.ACCURACY_STEPS for total in totals for t in total)


def test_accuracies_leave_a_party_in_coarse_steps():
    """Exact ratios of small numbers would tell how many rows a party has."""
    X, y = task()
    outcome, _ = run(fs.split_horizontal(X, y, 3, random_state=0), aggregation="third-party")
    for reply in seen_by_third_party(outcome, fpso_messages.Accuracies):
        steps = reply.accuracies.array() * fpso.ACCURACY_STEPS
        assert np.array_equal(steps, np.rint(steps))


def test_in_the_masked_mode_no_single_accuracy_reaches_the_third_party():
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    masked = FPSOSelector(**QUICK).fit(federation).result_.disclosures
    worst = FPSOSelector(integration="max-min", **QUICK).fit(federation).result_.disclosures
    open_ = FPSOSelector(**PAPER, **QUICK).fit(federation).result_.disclosures
    assert {"accuracies", "smallest-accuracy"}.isdisjoint({d.kind for d in masked})
    assert {"accuracies", "pooled-accuracy"}.isdisjoint({d.kind for d in worst})
    assert "accuracies" in {d.kind for d in open_}
    sealed = {d.form for d in (*masked, *worst) if d.kind.endswith("-accuracy")}
    assert sealed == {"masked, only the sum opens"}


@pytest.mark.parametrize("aggregation", ["masked", "third-party"])
def test_nobody_sees_from_the_order_of_subsets_whose_they_are(aggregation):
    """The same rows at parties of other names: the same list, and no accuracy beside it."""
    X, y = task()
    parts = [(X[i::3], y[i::3]) for i in range(3)]
    lists = set()
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        federation = fs.Federation.horizontal({f"party-{i}": parts[i] for i in order})
        outcome, _ = run(federation, aggregation=aggregation)
        (asked,) = received(outcome, "party-1", fpso_messages.Candidates, protocol=fpso.PROTOCOL)
        lists.add(asked.masks.array().tobytes())
        for kind in (fpso_messages.Accuracies, fpso_messages.MaskedAccuracies):
            assert received(outcome, "party-1", kind, protocol=fpso.PROTOCOL) == []
    assert len(lists) == 1


def test_the_third_party_sees_whose_a_subset_is_only_where_that_is_allowed_by_name():
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)

    def learned(learner, **settings):
        rows = FPSOSelector(**settings, **QUICK).fit(federation).result_.disclosures
        return {d.kind for d in rows if d.learner == learner}

    shared = {"schema", "unnamed-subsets"}
    assert learned("third-party") == shared | {"pooled-accuracy"}
    assert learned("party-1") == {"unnamed-subsets", "selection"}
    assert learned("third-party", **PAPER) == {"schema", "local-subset", "accuracies"}
    for mode in MODES:
        with pytest.raises(PolicyViolation, match=r"local-subset|accuracies"):
            FPSOSelector(aggregation="third-party", mode=mode, **QUICK).fit(federation)


def test_a_masked_subset_alone_is_noise():
    """The same run twice: single messages are unrelated, and no part looks like a subset."""
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)
    views = []
    for _ in range(2):
        replies = seen_by_third_party(run(federation)[0], fpso_messages.UnnamedSubset)
        views.append(np.stack([reply.summands.array() for reply in replies]))
    words = unnamed.words_needed(10, 3)
    assert views[0].shape == (3, 6, words)
    assert (views[0] != views[1]).all()
    assert (views[0][:, 3] > 2**10).any(axis=-1).all()  # a subset of ten columns has ten bits
    first, second = (unnamed.subsets_in(unmask_sum(view, words), 10) for view in views)
    assert np.array_equal(first, second)


class TwoFaced(fpso.ThirdParty, name="third party"):
    """Tells every party another winner, or other subsets to try, to know them again by it."""

    lie = fpso_messages.GlobalSubset

    async def drive(self, net):
        return await super().drive(_Lying(net, self.lie))


class _Lying:
    def __init__(self, net, lie):
        self._net, self._lie = net, lie

    def __getattr__(self, name):
        return getattr(self._net, name)

    def _told(self, role, message):
        if not isinstance(message, self._lie):
            return message
        field = message.__struct_fields__[-1]
        array = getattr(message, field)
        told = {}
        for place, party in enumerate(self._net.members(role)):
            changed = array.array().copy()
            changed[..., place] ^= True
            told[party] = msgspec.structs.replace(message, **{field: type(array).of(changed)})
        return told

    async def tell(self, role, message, **options):
        return await self._net.tell(role, self._told(role, message), **options)

    async def ask(self, role, message, reply, **options):
        return await self._net.ask(role, self._told(role, message), reply, **options)


@pytest.mark.parametrize(
    ("lie", "settings"),
    [
        (fpso_messages.GlobalSubset, {"n_rounds": 2}),
        (fpso_messages.Candidates, {}),
        (fpso_messages.Candidates, {"integration": "max-min"}),
        (fpso_messages.Particles, {"mode": "federated-fitness"}),
    ],
)
def test_a_third_party_that_tells_parties_different_things_learns_nothing(lie, settings):
    """Masks cancel only if all parties were told the same."""
    X, y = task()
    federation = fs.split_horizontal(X, y, 3, random_state=0)

    def lying_run(**how):
        params = Params(n_iterations=3, n_particles=8, seed=0, **{"n_rounds": 1, **settings, **how})
        nodes = fpso.build_nodes(federation.tables, federation.targets, params)
        third = TwoFaced(params)
        third.lie = lie
        return run_local(fpso.PROTOCOL, {**nodes, fpso.THIRD_PARTY: (third,)})

    lying_run(protected=False)  # without masks nobody would notice
    with pytest.raises(ProtocolError, match="do not add up"):
        lying_run()


@pytest.mark.parametrize("integration", ["mean", "max-min"])
@pytest.mark.parametrize("mode", MODES)
def test_the_plan_is_what_happens(mode, integration):
    X, y = task()
    federation = fs.split_horizontal(X, y, 2, random_state=0)
    selector = FPSOSelector(mode=mode, integration=integration, **QUICK)
    planned = {(d.learner, d.kind) for d in selector.plan(federation).disclosures}
    happened = {(d.learner, d.kind) for d in selector.fit(federation).result_.disclosures}
    assert happened == planned


def test_policies_refuse():
    X, y = task()
    federation = fs.split_horizontal(X, y, 2, random_state=0)
    policy = {"party-1": fs.Policy(may_not_reveal=("unnamed-subsets",))}
    with pytest.raises(PolicyViolation, match="unnamed-subsets"):
        FPSOSelector(policy=policy, **QUICK).fit(federation)
    FPSOSelector(policy=policy, mode="federated-fitness", **QUICK).fit(federation)
