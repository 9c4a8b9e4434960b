# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of committed result files and of the pages made from them: ``make bench-check``."""
