"""What users do with a result: a table, a pipeline, a check of the signatures, a date."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import fedsift as fs
from fedsift.crypto.envelope import SigningKey
from fedsift.errors import ParameterError
from fedsift.protocol.commitments import from_base64


@pytest.fixture(scope="module")
def frame():
    return load_wine(as_frame=True, return_X_y=True)


@pytest.fixture(scope="module")
def selector(frame):
    X, y = frame
    return fs.FilterSelector(n_features_to_select=3, random_state=0).fit(X, y)


def test_a_table_names_every_feature_with_its_score_and_rank(selector, frame):
    table = selector.result_.to_frame()
    assert list(table) == ["party", "feature", "selected", "rank", "score", "p_value", "q_value"]
    assert sorted(table.feature) == sorted(frame[0])
    assert set(table.feature[table.selected]) == set(selector.get_feature_names_out())
    by_name = table.set_index("feature")
    places = by_name.loc[list(frame[0])]
    np.testing.assert_allclose(places.score, selector.scores_)
    assert places["rank"].tolist() == selector.ranking_.tolist()
    assert places.party.map(lambda party: party in selector.result_.selected).all()


def test_a_table_of_a_result_without_scores_has_the_selection():
    bare = fs.SelectionResult("vfps", "vertical", {"bank": ("age",), "shop": ()})
    table = bare.to_frame()
    assert table.to_dict("records")[0] | {"rank": 0, "score": 0, "p_value": 0, "q_value": 0} == {
        "party": "bank", "feature": "age", "selected": True,
        "rank": 0, "score": 0, "p_value": 0, "q_value": 0,
    }  # fmt: skip
    assert table[["rank", "score"]].isna().all(axis=None)
    assert fs.SelectionResult("vfps", "vertical", {}).to_frame().empty


def test_a_pipeline_keeps_what_transform_keeps(selector, frame):
    X, y = frame
    pipeline = selector.to_pipeline()
    kept = pipeline.set_output(transform="pandas").fit_transform(X)
    pd.testing.assert_frame_equal(kept, selector.set_output(transform="pandas").transform(X))
    model = make_pipeline(selector.to_pipeline(), LogisticRegression(max_iter=5000)).fit(X, y)
    assert model.score(X, y) > 0.8


def test_a_pipeline_of_an_array_goes_by_position(frame):
    X, y = frame[0].to_numpy(), frame[1].to_numpy()
    selector = fs.FilterSelector(n_features_to_select=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(selector.to_pipeline().fit_transform(X), selector.transform(X))


def test_a_party_takes_its_own_columns_home(selector, frame):
    party, names = next(iter(selector.result_.selected.items()))
    kept = selector.to_pipeline(party).set_output(transform="pandas").fit_transform(frame[0])
    assert list(kept) == list(names)
    with pytest.raises(ParameterError, match="owns no columns"):
        selector.to_pipeline("nobody")


def test_a_result_has_a_date_and_the_name_of_its_run(selector, tmp_path):
    result = selector.result_
    age = datetime.now(UTC) - datetime.fromisoformat(result.created)
    assert 0 <= age.total_seconds() < 3600
    assert len(result.run_id) == 32
    again = fs.SelectionResult.load(result.save(tmp_path / "result.json"))
    assert (again.created, again.run_id) == (result.created, result.run_id)
    assert fs.SelectionResult("filter", "vertical", {}).run_id == ""


def test_verification_needs_no_command(selector):
    result = selector.result_
    assert result.verify().passed
    keys = {one.party: from_base64(one.key) for one in result.commitments.messages}
    assert result.verify(keys).passed
    stranger = dict.fromkeys(keys, SigningKey.generate().public)
    assert not result.verify(stranger).passed


@pytest.mark.parametrize("part", ["created", "selected", "scores"])
def test_a_changed_part_is_named(selector, part):
    import msgspec

    other = {"created": "2001-01-01T00:00:00+00:00", "selected": {}, "scores": {}}[part]
    found = msgspec.structs.replace(selector.result_, **{part: other}).verify()
    assert not found.passed
    assert any(part in problem.text for problem in found.problems)
