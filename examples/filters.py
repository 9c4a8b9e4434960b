# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Secure feature selection as one step of a scikit-learn pipeline."""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedsift as fs

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
selector = fs.FilterSelector(score="f", n_features_to_select=6, parties=3, random_state=0)
model = make_pipeline(selector, StandardScaler(), LogisticRegression()).fit(X, y)
print(selector.result_.headline())
print(", ".join(selector.get_feature_names_out()))
for row in selector.result_.disclosures:
    print(f"{row.learner} learned {row.kind} of {row.about}: {row.what}")
