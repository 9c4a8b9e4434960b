# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What a report says about a DCFS run."""

from fedsift.methods.spec import ReportTexts

TEXTS = ReportTexts(
    score="the weight of the feature in projections that keep the structure of all parties' rows; "
    "no label is used",
    no_errors="Only the mean score over the parties is revealed, so their spread is unknown.",
)
