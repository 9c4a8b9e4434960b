# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""How a job is run: setup, alignment, the method, the result; and chains of several methods."""
