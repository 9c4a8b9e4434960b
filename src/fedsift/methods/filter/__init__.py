# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Filters: rank features by one score, for parties with different columns or different rows."""
