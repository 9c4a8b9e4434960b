# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FPSO-FS: particle swarms search a common subset, for parties with different rows."""
