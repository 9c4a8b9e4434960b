# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of fedsift: suites of cases, result files, and the pages that show them.

This package belongs to the source checkout and is not installed. Run ``python -m benchmarks SUITE``
in the checkout, or ``fedsift bench SUITE``.
"""
