# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Class products: encrypted columns times encrypted labels, at depth one."""
