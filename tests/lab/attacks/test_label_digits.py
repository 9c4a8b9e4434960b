"""What docs/threat-model.md says of numeric labels: a score has as many digits as it tells rows."""

import numpy as np
import pytest

import fedsift as fs

N_ROWS, N_TOLD = 60, 20
UNIT = 2.0**N_TOLD


def made_label():
    """Numbers of one size, whose last digits name single rows: no row has much of the variance."""
    label = np.where(np.arange(N_ROWS) % 2, UNIT, -UNIT)
    label[:N_TOLD] += 2.0 ** np.arange(N_TOLD)
    return label


def read_rows(score, label, n_ones):
    """The first values of a column of zeros and ones, from its score and the number of its ones."""
    explained = np.sqrt(score / (score + N_ROWS - 2))
    spread = np.sqrt(((label - label.mean()) ** 2).sum())
    covered = explained * spread * np.sqrt(n_ones * (N_ROWS - n_ones) / N_ROWS)
    totals = n_ones * label.mean() + covered * np.array([1, -1])
    nearest = totals[np.abs(totals - np.rint(totals)).argmin()]
    digits = round(nearest) % int(UNIT)
    return np.array([digits >> place & 1 for place in range(N_TOLD)])


@pytest.mark.parametrize("seed", range(3))
def test_one_score_of_a_made_up_number_tells_20_values_of_a_column_of_zeros_and_ones(seed):
    column = (np.random.default_rng(seed).random(N_ROWS) < 0.4).astype(float)
    label = made_label()
    federation = fs.split_vertical(
        column[:, None], label, 1, label_holder=None, names=["shop"], task="regression"
    )
    selector = fs.FilterSelector("f", n_features_to_select=1, policy=fs.Policy()).fit(federation)
    found = read_rows(selector.scores_[0], label, int(column.sum()))
    assert found.tolist() == column[:N_TOLD].tolist()
