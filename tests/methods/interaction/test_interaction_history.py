"""What the history of an interaction search tells: the numbers that the label owner opened."""

import numpy as np
from sklearn.datasets import load_wine

from fedsift import InteractionSelector


def test_the_history_has_what_the_selector_has():
    X, y = load_wine(return_X_y=True, as_frame=True)
    selector = InteractionSelector(
        n_features_to_select=3, pair_start="none", security="plain", random_state=0
    )
    result = selector.fit(X, y).result_
    place = {name: number for number, name in enumerate(X.columns)}
    relevance, *steps = [entry for entry in result.history if "step" in entry]

    for own in relevance["relevance"].values():
        for name, value in own.items():
            assert value == selector.relevance_[place[name]]
    chosen = [place[step["feature"]] for step in steps]
    assert [selector.ranking_[i] for i in chosen] == [1, 2, 3]
    for step, column in zip(steps, chosen, strict=True):
        told = {place[n]: w for own in step["weights"].values() for n, w in own.items()}
        known = np.flatnonzero(~np.isnan(selector.interaction_[:, column]))
        assert sorted(told) == known.tolist()
        assert all(told[row] == selector.interaction_[row, column] for row in told)
        assert step["feature"] in result.selected[step["party"]]
    assert not steps[-1]["weights"]  # after the last one nothing is weighed, nor disclosed
    assert any("messages" in entry for entry in result.history)
