# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Vector sums: several parties' encrypted vectors, added blindly."""
