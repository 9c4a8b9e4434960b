# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS: a gate per feature, opened and closed while the parties train a network."""
