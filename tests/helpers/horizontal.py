"""A member of a horizontal filter as it is once keys are exchanged, and what asks it."""

import numpy as np

from fedsift.crypto.checked_sums import CheckedSums
from fedsift.crypto.masking import MaskingKey
from fedsift.methods.filter.course import Course
from fedsift.methods.filter.member import Member
from fedsift.methods.filter.own_rows import OwnRows
from fedsift.protocol import PublicArray

SECRET = bytes(32)
NOTHING = PublicArray.of(np.empty(0))


class Seat:
    """One of two members, in one process."""

    identity = None

    def __init__(self, party="shop", others=("other",)):
        self.party, self._others = party, others

    def members(self, role):
        return (self.party, *self._others)


def ready_member(table, target, params, net=None):
    """A member that has masks with one other and shares a secret."""
    member, seat = Member(table, target, params), net or Seat(table.name)
    keys = {party: MaskingKey.generate().public for party in seat.members("member")}
    sums = member._sums
    keys[seat.party] = sums._key.public
    sums.meet(seat, keys, seat.members("member"))
    sums._checks = CheckedSums(SECRET, first=True)
    rows = OwnRows(table, target, params)
    member._course = Course(rows.schema(frequencies=rows.frequencies), params)
    return member


def first_ask(kind, member):
    """What comes first, if it is of this kind."""
    return kind(0, member._course.digest, NOTHING, NOTHING, NOTHING)
