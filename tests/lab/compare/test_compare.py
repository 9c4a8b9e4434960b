"""Whole comparisons: controls, leaks, interruptions, every setting and kind of label."""

import msgspec
import numpy as np
import pytest

import fedsift as fs
from fedsift.data import catalog, synthetic
from fedsift.errors import FileProblem, ParameterError, PolicyViolation
from fedsift.lab.compare import (
    Case,
    Comparison,
    cells,
    compare,
)
from fedsift.lab.compare.cells import Contestant
from fedsift.lab.compare.runner import Journal
from fedsift.lab.peers import PEERS, missing_package, peer_named, peer_selection

pytestmark = pytest.mark.xdist_group("comparisons")

PLAIN = {"security": "plain", "verify": False, "models": ["knn"], "folds": 2, "permutations": 1}


def gini(**settings):
    return fs.FilterSelector("gini", **{"n_features_to_select": 3, **settings})


@pytest.fixture(scope="module")
def wine():
    data = catalog.load("wine")
    return Case("wine", fs.split_vertical(data.X, data.y, 3, random_state=0), (6, 9, 12))


@pytest.fixture(scope="module")
def found(wine):
    settings = {**PLAIN, "verify": True, "seeds": 2, "models": ["knn", "bayes"]}
    return compare(wine, {"gini": gini()}, peers=["sklearn-f"], **settings)


def _wine_parts():
    data = catalog.load("wine")
    return data.X, data.y


def timeless(comparison):
    """Cells without what differs from run to run."""
    return [
        msgspec.structs.replace(cell, seconds=0.0, cpu_seconds=0.0) for cell in comparison.cells
    ]


class TestTable:
    def test_all_controls_are_there(self, found):
        (data,) = found.data
        labels = [row.label for row in data.rows]

        assert labels == [
            "gini", "sklearn-f", "all features", "random: 3 features",
            "local only: party-1 (labels)", "local only: party-2", "local only: party-3",
            "pooled: gini",
        ]  # fmt: skip
        assert {row.kind for row in data.rows} == set(cells.KINDS)

    def test_every_row_was_scored_on_all_splits(self, found):
        for row in found.data[0].rows:
            assert set(row.scores) == {"knn", "bayes"}
            for scores in row.scores.values():
                assert set(scores) == {"accuracy", "balanced_accuracy", "auc"}
                assert scores["accuracy"].n == 4
                assert scores["accuracy"].standard_error is not None

    def test_selection_is_better_than_chance_and_random(self, found):
        row = found.data[0].row("gini")
        assert row.scores["knn"]["accuracy"].value > 0.85
        assert row.differences["random"]["knn"].value > 0
        assert set(row.differences) == {"all features", "random", "best local", "pooled"}
        assert row.precision.value == row.recall.value > 0.5

    def test_a_vertical_filter_selects_what_it_would_on_pooled_data(self, found):
        by_row = {
            row: [c.selected for c in found.cells if c.row == row and not c.permutation
                  and not c.verification]
            for row in ("gini", "pooled: gini")
        }  # fmt: skip
        assert by_row["gini"] == by_row["pooled: gini"]
        assert len(by_row["gini"]) == 4

    def test_a_secure_run_verifies_the_plain_ones(self, found):
        row = found.data[0].row("gini")
        assert row.verified is True
        assert row.cost_of == "secure run of the first fold"
        assert row.n_bytes.value > 1e5
        assert row.seconds.n == 1
        assert "party-1: feature-scores of party-2" in row.disclosed
        (secure,) = [c for c in found.cells if c.verification and c.row == "gini"]
        assert secure.security == "secure"

    def test_shuffled_labels_give_chance(self, found):
        assert found.passed
        for label in ("gini", "sklearn-f", "all features"):
            for check in found.data[0].row(label).leak.values():
                assert check.chance == pytest.approx(1 / 3)
                assert check.n >= 4
                assert abs(check.value - check.chance) <= 2 * check.standard_error + 1e-9

    def test_files_and_texts(self, found, tmp_path):
        path = found.save(tmp_path / "comparison.json")
        assert Comparison.load(path) == found
        page = found.to_html(tmp_path / "page.html").read_text()
        assert page.startswith("<!doctype html>")
        for text in (found.text(), page):
            for words in ("pooled: gini", "local only: party-2", "Shuffled labels", "minus random"):
                assert words in text
        with pytest.raises(FileProblem, match="is not a fedsift comparison"):
            Comparison.load(tmp_path / "page.html")
        with pytest.raises(FileProblem, match="Cannot read"):
            Comparison.load(tmp_path / "none.json")


def test_a_leak_is_found(monkeypatch):
    """A peer that sees the test rows, as selecting before splitting does, is not chance."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 400)), np.arange(80) % 2
    honest = peer_selection

    def leaking(name, pooled, rows, labels, wanted, seed):
        seen = pooled.y.copy()
        seen[rows] = labels
        return honest(name, pooled, np.arange(len(seen)), seen, wanted, seed)

    monkeypatch.setattr(cells, "peer_selection", leaking)
    federation = fs.split_vertical(X, y, 2)
    settings = {**PLAIN, "folds": 4, "peers": ["sklearn-f"]}
    comparison = compare(federation, {"anova": fs.FilterSelector("f")}, **settings)

    (data,) = comparison.data
    check = data.row("sklearn-f").leak["knn"]
    assert not check.passed
    assert check.value > 0.65
    # It was confirmed twice, with twice as many shuffles.
    assert len(check.earlier) == 2
    assert check.n == 8
    assert data.row("anova").passed
    assert not comparison.passed
    assert "NOT CHANCE on shuffled labels: sklearn-f on data" in comparison.text()
    assert "Do not trust these rows" in _html(comparison)


def _html(comparison):
    from fedsift.lab.compare.view import render_html as render

    return render(comparison)


class TestSettings:
    def test_horizontal_methods(self):
        made = synthetic.redundant_twins(150, n_noise=6, random_state=0)
        case = Case(
            "twins", fs.split_horizontal(made.X, made.y, 2, random_state=0), tuple(made.relevant)
        )
        methods = {
            "anova": fs.FilterSelector("f", n_features_to_select=8),
            "dcfs": fs.DCFSSelector(n_features_to_select=8, n_iterations=2),
            "fpso": fs.FPSOSelector(n_iterations=2, n_rounds=1, n_particles=6),
            "interaction": fs.InteractionSelector(),
        }
        (data,) = compare(case, methods, **PLAIN).data

        assert [r.label for r in data.rows if r.kind == "pooled"] == [
            "pooled: anova", "pooled: dcfs", "pooled: fpso",
        ]  # fmt: skip
        assert data.row("local only: own rows").scores["knn"]["accuracy"].value > 0.6
        assert data.row("anova").recall.value > 0.9
        assert any("'interaction' has no horizontal setting" in note for note in data.notes)

    def test_participants(self):
        X, y = _wine_parts()
        federation = fs.split_vertical(X, y, 4, random_state=0)
        vfps = fs.VFPSSelector(
            strategy="group-testing",
            design="separate",
            keep_own=False,
            n_participants=2,
            n_queries=20,
            n_groups=6,
        )
        (data,) = compare(federation, {"vfps": vfps}, **PLAIN).data

        row = data.row("vfps")
        assert row.scores["knn"]["accuracy"].value > 0.7
        assert 6 <= row.n_selected.value <= 7
        # All columns of the two best participants, by comparing all six pairs of them.
        assert data.row("pooled: vfps").scores["knn"]["accuracy"].value > 0.8

    def test_numbers_as_labels(self):
        made = synthetic.friedman(120, 8, random_state=0)
        case = Case("friedman", fs.split_vertical(made.X, made.y, 2), tuple(made.relevant))
        f = fs.FilterSelector("f", n_features_to_select=4)
        settings = {**PLAIN, "models": ["logistic", "knn"], "peers": ["sklearn-chi2"]}
        (data,) = compare(case, {"f": f}, **settings).data

        assert data.models == ["ridge", "knn"]
        assert data.row("f").scores["ridge"]["r2"].value > 0.3
        check = data.row("f").leak["ridge"]
        assert (check.metric, check.passed) == ("r2", True)
        assert data.row("local only: party-1 (labels)").scores["knn"].keys() == {"r2"}

    def test_without_labels_there_is_still_stability_and_cost(self):
        X, _ = _wine_parts()
        federation = fs.split_horizontal(X, None, 2, random_state=0)
        methods = {"variance": fs.FilterSelector("variance", n_features_to_select=4)}
        (data,) = compare(federation, methods, peers=["sklearn-f"], **PLAIN).data

        assert not data.labelled
        assert [row.label for row in data.rows] == ["variance", "pooled: variance"]
        assert data.rows[0].stability.index == 1.0
        assert any("has no labels" in note for note in data.notes)

    @pytest.mark.timeout(300)  # two more processes have to import everything
    def test_two_processes_find_the_same_as_one(self, wine):
        alone = compare(wine, {"gini": gini()}, **PLAIN)
        together = compare(wine, {"gini": gini()}, workers=2, **PLAIN)

        order = lambda cell: (cell.kind, cell.row, cell.fold, cell.permutation)  # noqa: E731
        assert sorted(timeless(together), key=order) == sorted(timeless(alone), key=order)
        assert together.cpu_seconds > 0

    def test_wrong_settings_are_refused_before_anything_runs(self, wine):
        def refused(error, words, methods=None, **settings):
            with pytest.raises(error, match=words):
                compare(wine, methods or {"gini": gini()}, **{**PLAIN, **settings})

        refused(ParameterError, "folds=1", folds=1)
        refused(ParameterError, "Did you mean 'knn'", models=["kn"])
        refused(ParameterError, "security='open'", security="open")
        refused(ParameterError, "There is no peer 'lasso'", peers=["lasso"])
        refused(
            ParameterError, "99, and the federation has 13", {"g": gini(n_features_to_select=99)}
        )
        refused(ParameterError, "is a dict", {"g": {}})
        refused(ParameterError, "0 methods for 'wine'", {"d": fs.DCFSSelector()})
        policy = {"party-2": {"methods": ["vfps"]}}
        refused(PolicyViolation, "party-2", {"g": gini(policy=policy)})

    def test_a_method_that_fails_does_not_take_others_along(self, wine, monkeypatch):
        run = fs.InteractionSelector.run

        def failing(self, X, *arguments, **options):
            if len(X.target.codes) and X.row_order["party-1"][0] == 0:
                raise ParameterError("Something is wrong with this fold.", "", "")
            return run(self, X, *arguments, **options)

        monkeypatch.setattr(fs.InteractionSelector, "run", failing)
        methods = {"gini": gini(), "interaction": fs.InteractionSelector(n_features_to_select=2)}
        comparison = compare(wine, methods, **PLAIN)
        row = comparison.data[0].row("interaction")

        assert row.failed == ("E201: Something is wrong with this fold.",)
        assert row.scores["knn"]["accuracy"].n == 1
        assert comparison.data[0].row("gini").scores["knn"]["accuracy"].n == 2
        assert comparison.failures == ["wine, interaction: " + row.failed[0]]
        assert "failed: interaction: E201" in comparison.text()


class TestInterruption:
    def test_what_is_finished_is_kept_and_used_again(self, wine, tmp_path, monkeypatch):
        journal = tmp_path / "journal.jsonl"
        whole = compare(wine, {"gini": gini()}, **PLAIN)
        do, done = cells.Workplace.do, []

        def interrupted(self, task):
            if len(done) == 5:
                raise KeyboardInterrupt
            done.append(task)
            return do(self, task)

        monkeypatch.setattr(cells.Workplace, "do", interrupted)
        part = compare(wine, {"gini": gini()}, journal=journal, **PLAIN)
        assert part.interrupted
        assert len(part.cells) == 5
        assert part.data[0].row("gini").scores
        assert "interrupted" in part.text()
        assert Comparison.load(part.save(tmp_path / "part.json")) == part

        # A line that was cut off is passed over.
        with journal.open("ab") as file:
            file.write(b'\n{"key": "x", "ce')
        done[:] = [None] * 1000
        rest = compare(wine, {"gini": gini()}, journal=journal, **PLAIN)
        assert rest.reused == 5
        assert not rest.interrupted
        order = lambda cell: (cell.kind, cell.row, cell.fold, cell.permutation)  # noqa: E731
        assert sorted(timeless(rest), key=order) == sorted(timeless(whole), key=order)
        assert len(done) == 1000 + len(whole.cells) - 5
        assert not journal.exists()

    def test_cells_of_other_settings_are_not_used(self, wine, tmp_path):
        journal = tmp_path / "journal.jsonl"
        task = cells.Task(0, 0, 0, "method", "gini", 0)
        places = [
            cells.Workplace((wine,), ((Contestant("gini", "filter", parameters),),), ["knn"], folds)
            for parameters, folds in (({}, 2), ({"n_features_to_select": 2}, 2), ({}, 3))
        ]
        assert len({place.key(task) for place in places}) == 3
        Journal(journal).add(places[0].key(task), cells.Cell("wine", "gini", "method", 0, 0))
        known = Journal(journal).known
        assert [place.key(task) in known for place in places] == [True, False, False]


OTHERS = [p.name for p in PEERS if p.module != "sklearn"]


class TestPeers:
    @pytest.mark.parametrize("name", [p.name for p in PEERS if p.module == "sklearn"])
    def test_filters_of_scikit_learn_find_what_matters(self, name):
        rng = np.random.default_rng(0)
        y = np.arange(120) % 2
        # Two values only: a wide spread over its range, unlike the noise.
        X = np.column_stack([rng.normal(size=(120, 6)), 2.0 * y + 0.2 * rng.normal(size=120)])
        pooled = Case("case", fs.split_vertical(X, y, 2)).pooled
        mask = peer_selection(name, pooled, np.arange(100), y[:100], 1, 0)
        assert mask.tolist() == [False] * 6 + [True]

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_packages_find_what_matters_or_say_what_is_missing(self, name, wine):
        if missing_package(peer_named(name)):
            (data,) = compare(wine, {"gini": gini()}, peers=[name], **PLAIN).data
            assert any(f"{name} is left out: " in n and "pip install" in n for n in data.notes)
            return
        pooled, y = one_column_matters(lambda rng, y: 3.0 * y + 0.3 * rng.normal(size=len(y)))
        mask = peer_selection(name, pooled, np.arange(160), y, 1, 0)
        assert mask[5]
        assert mask.sum() == 1 or not peer_named(name).counts

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_packages_find_what_numbers_depend_on(self, name):
        if missing_package(peer_named(name)):
            pytest.skip(f"{name} is not installed")
        pooled, y = one_column_matters(lambda rng, y: y + 0.1 * rng.normal(size=len(y)), "numbers")
        assert peer_selection(name, pooled, np.arange(160), y, 1, 0)[5]

    @pytest.mark.parametrize("name", ["mrmr", "mrmr-selection"])
    def test_mrmr_prefers_the_weaker_feature_to_a_copy_of_the_strongest(self, name):
        if missing_package(peer_named(name)):
            pytest.skip(f"{name} is not installed")
        rng = np.random.default_rng(0)
        y = np.arange(200) % 2
        strong = 1.5 * y + rng.normal(size=200)
        weak = 1.2 * y + rng.normal(size=200)
        constant = np.ones(200)
        copy = strong + 0.05 * rng.normal(size=200)
        X = np.column_stack([rng.normal(size=200), strong, copy, constant, weak])
        pooled = Case("case", fs.split_vertical(X, y, 2)).pooled
        mask = peer_selection(name, pooled, np.arange(200), y, 2, 0)
        assert mask[4]
        assert mask[1] != mask[2]
        every = peer_selection(name, pooled, np.arange(200), y, 5, 0)
        assert every[[0, 1, 2, 4]].all()

    def test_both_packages_for_mrmr_choose_the_same(self):
        for name in ("mrmr", "mrmr-selection"):
            if missing_package(peer_named(name)):
                pytest.skip(f"{name} is not installed")
        data = catalog.load("wine")
        y = data.y
        pooled = Case("case", fs.split_vertical(data.X, y, 2)).pooled
        for wanted in (1, 2, 5, 8):
            masks = [
                peer_selection(name, pooled, np.arange(len(y)), y, wanted, 0).tolist()
                for name in ("mrmr", "mrmr-selection")
            ]
            assert masks[0] == masks[1]


def one_column_matters(made_from, kind="classes"):
    """Five columns of noise and one that the label makes."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 2 if kind == "classes" else rng.normal(size=160)
    X = np.column_stack([rng.normal(size=(160, 5)), made_from(rng, y)])
    return Case("case", fs.split_vertical(X, y, 2)).pooled, y
