# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Writers of the figures in pages of the documentation, from committed result files."""
