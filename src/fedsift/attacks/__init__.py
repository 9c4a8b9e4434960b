# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Known attacks on selection protocols; each file names method, leak and the fix it tests."""
