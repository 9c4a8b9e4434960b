# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Typed messages, roles, and the record of who learned what.

In the order they build on each other: message, codec, network, role, remote role, policy, protocol,
transcript, ledger.
"""

from fedsift.protocol.message import Codec, Done, Fault, MaskedArray, Message, PublicArray, message
from fedsift.protocol.policy import Policy
from fedsift.protocol.role import (
    DrivingRole,
    Network,
    Protocol,
    RemoteRole,
    Role,
    handles,
    make_role,
    messages_in,
)
from fedsift.protocol.transcript import Ledger, Transcript

__all__ = [
    "Codec",
    "Done",
    "DrivingRole",
    "Fault",
    "Ledger",
    "MaskedArray",
    "Message",
    "Network",
    "Policy",
    "Protocol",
    "PublicArray",
    "RemoteRole",
    "Role",
    "Transcript",
    "handles",
    "make_role",
    "message",
    "messages_in",
]
