# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""VF-PS: selects participants by the mutual information of their columns with the label."""
