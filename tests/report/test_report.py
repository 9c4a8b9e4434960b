"""Reports: built from the result alone, complete, safe, and self-contained."""

import re
from html.parser import HTMLParser

import msgspec
import pytest

from fedsift.report import html, text, view_of
from fedsift.report.view import clean, size
from fedsift.result import Disclosure, SelectionResult, Traffic, TrafficRow

EVIL = "<script>alert(1)</script>\x1b[31m\n&amp; $title"
VOID = {"meta", "link", "br", "hr", "img", "input"}


@pytest.fixture
def result():
    return SelectionResult(
        method="filter",
        setting="vertical",
        selected={"bank": ("income",), "shop": ("visits", EVIL)},
        scores={"bank": {"age": 0.5, "income": 0.25}, "shop": {"visits": 0.125, EVIL: 0.3}},
        ranking={"bank": {"age": 4, "income": 2}, "shop": {"visits": 1, EVIL: 3}},
        traffic=Traffic(
            2, 3, 1_500_300, 4, (TrafficRow("Labels", "bank", "shop", 3, 1_500_300, 4),)
        ),
        timings={"encrypt": 0.5, "total": 1.5},
        disclosures=(
            Disclosure("bank", "label holder", "shop", "feature holder", "feature-scores",
                       "one score", "encrypted", "bank", "Scores", 1, 300),
        ),
        parameters={"score": "gini"},
        security_bits=128,
        crypto="bgv",
        shape={"n_rows": 40, "n_features": 4, "label_holder": "bank"},
        versions={"python": "3.11"},
        warnings=("3 bins were merged.",),
    )  # fmt: skip


class Outline(HTMLParser):
    """Notes tags, and that every one that opens is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.attributes, self.texts = [], set(), [], []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def outline(page):
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_is_whole_and_needs_nothing_else(result):
    page = html.render(result)
    found = outline(page)

    assert {"table", "details", "style", "svg"} <= found.seen
    assert not {"link", "img", "iframe", "image", "use"} & found.seen
    assert not {name for name, _ in found.attributes} & {"src", "href", "onload"}
    assert not re.search(r"https?://|url\(", page)


def test_the_page_says_everything(result):
    words = " ".join(outline(html.render(result)).texts)

    for word in ("income", "visits", "0.125", "feature-scores", "Labels", "1.5 MB", "128-bit",
                 "gini", "3.11", "3 bins were merged.", "1 not selected", "0.50 s"):  # fmt: skip
        assert word in words


def test_nothing_in_a_result_becomes_markup(result):
    page = html.render(result)

    assert page.count("<script") == 1  # our own, which the page's policy knows by its fingerprint
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page + text.render(result)
    assert "$title" in page  # a name that looks like a placeholder stays a name


@pytest.mark.parametrize("render", [html.render, text.render])
def test_plain_runs_carry_an_alarm(result, render):
    plain = msgspec.structs.replace(result, security="plain")

    assert "Encryption was OFF" in render(plain).replace("&#x27;", "'")
    assert "Encryption was OFF" not in render(result)


def test_the_alarm_is_red(result):
    page = html.render(msgspec.structs.replace(result, security="plain"))

    assert '<p class="alarm" role="alert">' in page


def test_features_are_ordered_by_rank(result):
    shop = view_of(result).features[1]

    assert [row.rank for row in shop.rows] == ["1", "3"]
    assert shop.others == ()


def test_a_horizontal_result_has_one_table(result):
    both = {"a": ("x",), "b": ("x",)}
    view = view_of(SelectionResult("filter", "horizontal", both))

    assert [features.party for features in view.features] == ["all parties"]


def test_a_result_without_anything_still_renders():
    empty = SelectionResult("filter", "vertical", {})

    assert "Nobody learned anything." in html.render(empty)
    assert "Nobody learned anything." in text.render(empty)
    outline(html.render(empty))


def test_to_html_writes_the_page(result, tmp_path):
    assert result.to_html(tmp_path / "r.html").read_text(encoding="utf-8") == html.render(result)


def test_text_has_no_line_longer_than_its_table(result):
    lines = text.render(result).splitlines()

    assert lines[0] == "fedsift: filter"
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize(
    ("n_bytes", "shown"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2**40, "1099.5 GB")]
)
def test_sizes(n_bytes, shown):
    assert size(n_bytes) == shown


def test_clean_text_is_one_line():
    assert clean("a\nb\x1b[0m\u2028c") == "a b [0m c"
