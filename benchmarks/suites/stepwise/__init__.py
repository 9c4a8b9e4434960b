# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``stepwise``; :mod:`benchmarks.suites.stepwise.suite` runs them."""
