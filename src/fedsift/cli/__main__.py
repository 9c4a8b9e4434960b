# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m fedsift.cli``."""

from fedsift.cli import main

main()
