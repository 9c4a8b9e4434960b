# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Interaction-based selection: relevance and pairwise interaction of features."""
