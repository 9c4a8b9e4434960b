# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``vfps``; :mod:`benchmarks.suites.vfps.suite` runs them."""
