"""Charts: right numbers in drawing and table, any input, any size, nothing that becomes markup."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.report import charts, course, curves, flows, html, text
from fedsift.report.charts import Dot
from fedsift.report.view import with_error
from fedsift.result import Disclosure, SelectionResult, Traffic, TrafficRow

EVIL = "<script>alert(1)</script>\x1b"
NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False)


def result(method="filter", setting="vertical", **fields):
    return SelectionResult(method, setting, fields.pop("selected", {"a": ("x",)}), **fields)


def many(n_features, name="feature number {}"):
    names = [name.format(i) for i in range(n_features)]
    return result(
        selected={"a": tuple(names[: n_features // 2])},
        scores={"a": {n: 1.0 / (i + 1) for i, n in enumerate(names)}},
        ranking={"a": {n: i + 1 for i, n in enumerate(names)}},
    )


class TestSize:
    @pytest.mark.parametrize("name", ["feature {}", EVIL + "{}", "n" * 100 + "{}"])
    def test_a_page_of_many_features_stays_under_two_megabytes(self, name):
        page = html.render(many(5_000, name))

        assert len(page.encode()) < 2_000_000
        assert "more are in the result file" in page

    def test_a_page_of_many_disclosures_and_flows_too(self):
        rows = tuple(
            Disclosure(f"p{i}", "r", "q", "s", "kind", "what" * 9, "open", "-", f"M{i}", 1, 5)
            for i in range(4_000)
        )
        sent = tuple(TrafficRow(f"M{i}", f"p{i}", "q", 1, 5, 0) for i in range(300))
        traffic = Traffic(1, 300, 1500, 0, sent)
        page = html.render(result(disclosures=rows, traffic=traffic))

        assert len(page.encode()) < 2_000_000
        assert "more parties are in the table only" in page

    def test_a_long_history_is_thinned(self):
        history = tuple(
            {"epoch": i, "open_features": 5, "validation_loss": 1 / (i + 1)} for i in range(10_000)
        )
        assert len(html.render(result("fedsdg", history=history)).encode()) < 2_000_000


class TestAnyInput:
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
    def test_curves(self, points):
        drawn = charts.lines("t", {"c": points}, x="x", y="y")
        places = [float(x) for pair in re.findall(r'c[xy]="([^"]*)"', drawn) for x in [pair]]

        assert all(0 <= place <= 400 for place in places)
        assert "nan" not in drawn

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(NUMBERS, st.none() | st.floats(0, 1e6)), min_size=1, max_size=60))
    def test_dots(self, values):
        drawn = charts.dots("t", [Dot(EVIL, v, e) for v, e in values], x="x")
        assert "<script" not in drawn
        assert drawn.count("<circle") == min(len(values), charts.MOST_ROWS)

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(st.lists(st.none() | NUMBERS, min_size=4, max_size=4))
    def test_heat_maps(self, values):
        drawn = charts.heat_map("t", [EVIL, "b"], ["c", "d"], [values[:2], values[2:]])
        assert "<script" not in drawn
        assert (drawn == "") == all(value is None for value in values)

    @pytest.mark.parametrize(
        "method", ["filter", "fedsdg", "fpso", "vfps", "interaction", "stepwise"]
    )
    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from(
                    ["step", "epoch", "round", "accuracy", "open_features", "n_features", "group",
                     "mutual_information", "standard_errors", "weights", "relevance", "party",
                     "feature", "score", "n_bytes", "messages", "validation_score", "participant",
                     "validation_loss", "on_frontier",
                     "found_in", "n_subsets", "errors_are", "adds", "explained", "p_value",
                     "q_value", "redundancy", "redundant_with", "chance"]
                ),
                st.none() | st.booleans() | st.text() | NUMBERS | st.lists(st.text())
                | st.sampled_from(["select", "relevance", "left out", "keep", "add"])
                | st.dictionaries(st.text(), st.dictionaries(st.text(), NUMBERS) | NUMBERS)
                | st.integers(-3, 9) | st.just({"a": {"x": -1.0}}) | st.just({"x": 2}),
            ),
            max_size=6,
        )
    )  # fmt: skip
    def test_histories_from_anywhere(self, method, history):
        """A result file may hold anything that is JSON."""
        assert html.render(result(method, history=tuple(history))).startswith("<!doctype html>")


def test_numbers_are_in_the_table_and_in_the_drawing():
    drawn = charts.lines("Loss", {"training": [(1, 0.5), (2, 0.25)]}, x="epoch", y="loss")

    assert "training: epoch 2, loss 0.25" in drawn
    assert re.search(r"<td>training</td><td class=\"n\">2</td><td class=\"n\">0.25</td>", drawn)
    assert 'role="img" aria-label="Loss. loss by epoch: training from 0.5 to 0.25."' in drawn


def test_higher_values_are_higher_up():
    drawn = charts.lines("t", {"c": [(0, 0.0), (1, 10.0)]}, x="x", y="y")
    heights = [float(y) for y in re.findall(r'cy="([^"]*)" r="2.6"', drawn)]
    assert heights[1] < heights[0]


def test_margins_tell_how_clear_the_cut_is():
    scored = [
        curves.Scored("", name, score, score > 2)
        for name, score in zip("abc", (4, 3, 0), strict=True)
    ]
    assert curves.margins(scored) == [1.0, 0.75, 0.75]
    assert curves.margins(scored[:2]) == [None, None]


def test_standard_errors_of_features_are_shown():
    found = many(4)
    errors = {"standard_errors": {"a": {"feature number 0": 0.125}}}
    shown = html.render(
        result(
            selected=found.selected, scores=found.scores, ranking=found.ranking, history=(errors,)
        )
    )
    assert "± is one standard error." in shown
    assert shown.count("± 0.12") >= 2  # in the table and in the drawing
    assert 'class="whisker' in shown


def test_scores_are_not_written_finer_than_their_error():
    shown = [with_error(v, e) for v, e in ((0.163981, 0.0171), (697.2353, 59.0), (1234.5, 120.0))]
    assert shown == ["0.1640 ± 0.017", "697.2 ± 59", "1234 ± 120"]
    assert [with_error(v, e) for v, e in ((0.25, None), (0.25, 0.0))] == ["0.25", "0.25"]


def test_features_that_other_rows_could_have_decided_are_named():
    scores = {"clear": 9.0, "kept": 5.0, "missed": 4.5, "hopeless": 0.1}
    ranking = {name: place for place, name in enumerate(scores, start=1)}
    errors = {"standard_errors": {"a": dict.fromkeys(scores, 0.7)}, "errors_are": "from counts"}
    found = result(
        selected={"a": ("clear", "kept")},
        scores={"a": scores},
        ranking={"a": ranking},
        history=(errors,),
    )

    for shown in (html.render(found), text.render(found)):
        assert "could change the decision on a: kept, a: missed." in shown
        assert "found by leaving out one row at a time" in shown


@pytest.mark.parametrize(
    ("method", "parameters", "reason"),
    [
        ("interaction", {}, "R multiplies estimates of several rounds"),
        ("stepwise", {}, "Every feature has a p-value"),
        ("fedsdg", {}, "known to the owner of the feature only"),
        ("dcfs", {}, "so their spread is unknown"),
        ("filter", {"score": "variance"}, "fourth powers"),
        ("filter", {"score": "gini", "privacy": {"epsilon": 1.0}}, "The counts carry noise"),
    ],
)
def test_a_ranking_without_errors_says_why(method, parameters, reason):
    found = many(4)
    shown = result(
        method,
        selected=found.selected,
        scores=found.scores,
        ranking=found.ranking,
        parameters=parameters,
    )
    for written in (html.render(shown), text.render(shown)):
        assert "There are no standard errors." in written
        assert reason in written
        assert "fedsift compare" in written


def test_counted_things_have_no_ticks_between_them():
    drawn = charts.lines("t", {"c": [(1, 0.5), (2, 4.0), (3, 0.1)]}, x="round", y="bytes")
    ticks = re.findall(r'<text class="middle"[^>]*>([^<]*)</text>', drawn)

    assert ticks == ["1", "2", "3", "round"]


def test_the_smallest_messages_are_folded():
    rows = tuple(TrafficRow(f"M{i:02}", "p", "q", 1, 1000 - i, 0) for i in range(20))
    page = html.render(result(traffic=Traffic(1, 20, 19810, 0, rows)))

    shown, folded = page.split("<summary>12 more</summary>")
    assert "<td>M07</td>" in shown
    assert "<td>M08</td>" not in shown
    assert all(f"<td>M{i:02}</td>" in folded for i in range(8, 20))


def test_features_without_scores_are_a_list_of_names():
    page = html.render(result("vfps", selected={"a": ("x<y", "z")}))
    assert '<ul class="names"><li>x&lt;y</li><li>z</li></ul>' in page


def test_all_roles_of_a_party_are_in_the_drawing():
    rows = tuple(
        Disclosure("bank", role, "shop", "participant", "kind", "what", "open", "-", "M", 1, 5)
        for role in ("coordinator", "id leader", "label holder")
    )
    traffic = Traffic(1, 1, 5, 0, (TrafficRow("M", "shop", "bank", 1, 5, 0),))
    drawn = flows.drawing(result(disclosures=rows, traffic=traffic))

    assert ">coordinator, id leader,</text>" in drawn
    assert ">label holder</text>" in drawn


def test_a_search_tells_how_often_features_were_found():
    entry = {"found_in": {"x": 6, "y": 5, "z": 0}, "n_subsets": 6}
    found = result("fpso", selected={"a": ("x",)}, history=(entry,))
    page = html.render(found)

    assert "How often features were found" in page
    assert "6 best subsets of all parties and rounds" in page
    assert '<td class="n">83%</td>' in page
    assert "found in" in text.render(found)
    assert [one.score for one in curves.found(found)] == [1.0, 5 / 6, 0.0]


def groups(values):
    return tuple(
        {"step": "test", "group": list(members), "mutual_information": value}
        for members, value in values.items()
    )


def test_copies_are_redundant_and_strong_ones_are_not():
    """a and b are copies worth 1, c is worth 1 and d is worth 0.2, all of it additive."""
    worth = {"ab": 1.0, "ac": 2.0, "ad": 1.2, "bc": 2.0, "bd": 1.2, "cd": 1.2}
    matrix = curves.redundancy(result("vfps", history=groups(worth)))
    values = dict(zip(matrix.rows, matrix.values, strict=True))
    found = {other: values["a"][matrix.columns.index(other)] for other in "bcd"}

    assert found["b"] > 0.5
    assert found["c"] < found["b"]
    assert found["d"] < found["b"]
    assert values["a"][matrix.columns.index("a")] is None


def test_without_groups_of_every_kind_no_redundancy_is_claimed():
    assert curves.redundancy(result("vfps", history=groups({"abc": 1.0, "abd": 2.0}))) is None


def test_flows_say_who_learned_something():
    rows = (
        TrafficRow("Key", "a", "b", 1, 10, 0),
        TrafficRow("Scores", "b", "a", 2, 20, 2),
    )
    told = Disclosure("a", "label holder", "b", "holder", "scores", "x", "open", "-", "Scores")
    shown = result(traffic=Traffic(1, 3, 30, 2, rows), disclosures=(told,))
    found = flows.flows_of(shown)
    drawn = flows.drawing(shown)

    assert found["a", "b"].kinds == []
    assert found["b", "a"].kinds == ["scores"]
    assert drawn.count('class="flow"') == 1
    assert drawn.count('class="flow quiet"') == 1
    assert "label holder" in drawn


@pytest.mark.parametrize("n_parties", [2, 3, 5, 9, 30])
def test_any_number_of_parties_fits_the_drawing(n_parties):
    rows = tuple(
        TrafficRow("M", f"p{i}", f"p{j}", 1, 10**i, 0)
        for i in range(min(n_parties, 12))
        for j in range(n_parties)
        if i != j
    )
    drawn = flows.drawing(result(traffic=Traffic(1, len(rows), 1, 0, rows)))
    height = int(re.search(r'viewBox="0 0 360 (\d+)"', drawn)[1])

    assert drawn.count('class="node"') == min(n_parties, flows.MOST_PARTIES)
    for x, y in re.findall(r'class="node" x="([\d.-]+)" y="([\d.-]+)"', drawn):
        assert 0 <= float(x) <= 360 - 92
        assert 0 <= float(y) <= height - 34


def test_values_too_far_apart_to_subtract_are_drawn():
    drawn = charts.dots("far", [charts.Dot("a", -1.7e308, 1e308), charts.Dot("b", 1.7e308)], x="v")

    assert drawn.count("<circle") == 2
    assert "inf" not in drawn
    assert "nan" not in drawn


def test_a_chart_marks_what_just_missed_the_cut():
    drawn = course.ranking_chart(many(20))
    assert drawn.count("hollow") == 5
    assert "Hollow: not selected." in drawn
