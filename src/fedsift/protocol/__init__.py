# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""Typed messages, roles, and the record of who learned what.

In the order they build on each other: message, codec, network, role, remote role, policy, protocol,
transcript, ledger.
"""

from fedsift.protocol.codec import Codec, Done, Fault
from fedsift.protocol.ledger import Ledger
from fedsift.protocol.message import MaskedArray, Message, PublicArray, message
from fedsift.protocol.policy import Policy
from fedsift.protocol.protocol import Protocol, messages_in
from fedsift.protocol.role import DrivingRole, Network, RemoteRole, Role, handles, make_role
from fedsift.protocol.transcript import Transcript

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
