# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Known attacks, one module or folder per method, and what carries them out."""
