# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""DCFS: unsupervised selection through anchor data, for parties with different rows."""
