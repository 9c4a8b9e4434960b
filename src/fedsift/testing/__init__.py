# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of methods, engines and kernels."""

from fedsift.testing.memory import MemoryHub, MemoryTransport, Packet, PacketLost

__all__ = ["MemoryHub", "MemoryTransport", "Packet", "PacketLost"]
