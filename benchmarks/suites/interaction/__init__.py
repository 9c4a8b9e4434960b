# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of suite ``interaction``; :mod:`benchmarks.suites.interaction.suite` runs them."""
