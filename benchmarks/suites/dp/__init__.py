# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``dp``; :mod:`benchmarks.suites.dp.suite` runs them."""
