# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The tables and figures of five papers, computed again: ``python -m benchmarks.reproduce``."""
