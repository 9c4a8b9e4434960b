# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``fpso``; :mod:`benchmarks.suites.fpso.suite` runs them."""
