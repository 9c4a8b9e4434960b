# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m fedsift``, the same as ``fedsift``."""

from fedsift.cli import main

main()
