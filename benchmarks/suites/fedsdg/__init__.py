# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``fedsdg``; :mod:`benchmarks.suites.fedsdg.suite` runs them."""
