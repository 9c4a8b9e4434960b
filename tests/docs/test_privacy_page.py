"""What the page on differential privacy derives is what the code computes."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.suites.dp.bounds import a_pair, interaction_reaches
from fedsift.methods.interaction.measures import Moments

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "differential-privacy.md"


def test_the_noise_of_interactions_is_as_the_page_says():
    needed = sum(interaction_reaches(1_000_000, 10)) * 1_000_000
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"the noise of {needed:.0f}/n" in page
    here, there, codes = a_pair(2000)
    logs = [np.log(Moments(data, codes).weights_with(1, [0]))[0] for data in (here, there)]
    least = 10 * 8 + sum(range(10)) * 2000 * (logs[0] - logs[1])
    assert least == pytest.approx(180, rel=0.03)
    assert "about 180/n, nine times the noise of the filter" in page


def test_randomised_response_of_a_subset_is_as_weak_as_the_decision_says():
    bit = math.exp(1 / 40)
    (decision,) = (ROOT / "docs" / "adr").glob("0017-*.md")
    assert f"with probability {bit / (1 + bit):.3f}" in decision.read_text(encoding="utf-8")
