# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``runtime``; :mod:`benchmarks.suites.runtime.suite` runs them."""
