# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of everything that reads files and frames; ``python -m fuzz`` runs it.

``targets`` has one function per reader. It takes any bytes, and nothing but an error of fedsift in
three parts may come out. ``corpus`` has inputs that reach different code, and those that once
failed; the tests replay them without atheris.
"""
