# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""A federation across organisations, carried by NVIDIA FLARE.

Nothing here is needed for runs in one process, and FLARE itself is imported only when something is
asked of it: install it with ``pip install 'fedsift[flare]'``.
"""
