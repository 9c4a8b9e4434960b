# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""FedSDG-FS in which no row is opened to anybody: ``protocol="blind"``."""
