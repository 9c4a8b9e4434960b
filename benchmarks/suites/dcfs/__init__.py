# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``dcfs``; :mod:`benchmarks.suites.dcfs.suite` runs them."""
