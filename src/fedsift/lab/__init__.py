# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Comparisons and attacks: what a selection is worth, and what its transcript gives away."""
