"""Attack: a feature holder of FedSDG-FS reads labels in its gradients, which is declared."""

import itertools
import json

import numpy as np
import pytest

from benchmarks.suites.fedsdg import leaks as fedsdg_leaks
from fedsift.lab.attacks.fedsdg import techniques as attack
from fedsift.lab.attacks.fedsdg.views import record
from fedsift.methods.fedsdg.messages import Gradients
from helpers.fedsdg import moons, params, parties

pytestmark = pytest.mark.xdist_group("gradients")

SEEDS = (0, 1, 2)


def found(attack_with, n_classes=2, seeds=SEEDS, **settings):
    """Success of an attack after ten epochs, mean over seeds."""
    values = []
    for seed in seeds:
        X, y = moons(160, n_classes=n_classes, seed=seed)
        chosen = params(**{"seed": seed, "max_epochs": 10, "batch_size": 64, **settings})
        recording = record(parties(X, y), chosen)
        gradients = attack.gradients_of(recording, "party-1")
        values.append(attack.strongest(attack_with, gradients, y[gradients.rows]))
    return float(np.mean(values))


@pytest.fixture(scope="module")
def by_noise():
    levels = (0.0, 2.0, 6.0, 20.0)
    return {level: found(attack.by_direction, label_noise=level) for level in levels}


def test_without_protection_directions_are_the_labels(by_noise):
    assert by_noise[0.0] > 0.99


def test_lengths_tell_classes_apart_too():
    """Weaker than directions; the rarer class is predicted worse and pulls harder."""
    assert found(attack.by_norm) > 0.6


def test_several_classes_are_several_directions():
    assert found(attack.by_direction, n_classes=3) > 0.9
    assert found(fedsdg_leaks.with_known_labels, n_classes=3) > 0.9


def test_label_noise_takes_away_more_the_larger_it_is(by_noise):
    values = list(by_noise.values())
    assert all(later < earlier + 0.05 for earlier, later in itertools.pairwise(values))
    assert values[-1] < values[0] - 0.25


def test_large_label_noise_leaves_little_more_than_a_guess(by_noise):
    assert by_noise[20.0] < 0.72


def test_noise_averages_out_over_epochs():
    """Why a level must be judged after all epochs: every epoch shows each row once more."""
    X, y = moons(160)
    recording = record(parties(X, y), params(max_epochs=30, batch_size=64, label_noise=4.0))
    gradients = attack.gradients_of(recording, "party-1")
    codes = y[gradients.rows]
    assert gradients.values.shape == (len(codes), 30, 4)
    once = attack.by_direction(gradients.first(1), codes)
    assert attack.strongest(attack.by_direction, gradients, codes) > once + 0.05


def test_guesses_are_compared_with_what_is_known_anyway():
    X, y = moons(160)
    assert fedsdg_leaks.without_gradients(X, y) > 0.7
    rng = np.random.default_rng(0)
    assert fedsdg_leaks.without_gradients(rng.normal(size=X.shape), y) < 0.65
    assert 0.5 <= attack.chance_of_clusters(y) < 0.6
    noise = attack.RowGradients(np.arange(160), rng.normal(size=(160, 8, 4)))
    assert attack.by_direction(noise, y) < 0.65
    assert attack.by_norm(noise, y) < 0.65


def test_the_leak_is_declared():
    assert Gradients.declaration.kind == "embedding-gradients"
    assert "label" in Gradients.declaration.text


def test_the_measurement_runs_and_keeps_what_it_was_not_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(fedsdg_leaks, "SEEDS", {"smoke": 1, "regular": 1})
    monkeypatch.setattr(fedsdg_leaks, "EPOCHS", {"smoke": 2, "regular": 2})
    out = tmp_path / "leaks.json"
    out.write_text(json.dumps({"weights": ["from before"]}))
    fedsdg_leaks.main(["--profile", "smoke", "--parts", "labels", "--out", str(out)])
    written = json.loads(out.read_text())
    assert written["weights"] == ["from before"]
    rows = {row["protection"]: row for row in written["labels"]}
    assert set(rows) == {"none", "label_noise 10"}
    assert rows["none"]["direction"]["mean"] > 0.9
    assert 0.3 < rows["none"]["score"]["mean"] <= 1.0


def test_the_table_is_what_the_file_says(tmp_path, capsys):
    value = {"mean": 0.25, "se": 0.125}
    keys = ("norm", "direction", "clusters", "known_labels", "own_columns", "score", "features")
    found = {
        "weights": [
            {"case": "as it is", "what": "r2", "mean": -70.0, "se": 9.0},
            {"case": "without", "what": "r2", **value},
        ],
        "labels": [
            {
                "data": "wine",
                "protection": "none",
                "seeds": 5,
                "failures": [],
                **dict.fromkeys(keys, value),
            },
            {"data": "wine", "protection": "label_noise 20", "seeds": 5, "failures": ["E301"]},
        ],
    }
    out = tmp_path / "leaks.json"
    out.write_text(json.dumps(found))
    fedsdg_leaks.main(["--table", "--out", str(out)])
    shown = capsys.readouterr().out
    assert "| weights | as it is | r2 | below 0 |" in shown
    assert "| weights | without | r2 | 0.250 ± 0.125 |" in shown
    assert shown.count("0.250 ± 0.125") == 7
    assert "label_noise 20 (1 runs refused) | 5 | -" in shown


def test_on_madelon_directions_are_the_labels(big_sets):
    """The set's own columns tell nothing alone; the gradients tell everything."""
    values = fedsdg_leaks._attack_labels("madelon", {}, 0, 2)
    assert values["direction"] > 0.95
    assert values["own_columns"] < 0.6
