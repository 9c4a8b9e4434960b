"""Report pages and the live view in a real browser: complete, quiet, reachable, readable."""

from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from fedsift.cli.tables import Page
from fedsift.crypto.envelope import OrganisationKey
from fedsift.deploy.sealed_reports import open_report, seal_report
from fedsift.deploy.submit import JobState
from fedsift.engine.observer import Progress, ProgressSnapshot, ProgressTracker
from fedsift.lab.attacks import page as attack_page
from fedsift.lab.attacks.attack import AttackReport
from fedsift.lab.compare import view as compare_view
from fedsift.report import html
from fedsift.report.live import LiveView
from fedsift.report.live_server import LiveServer
from fedsift.result import Disclosure
from helpers.reports import METHODS, TITLES, result_of, small_comparison

pytestmark = [
    pytest.mark.timeout(400),  # a browser on a busy machine is slow
    pytest.mark.xdist_group("browser"),
    pytest.mark.slow(2),
]

WAIT = 60_000
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
ATTACKS = Path(__file__).resolve().parents[3] / "benchmarks" / "attacks.json"
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>' onmouseover='alert(3)"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One report per method, as files."""
    folder = tmp_path_factory.mktemp("reports")
    return {
        method: result_of(method).to_html(folder / f"{method}.html").as_uri() for method in METHODS
    }


@pytest.fixture(scope="module")
def compared():
    return small_comparison()


@contextmanager
def opened(browser, address, *, width=1000, colours="light", quiet=True, **options):
    """A page, and proof that it neither complained nor asked for anything but itself."""
    context = browser.new_context(
        color_scheme=colours, viewport={"width": width, "height": 900}, **options
    )
    complaints, requests = [], []
    try:
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        yield page
        assert complaints == []
        if quiet:
            assert requests == [address]
        else:
            assert all(url.startswith(address) for url in requests)
    finally:
        context.close()


def violations(page, axe):
    """Broken rules with the elements that break them; everything folded is opened first."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate(f"{axe}\n;undefined")
    found = page.evaluate(
        "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", RULES
    )
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]]


def is_too_wide(page):
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


@pytest.mark.parametrize("method", METHODS)
def test_a_report_is_complete_quiet_accessible_and_narrow(browser, files, axe, method):
    with opened(browser, files[method]) as page:
        assert TITLES[method] <= set(page.locator("figcaption").all_inner_texts())
        heads = page.locator("h2").all_inner_texts()
        assert {"What was selected and why", "What it cost", "Who learned what"} <= set(heads)
        for drawing in page.locator("figure > svg").all():
            box = drawing.bounding_box()
            assert box["width"] > 100
            assert box["height"] > 50
            assert drawing.get_attribute("aria-label")
        assert violations(page, axe) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert not is_too_wide(page)


def test_a_ranking_with_its_errors_fits_a_phone(browser, files):
    with opened(browser, files["filter"], width=390) as page:
        assert page.locator(".whisker").count() >= 3
        tables = page.locator("section").first.locator(".scroll:visible")
        assert tables.count() >= 1
        for table in tables.all():
            assert " ± " in table.inner_text()
            assert table.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_a_printed_table_has_headings_without_arrows(browser, files):
    with opened(browser, files["filter"]) as page:
        arrow = "getComputedStyle(document.querySelector('th button'), '::after').content"
        assert page.evaluate(arrow) != "none"
        page.emulate_media(media="print")
        assert page.evaluate(arrow) == "none"


@pytest.mark.parametrize("method", ["interaction", "vfps", "fedsdg"])
def test_a_dark_report_is_accessible_too(browser, files, axe, method):
    """Together these have every kind of chart, and an alarm."""
    with opened(browser, files[method], width=390, colours="dark") as page:
        assert not is_too_wide(page)
        assert violations(page, axe) == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pages_of_attacks_and_comparisons_are_as_good(browser, axe, compared, tmp_path, colours):
    found = msgspec.json.decode(ATTACKS.read_bytes(), type=AttackReport)
    pages = {"attack": attack_page.render(found), "compare": compare_view.render_html(compared)}
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        with opened(browser, path.as_uri(), colours=colours) as page:
            assert page.locator("table").count() > 0
            assert violations(page, axe) == []
            page.set_viewport_size({"width": 390, "height": 844})
            assert not is_too_wide(page)


def test_dark_is_dark(browser, files):
    shades = []
    for colours in ("light", "dark"):
        with opened(browser, files["filter"], colours=colours) as page:
            shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades == ["rgb(255, 255, 255)", "rgb(18, 23, 29)"]


def column(table, number):
    return table.locator(f"tbody tr td:nth-child({number})").all_inner_texts()


def scores_in(table):
    """The numbers of the third column, without their standard errors."""
    return [float(text.partition(" ± ")[0]) for text in column(table, 3)]


def test_tables_sort_by_mouse_and_keyboard(browser, files):
    with opened(browser, files["horizontal"]) as page:
        page.locator("summary", has_text="not selected").click()
        table = page.locator("details:has(> summary:text('not selected'))").locator("table")
        scores = scores_in(table)
        heading = table.locator("th", has_text="score")

        heading.locator("button").click()
        assert scores_in(table) == sorted(scores)
        assert heading.get_attribute("aria-sort") == "ascending"
        heading.locator("button").focus()
        page.keyboard.press("Enter")
        assert scores_in(table) == sorted(scores, reverse=True)
        assert heading.get_attribute("aria-sort") == "descending"
        table.locator("th", has_text="feature").locator("button").click()
        assert column(table, 2) == sorted(column(table, 2))


def test_sizes_sort_as_numbers(browser, files):
    with opened(browser, files["horizontal"]) as page:
        ledger = page.locator("section", has_text="Who learned what").locator("table").last
        ledger.locator("th", has_text="size").locator("button").click()
        shown = ledger.locator("tbody tr td:last-child").all_inner_texts()

    units = {"B": 1, "kB": 1e3, "MB": 1e6}
    amounts = [float(text.split()[0]) * units[text.split()[1]] for text in shown]
    assert amounts == sorted(amounts)
    assert len(set(amounts)) > 1


def test_a_long_table_can_be_filtered(browser, files):
    with opened(browser, files["horizontal"]) as page:
        ledger = page.locator("section", has_text="Who learned what").last
        rows = ledger.locator("table").last.locator("tbody tr")
        before = rows.count()
        ledger.get_by_label("Filter").last.fill("coordinator")
        shown = rows.locator("visible=true").count()

        assert 0 < shown < before
        assert f"{shown} of {before} rows" in ledger.inner_text()


def test_everything_can_be_reached_by_keyboard(browser, files):
    with opened(browser, files["interaction"]) as page:
        wanted = page.evaluate(
            """() => {
                const all = [...document.querySelectorAll('button, summary, input, [tabindex]')];
                const seen = all.filter(one => one.checkVisibility());
                seen.forEach((one, i) => { one.dataset.stop = i; });
                return seen.length;
            }"""
        )
        reached = set()
        for _ in range(wanted + 5):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.dataset.stop"))
        assert {str(i) for i in range(wanted)} <= reached
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("details").first.evaluate("one => one.open")


def test_without_scripts_nothing_is_missing(browser, files):
    texts = []
    for scripts in (True, False):
        with opened(browser, files["filter"], java_script_enabled=scripts) as page:
            for summary in page.locator("summary").all():
                summary.click()
            texts.append(page.locator("main").inner_text())
            assert page.locator("figure > svg").count() >= 3
    words = [set(text.replace("Filter", "").split()) for text in texts]
    assert words[0] == words[1]


def test_a_printed_report_is_light_and_whole(browser, files):
    with opened(browser, files["filter"], colours="dark") as page:
        paper = page.pdf()
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
    assert paper.startswith(b"%PDF")
    assert len(paper) > 10_000


def test_hostile_names_stay_names(browser, tmp_path):
    """Names of features and parties are written by others."""
    found = result_of("interaction")
    text = msgspec.json.encode(found).decode()
    evil = msgspec.json.encode(EVIL).decode()[1:-1]
    changed = msgspec.json.decode(text.replace("alcohol", evil), type=type(found))
    path = changed.to_html(tmp_path / "evil.html")

    with opened(browser, path.as_uri()) as page:
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.mouse.move(200, 400)
        assert EVIL in page.locator("main").inner_text()
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1


def test_no_other_script_runs(browser, tmp_path):
    """The page's own policy stops a script that somebody adds to the file's text."""
    page_text = html.render(result_of("dcfs"))
    added = page_text.replace("</main>", "<p id=p>a</p><script>p.id = 'q'</script></main>")
    path = tmp_path / "added.html"
    path.write_text(added, encoding="utf-8")
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(path.as_uri())
        assert page.locator("#p").count() == 1
        assert page.locator("th button").count() > 0
    finally:
        context.close()


class TestLiveView:
    ROW = Disclosure("bank", "label holder", "shop", "feature holder", "feature-scores",
                     "one score", "open numbers", "-", "Scores", 1, 300)  # fmt: skip

    def test_it_follows_the_job(self, browser, axe):
        view = LiveView("fedsift: fedsdg, job.toml")
        view.message(Progress(1, "bank", "shop", "Labels", 1_000_000))
        phone = {"width": 390, "colours": "dark", "quiet": False}
        with (
            LiveServer(view, linger_seconds=30) as server,
            opened(browser, server.url, **phone) as page,
        ):
            page.locator("dd", has_text="1.0 MB").wait_for()
            assert "Nobody learned anything yet." in page.inner_text("#ledger")
            view.message(Progress(2, "shop", "bank", "Scores", 300, self.ROW))
            for epoch in range(3):
                view.epoch(
                    {
                        "epoch": epoch,
                        "max_epochs": 9,
                        "open_features": 8 - epoch,
                        "validation_loss": 1.0 / (epoch + 1),
                    }
                )
            page.locator("#ledger td", has_text="feature-scores").wait_for()
            page.locator("figcaption", has_text="Open gates").wait_for()
            assert "Epoch 3 of 9" in page.inner_text("#progress")
            assert not is_too_wide(page)
            assert violations(page, axe) == []
            view.finish("finished", result_of("dcfs"))
            page.locator("#connection", has_text="has ended").wait_for()
            assert "Best features" in page.inner_text("#steps")

    def test_it_follows_the_progress_of_a_job_between_organisations(self, browser, axe):
        """As sealed by the member that leads the job, whose words are not our own."""
        keys = {name: OrganisationKey.generate() for name in ("bank", "ann")}
        tracker, view = ProgressTracker("bank"), LiveView("fedsift: interaction, job.toml")

        def tell(status="RUNNING"):
            snapshot = tracker.snapshot()
            sealed = seal_report(snapshot, "bank", keys["bank"], "ann", keys["ann"].public, "job")
            opened = open_report(
                ProgressSnapshot, sealed, "ann", keys["ann"], "bank", keys["bank"].public, "job"
            )
            Page(view).job_state(
                JobState("job-7", status, 2, snapshot.round_number, progress=opened)
            )

        Page(view).job_state(JobState("job-7", "SUBMITTED"))
        with (
            LiveServer(view, linger_seconds=30) as server,
            opened(browser, server.url, quiet=False) as page,
        ):
            page.locator("#progress dd", has_text="submitted").wait_for()
            tracker.message(Progress(2, EVIL, "bank", "Scores", 1_500_000, self.ROW))
            tell()
            page.locator("#progress dd", has_text="1.5 MB").wait_for()
            page.locator("#ledger td", has_text="feature-scores").wait_for()
            assert "What bank sent and received" in page.inner_text("#traffic")
            assert EVIL in page.inner_text("#traffic")
            tracker.step({"step": "select", "party": "shop", "feature": EVIL, "score": 1.25})
            tracker.step({"step": [EVIL], "party": None, "score": {}, "epoch": EVIL})
            tell()
            page.locator("h3", has_text="Order of selection").wait_for()
            assert page.locator("img").count() == 0
            assert violations(page, axe) == []
            page.set_viewport_size({"width": 390, "height": 844})
            assert not is_too_wide(page)
            view.finish("failed: see the terminal")
            page.locator("#connection", has_text="has ended").wait_for()
            assert "failed" in page.inner_text("#progress")

    def test_it_works_without_scripts(self, browser):
        view = LiveView("fedsift: filter, job.toml")
        view.message(Progress(1, "bank", "shop", "Labels", 1_000_000, self.ROW))
        with LiveServer(view, linger_seconds=0.1) as server:
            context = browser.new_context(java_script_enabled=False)
            try:
                page = context.new_page()
                page.goto(server.url)
                assert "feature-scores" in page.inner_text("#ledger")
                assert page.locator("noscript").count() == 1
            finally:
                context.close()
