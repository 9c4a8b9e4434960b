"""A party that keeps the names of its features: others see numbers, in messages and results."""

import msgspec
import pytest

from fedsift import Federation, FilterSelector, InteractionSelector
from fedsift.data.part import anonymised, read_part
from fedsift.errors import ColumnError, DataError, PolicyViolation
from fedsift.jobs.run import LocalParty, run_joint
from fedsift.protocol import Policy
from fedsift.protocol.message import Codec
from fedsift.report import html, text
from helpers.joint import COLUMNS, columns_homes, horizontal, people, rows_homes, vertical

HIDING = Policy(min_security_bits=0, min_bin_size=1, anonymous_names=True)
NAMES = COLUMNS["shop"]


@pytest.fixture
def frames(monkeypatch):
    """Everything that is sent."""
    sent, encode = [], Codec.encode

    def noting(self, message):
        sent.append(encode(self, message))
        return sent[-1]

    monkeypatch.setattr(Codec, "encode", noting)
    return sent


def run(method="filter", policies=None, **options):
    job = vertical(method, security="plain", n_features_to_select=2, **options)
    kept = {}
    result = run_joint(
        job,
        columns_homes(job, policies=policies),
        keep_own=lambda party, own: kept.update({party: own}),
    )
    return result, kept


@pytest.mark.parametrize("method", ["filter", "interaction"])
def test_names_are_nowhere_but_at_home(frames, method):
    result, kept = run(method, {"shop": HIDING})
    written = msgspec.json.encode(result).decode() + html.render(result) + text.render(result)

    assert result.selected["shop"] == ("shop #1",)
    assert set(result.scores["shop"]) == {"shop #1", "shop #2"}
    for name in NAMES:
        assert name not in written
        assert not any(name.encode() in frame for frame in frames)
    assert kept["shop"]["own_names"] == {"shop #1": "visits", "shop #2": "spend"}
    assert "own_names" not in kept["store"]


def test_without_the_policy_names_do_travel(frames):
    """The test above could not fail otherwise."""
    result, _ = run()

    assert result.selected["shop"] == ("visits",)
    assert any(b"visits" in frame for frame in frames)


def test_the_selection_is_the_same():
    open_result, _ = run()
    hidden, _ = run(policies={"shop": HIDING, "bank": HIDING})

    assert list(hidden.scores["shop"].values()) == list(open_result.scores["shop"].values())
    assert [len(own) for own in hidden.selected.values()] == [
        len(own) for own in open_result.selected.values()
    ]


def test_parties_with_the_same_columns_have_to_show_them():
    with pytest.raises(PolicyViolation, match="names of all columns"):
        run_joint(horizontal("filter"), rows_homes(["income", "age"], policies={"south": HIDING}))


def test_what_is_wrong_with_a_hidden_table_stays_at_home():
    def load():
        raise ColumnError("Column 'visits' is empty.", "Values are needed.", "Fill it.")

    with pytest.raises(DataError) as caught:
        LocalParty(load, HIDING).load()
    assert "visits" not in str(caught.value)
    assert "visits" in str(caught.value.__cause__)


def test_numbers_stay_when_rows_or_columns_go():
    """A chained job selects columns of what is left; their numbers must not start again."""
    part = read_part("shop", people()[["visits", "spend", "hours"]]).anonymous()
    fewer = part.select(["shop #3"]).take(part.table.columns[0].values.argsort()[:10])

    assert fewer.anonymous().feature_names == ("shop #3",)
    assert LocalParty.of(fewer, HIDING).load().own_names["shop #3"] == "hours"


class TestSimulations:
    @pytest.fixture
    def federation(self):
        frame = people().drop(columns=["region", "amount", "age"])
        parts = {"bank": frame[["income", "clicks", "paid"]], "shop": frame[["visits", "spend"]]}
        return Federation.vertical(parts, label=("bank", "paid"))

    @pytest.mark.parametrize("selector", [FilterSelector, InteractionSelector])
    def test_a_result_is_renamed_throughout(self, federation, selector):
        whole = selector(n_features_to_select=2, security="plain", random_state=0)
        result = whole.fit(federation).result_
        shown = anonymised(result, federation, ["shop", "nobody"])
        written = msgspec.json.encode(shown).decode()

        assert "visits" in msgspec.json.encode(result).decode()
        assert not any(name in written for name in NAMES)
        assert "income" in written
        assert shown.scores["shop"]["shop #1"] == result.scores["shop"]["visits"]
        assert shown.ranking["bank"] == result.ranking["bank"]

    def test_nobody_hides(self, federation):
        result = FilterSelector(n_features_to_select=1, security="plain").fit(federation).result_
        assert anonymised(result, federation, []) is result
