# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""The shared layer: products of encrypted rows with a matrix."""
