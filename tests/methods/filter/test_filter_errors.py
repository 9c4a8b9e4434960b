"""Standard errors of filter scores in results: right, from what is known anyway, and not always."""

import msgspec
import numpy as np
import pytest

import fedsift as fs
from fedsift.data import PartyTable, Target, synthetic
from fedsift.data.part import anonymised
from fedsift.methods.filter import uncertainty
from fedsift.methods.filter.features import bin_table
from fedsift.methods.filter.label_holder import LabelHolder
from fedsift.methods.filter.pooled import pooled_scores
from fedsift.methods.filter.ranking import Params, contingency
from fedsift.report import curves, html, text
from fedsift.result import SelectionResult
from helpers.arrays import labelled

N_ROWS = 240


def data(n_classes=2):
    X, y = labelled(N_ROWS, 6, n_classes)
    X[:, 2] += 1.5 * y
    X[::9, 1] = np.nan
    return X, y


def run(score, setting="vertical", n_classes=2, **settings):
    X, y = data(n_classes)
    split = fs.split_vertical if setting == "vertical" else fs.split_horizontal
    options = {"n_features_to_select": 2, "random_state": 0, "bins": 4, **settings}
    return fs.FilterSelector(score, **options).fit(split(X, y, 3, random_state=0))


def errors_of(selector):
    """Errors in the order of the columns."""
    (entry,) = [e for e in selector.result_.history if "standard_errors" in e]
    found = {}
    for own in entry["standard_errors"].values():
        found |= own
    return np.array([found[f"x{i}"] for i in range(6)]), entry["errors_are"]


def from_pooled_counts(score, n_classes=2, setting="vertical"):
    X, y = data(n_classes)
    if setting == "horizontal":
        params = Params(score, bins=4, min_class_size=5, small_cells=True)
        return pooled_scores(
            PartyTable.from_any(X, name="all"), Target.from_values(y), params
        ).errors
    binned = bin_table(PartyTable.from_any(X, name="all"), 4, 5)
    table = contingency(binned.codes, binned.n_bins, Target.from_values(y).codes, n_classes)
    return uncertainty.of_tables(table, score)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("score", ["gini", "mi", "iv", "chi2"])
@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
def test_counts_tell_the_errors_of_the_pooled_rows(setting, score, n_classes):
    found, kind = errors_of(run(score, setting, n_classes, disclose="counts", security="plain"))

    assert kind == "from counts"
    np.testing.assert_allclose(found, from_pooled_counts(score, n_classes, setting), rtol=0.06)


@pytest.mark.parametrize("he", ["bgv", "paillier"])
def test_encrypted_runs_tell_the_same_errors(he):
    plain, kind = errors_of(run("gini", security="plain"))
    found, same = errors_of(run("gini", he=he))

    np.testing.assert_array_equal(found, plain)
    assert kind == same == "at most"


def test_scores_alone_tell_no_less_than_the_true_error_and_not_much_more():
    selector = run("gini", disclose="scores", security="plain")
    found, _ = errors_of(selector)
    true = from_pooled_counts("gini")
    own = [int(name[1:]) for name in selector.result_.scores["party-1"]]
    others = [i for i in range(6) if i not in own]

    np.testing.assert_allclose(found[own], true[own], rtol=0.06)  # its own counts are known
    assert (found[others] >= 0.97 * true[others]).all()  # two digits are told
    assert (found[others] <= true[others] + 2 * np.sqrt(5 / 2) / N_ROWS + 0.03).all()


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
@pytest.mark.parametrize("disclose", ["scores", "counts"])
def test_f_statistics_have_the_error_of_normal_values(setting, disclose):
    selector = run("f", setting, disclose=disclose, security="plain")
    found, kind = errors_of(selector)

    assert kind == "if normal"
    expected = uncertainty.of_f(selector.scores_, N_ROWS, 2)
    np.testing.assert_allclose(found, expected, rtol=0.06)


@pytest.mark.parametrize("split", [fs.split_vertical, fs.split_horizontal])
def test_numeric_targets_count_the_spread_of_the_feature(split):
    made = synthetic.friedman(200, 6, random_state=0)
    X, y = np.asarray(made.X, dtype=float), np.asarray(made.y)
    options = {"n_features_to_select": 2, "security": "plain"}
    selector = fs.FilterSelector("f", **options).fit(split(X, y, 2, random_state=0))

    expected = uncertainty.of_f(selector.scores_, 200, 2, regression=True)
    np.testing.assert_allclose(errors_of(selector)[0], expected, rtol=0.06)


@pytest.mark.parametrize("setting", ["vertical", "horizontal"])
@pytest.mark.parametrize(
    ("score", "settings"),
    [
        ("variance", {}),
        ("gini", {"bins": [-1.0, 0.0, 1.0], "epsilon": 2.0}),
        ("gini", {"bins": [-1.0, 0.0, 1.0], "release_epsilon": 2.0}),
        ("mi", {"bins": [-1.0, 0.0, 1.0], "release_epsilon": 2.0}),
    ],
)
def test_noise_withheld_scores_and_variances_have_no_errors(setting, score, settings):
    result = run(score, setting, security="plain", **settings).result_

    assert not any("standard_errors" in entry for entry in result.history)
    assert all(one.standard_error is None for one in curves.features(result))
    page = html.render(result)
    assert " ± " not in page
    told = "withheld" if "release_epsilon" in settings else "There are no standard errors."
    assert told in page
    assert told in text.render(result)


@pytest.mark.parametrize("split", [fs.split_vertical, fs.split_horizontal])
def test_frequencies_have_none_either(split):
    X, y = labelled(90, 4)
    selector = fs.FilterSelector("chi2", n_features_to_select=2, security="plain")
    result = selector.fit(split(np.floor(np.abs(X) * 4), y, 2, random_state=0)).result_

    assert not any("standard_errors" in entry for entry in result.history)
    assert "Only sums of the columns by class" in html.render(result)


def test_errors_cost_no_message_and_no_disclosure():
    result = run("gini", disclose="counts", security="plain").result_

    assert set(result.traffic.by_message) == {
        "Introduction", "Offer", "EncryptedLabels", "SealedCounts", "Selected", "Done",
    }  # fmt: skip
    assert not any("error" in row.what for row in result.disclosures)


def test_a_party_that_keeps_its_names_keeps_them_in_errors_too():
    federation = fs.split_vertical(*data(), 3, random_state=0)
    result = anonymised(run("mi", security="plain").result_, federation, ["party-2"])

    (entry,) = [e for e in result.history if "standard_errors" in e]
    assert set(entry["standard_errors"]["party-2"]) == set(result.scores["party-2"])
    assert all(name.startswith("party-2 #") for name in entry["standard_errors"]["party-2"])


def test_errors_survive_the_file_and_are_shown(tmp_path):
    result = run("mi", security="plain").result_
    again = SelectionResult.load(result.save(tmp_path / "result.json"))
    name, error = next(iter(again.history[-1]["standard_errors"]["party-1"].items()))

    for written in (html.render(again), text.render(again)):
        assert f"± {error:.2g}" in written
        assert "found by leaving out one row at a time" in written
    assert name in html.render(again)


def test_results_without_errors_can_still_be_read(tmp_path):
    result = run("mi", security="plain").result_
    old = msgspec.structs.replace(result, history=result.history[:-1])
    again = SelectionResult.load(old.save(tmp_path / "result.json"))

    assert "There are no standard errors." in html.render(again)
    assert " ± " not in text.render(again)


def test_a_resumed_run_has_the_errors_of_a_whole_one(tmp_path, monkeypatch):
    whole = run("mi", security="plain").result_.history[-1]

    def fails(*_):
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(LabelHolder, "_ranked", fails)
        with pytest.raises(RuntimeError, match="power cut"):
            run("mi", security="plain", checkpoint=tmp_path)
    monkeypatch.setattr(LabelHolder, "_open", fails)  # whoever has answered is not asked again
    resumed = run("mi", security="plain", checkpoint=tmp_path).result_

    assert resumed.history[-1] == whole
