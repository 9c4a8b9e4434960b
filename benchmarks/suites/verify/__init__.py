# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``verify``; :mod:`benchmarks.suites.verify.suite` runs them."""
