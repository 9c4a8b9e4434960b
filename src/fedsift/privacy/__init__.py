# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Differential privacy: mechanisms, accounting and drawn selections."""
