# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Encrypted columns: sums of a secret label over groups of rows."""
