# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Suites of benchmarks: one module or package per method or subject, each with ``run``."""
