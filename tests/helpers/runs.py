"""Runs whose frames are kept, and what a party read in them."""

from __future__ import annotations

from fedsift.data import Federation
from fedsift.engine import run_local
from fedsift.methods.filter import label_holder as filters
from fedsift.methods.filter.ranking import Params
from fedsift.protocol import Codec


def run_filter(federation: Federation, params: Params, **options):
    """The vertical filter with all frames kept: outcome and nodes."""
    holder = federation.label_holder or federation.parties[0]
    nodes = filters.build_nodes(
        federation.tables, holder, federation.target, federation.n_rows, params
    )
    return run_local(filters.PROTOCOL, nodes, keep_frames=True, **options), nodes


def received(outcome, party, *types, protocol=filters.PROTOCOL):
    """Messages of some types as a party decoded them from its bytes."""
    codec = Codec(protocol.messages)
    return list(outcome.transcript.messages(party, codec, list(types)))
