"""The live view: counts what happens, answers only its own page, and never stops a run."""

import http.client
import json
import threading
import time

import pytest
from sklearn.datasets import load_wine

from fedsift import Chain, FPSOSelector, InteractionSelector, split_vertical
from fedsift.engine.observer import MOST_STEPS, Progress, ProgressTracker
from fedsift.report.live import LiveView
from fedsift.report.live_server import LOOPBACK, LiveServer
from fedsift.result import Disclosure, SelectionResult, Traffic, TrafficRow

EVIL = "<img src=x onerror=alert(1)>"
ROW = Disclosure("bank", "label holder", EVIL, "feature holder", "scores", "one", "open numbers",
                 "-", "Scores", 1, 300)  # fmt: skip


@pytest.fixture
def view():
    seen = LiveView(f"fedsift: filter, {EVIL}")
    seen.message(Progress(1, "bank", "shop", "Labels", 1_500_000))
    seen.message(Progress(2, EVIL, "bank", "Scores", 300, ROW))
    seen.message(Progress(3, EVIL, "bank", "Scores", 300, ROW))
    return seen


@pytest.fixture
def server(view):
    with LiveServer(view, linger_seconds=0.2) as running:
        yield running


def get(server, path=None, **headers):
    """Status, headers and text of an answer, as any program on this machine would get it."""
    place = server.url.removeprefix("http://")
    address, _, own = place.partition("/")
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request("GET", f"/{own}" if path is None else path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def parts(server):
    token = server.url.split("/")[3]
    return json.loads(get(server, f"/{token}/state")[2])


def test_it_counts_messages_bytes_and_disclosures(view):
    shown = view.state()["parts"]

    assert "1.5 MB" in shown["progress"]
    assert "<dd>3</dd>" in shown["progress"]
    assert "Labels" in shown["traffic"]
    assert shown["ledger"].count("<tr>") == 2  # the heading, and one row that came twice
    assert ">2<" in shown["ledger"]


def test_names_never_become_markup(view):
    assert "<img" not in view.page()
    assert "<img" not in json.dumps(view.state())


def test_the_page_is_served_with_its_token_only(server):
    status, headers, page = get(server)
    token = server.url.split("/")[3]

    assert status == 200
    assert "Who learned what" in page
    assert len(token) >= 32
    for path in ("/", "/state", "/x/", f"/{token[:-1]}/state", f"/{token}/../etc", "/%00"):
        assert get(server, path)[0] == 404
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Cache-Control"] == "no-store"


def test_other_hosts_and_other_pages_are_refused(server):
    """A web page that has its own name point to this machine gets nothing."""
    port = server.url.split(":")[2].split("/")[0]

    assert get(server, Host=f"evil.example:{port}")[0] == 403
    assert get(server, Host=LOOPBACK)[0] == 403
    assert get(server, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert get(server, Host=f"localhost:{port}")[0] == 200


def test_it_listens_on_this_machine_only(server):
    assert server._server.server_address[0] == "127.0.0.1"


def test_the_end_is_shown_and_the_server_is_gone(view):
    server = LiveServer(view, linger_seconds=5)
    with server:
        assert parts(server)["ended"] is False
        view.finish("finished")
        state = parts(server)
    assert state["ended"] is True
    assert "finished" in state["parts"]["progress"]
    with pytest.raises(OSError, match=r".*"):
        get(server)


def test_a_page_that_is_never_opened_does_not_hold_the_job_up(view):
    start = time.monotonic()
    with LiveServer(view, linger_seconds=60):
        view.finish("finished")
    assert time.monotonic() - start < 30


def test_a_page_that_stops_reading_does_not_hold_the_job_up(view):
    """A client that connects and says nothing."""
    with LiveServer(view, linger_seconds=0.1) as server:
        address = server.url.split("/")[2].split(":")
        stuck = http.client.HTTPConnection(address[0], int(address[1]), timeout=20)
        stuck.connect()
        assert parts(server)["ended"] is False
    stuck.close()


def test_many_steps_stay_few(view):
    for number in range(5 * MOST_STEPS):
        view.epoch(
            {"epoch": number, "max_epochs": 9999, "open_features": 3, "validation_loss": 0.5}
        )
    assert len(view._tracker.snapshot().steps) <= MOST_STEPS
    shown = view.state()["parts"]
    assert f"Epoch {5 * MOST_STEPS} of 9999" in shown["progress"]
    assert "Open gates" in shown["steps"]


def test_news_of_a_run_elsewhere_is_shown_until_its_result_is_there():
    desk = ProgressTracker("bank")
    desk.message(Progress(2, EVIL, "bank", "Scores", 1_500_000, ROW))
    desk.epoch({"epoch": 0, "max_epochs": 4, "open_features": 3, "validation_loss": 0.5})
    view = LiveView("test")
    view.show(desk.snapshot())
    shown = view.state()["parts"]

    assert "1.5 MB" in shown["progress"]
    assert "Epoch 1 of 4" in shown["progress"]
    assert "Open gates" in shown["steps"]
    assert "What bank sent and received" in shown["traffic"]
    assert "arrive at bank" in shown["ledger"]
    assert "<img" not in json.dumps(shown)

    traffic = Traffic(1, 1, 7_000, 0, (TrafficRow("Sums", "shop", "mill", 1, 7_000, 0),))
    view.finish("finished", SelectionResult("filter", "vertical", {}, traffic=traffic))
    shown = view.state()["parts"]
    assert "7.0 kB" in shown["traffic"]
    assert "What bank" not in shown["traffic"]


def test_every_step_of_a_chain_has_a_course_of_its_own():
    X, y = load_wine(return_X_y=True)
    view, courses = LiveView("test"), []

    class Watching(LiveView):
        def begin(self, *step):
            courses.append(view._tracker.snapshot())
            view.begin(*step)

        def step(self, entry):
            view.step(entry)

    few = InteractionSelector(n_features_to_select=4, security="plain")
    fewer = InteractionSelector(n_features_to_select=2, security="plain")
    Chain([few, fewer], random_state=0).run(
        split_vertical(X, y, parties=2, random_state=0), observer=Watching("test")
    )

    assert [(news.part, len(news.steps)) for news in courses] == [
        ("", 0),
        ("1 of 2, interaction", 4),
    ]
    assert len(view._tracker.snapshot().steps) == 2
    assert "2 of 2, interaction" in view.state()["parts"]["progress"]


def test_it_can_be_read_while_it_is_told(view):
    stop = threading.Event()

    def tell():
        number = 0
        while not stop.is_set():
            number += 1
            view.message(Progress(number, f"p{number % 50}", "bank", f"M{number % 50}", 10, ROW))

    teller = threading.Thread(target=tell)
    teller.start()
    try:
        for _ in range(20):
            view.state()
    finally:
        stop.set()
        teller.join()
    assert view.state()["parts"]["traffic"]


def test_a_real_run_shows_its_steps():
    X, y = load_wine(return_X_y=True)
    view = LiveView("test")

    FPSOSelector(n_particles=4, n_iterations=3, n_rounds=2, random_state=0).run(X, y, observer=view)
    shown = view.state()["parts"]

    assert "Convergence of the swarms" in shown["steps"]
    assert "unnamed-subsets" in shown["ledger"]


def test_a_ranking_grows_without_names():
    """The driving party does not know names of others' features while the run goes on."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    view = LiveView("test")
    selector = InteractionSelector(n_features_to_select=2, security="plain", random_state=0)

    fitted = selector.run(X.iloc[:, :4], y, observer=view)
    shown = view.state()["parts"]["steps"]

    assert "Ranking so far" in shown
    assert "unnamed feature" in shown
    assert not any(name in shown for name in X.columns[:4])
    view.finish("finished", fitted.result_)
    assert fitted.get_feature_names_out()[0] in view.state()["parts"]["steps"]
