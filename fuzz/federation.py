# SPDX-FileCopyrightText: The fedsift authors
# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed of a federation: what organisations send each other, and their own records."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing, suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedsift.costs import rates
from fedsift.crypto.columns.api import ColumnSpec, join_columns
from fedsift.crypto.envelope import OrganisationKey, seal_letter
from fedsift.crypto.layer.api import join_layer
from fedsift.crypto.masking import MaskingKey, PairwiseMasks
from fedsift.crypto.products.between_two import join_products
from fedsift.crypto.schemes.paillier import PaillierPrivateKey
from fedsift.crypto.schemes.seal import SealOwner, SealParameters, SealPublic, plain_primes
from fedsift.crypto.schemes.seal_seeded import SeededEncryptor, SeededReader
from fedsift.crypto.vectors.api import join_vector
from fedsift.crypto.wire import Ciphertexts, PublicKeys
from fedsift.data.state_files import Checkpoints
from fedsift.deploy.flare import wire as flare
from fedsift.deploy.sealed_reports import (
    Report,
    decode_job,
    fingerprint_of,
    open_report,
    verify_job,
)
from fedsift.deploy.site_files import read_pinned, read_signing_keys
from fedsift.engine.observer import ProgressSnapshot
from fedsift.engine.remote import wire
from fedsift.engine.remote.secure_transport import SecureTransport, _fresh_of
from fedsift.engine.session import Session
from fedsift.errors import FedsiftError
from fedsift.jobs.chain_files import StepFiles
from fedsift.jobs.history import HISTORY_FILE, History, JobRecord
from fedsift.jobs.inbox import Inbox
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import load_address
from fedsift.protocol.commitments import MessageLine
from fedsift.protocol.message import MAGIC, Codec, MaskedArray, Message, PublicArray
from fedsift.protocol.policy import Policy
from fedsift.protocol.resume import Kept
from fedsift.protocol.transcript import Ledger, Transcript
from fedsift.protocol.verify import verify_result
from fedsift.result import SelectionResult
from fuzz.harness import file_of, folder, patched, target

_PROTOCOLS = (
    "fedsift.methods.filter.label_holder:PROTOCOL",
    "fedsift.methods.filter.coordinator:PROTOCOL",
    "fedsift.methods.interaction.label_owner:PROTOCOL",
    "fedsift.methods.vfps.leader:PROTOCOL",
    "fedsift.methods.dcfs.coordinator:PROTOCOL",
    "fedsift.methods.fpso.third_party:PROTOCOL",
    "fedsift.methods.fedsdg.messages:DECLARED",
    "fedsift.methods.fedsdg.blind.messages:LISTED",
    "fedsift.jobs.setup:PROTOCOL",
    "fedsift.jobs.align:PROTOCOL",
    "fedsift.jobs.collect:PROTOCOL",
    "fedsift.jobs.chain_messages:PROTOCOL",
)
_RUN, _JOB_NAME = "run", "0" * 64


@cache
def _codecs() -> tuple[tuple[Codec, tuple[type[Message], ...]], ...]:
    """A codec for every protocol; messages of different ones may have the same name."""
    every = (tuple(load_address(address).messages) for address in _PROTOCOLS)
    return tuple((Codec(messages), messages) for messages in every)


@target
def frame(data: bytes) -> object:
    """A message of any protocol on its way, and the arrays, keys and ciphertexts in it."""
    received, refused = [], []
    for codec, known in _codecs():
        try:
            received.append(codec.decode(MAGIC + data, known))
        except FedsiftError as error:
            refused.append(error)
    for one in received:
        for name in one.__struct_fields__:
            with suppress(FedsiftError):
                _use(getattr(one, name))
    if not received:
        raise refused[0]
    return received


def _use(value: Any) -> None:
    if isinstance(value, (PublicArray, MaskedArray)):
        value.array()
    elif isinstance(value, PublicKeys):
        _join(value)
    elif isinstance(value, dict) and value:
        if all(isinstance(one, PublicKeys) for one in value.values()):
            PairwiseMasks("bank", MaskingKey.generate(), value)
        for one in value.values():
            _use(one)
    elif isinstance(value, tuple):
        for one in value:
            _use(one)


def _join(keys: PublicKeys) -> None:
    spec = ColumnSpec(n_samples=30, n_columns=1, result_bits=20)
    with suppress(FedsiftError):
        join_columns(keys, Ciphertexts(keys.scheme, ()), spec)
    with suppress(FedsiftError):
        join_layer(keys, 4, 3, 2)
    with suppress(FedsiftError):
        join_vector(keys, 40)
    join_products(keys)


@target
def submitted_job(data: bytes) -> object:
    """The text of a job that was submitted."""
    return JointJob.from_text(data.decode(errors="replace"))


@target
def site_message(data: bytes) -> object:
    """What one site asks another, and what it replies."""
    with suppress(FedsiftError):
        wire.decode_request(data)
    reply = wire.decode_reply(data)
    if isinstance(reply, wire.SiteCounts):
        return [count.to_entry() for count in reply.counts]
    return reply


@target
def handshake(data: bytes) -> object:
    """What two sites agree on before they ask anything."""
    own, other = _organisations()
    line = SecureTransport(
        SimpleNamespace(site="bank"),  # type: ignore[arg-type]
        own,
        {"shop": other.public},
        session="session",
        fingerprint="0" * 64,
        attempts=1,
    )
    return _fresh_of(data), line._agreed("shop", data)


@target
def stored_job(data: bytes) -> object:
    """What the hub stores of a job, and the job in it."""
    with suppress(FedsiftError):
        decode_job(data.decode(errors="replace"))
    path = file_of("downloaded/fedsift/config/config_fed_server.json", data)
    return flare.read_job_text(path.parents[2])


@cache
def _organisations() -> tuple[OrganisationKey, OrganisationKey]:
    first, second = (OrganisationKey.from_bytes(bytes([n]) * 32) for n in (1, 2))
    return first, second


@target
def sealed_report(data: bytes) -> object:
    """A member's report and its progress, well sealed, and the signature of a job."""
    own, other = _organisations()
    text = data.decode(errors="replace")
    with suppress(FedsiftError):
        verify_job("job", "bank", own, "shop", other.public, text)
    opened: list[Report] = []
    for kind, topic in ((ProgressSnapshot, "progress"), (Report, "report")):
        about = f"{topic} {fingerprint_of('job')}"
        letter = seal_letter("shop", other, "bank", own.public, about, data)
        with suppress(FedsiftError):
            one = open_report(kind, letter, "bank", own, "shop", other.public, "job")
            opened += [one] if isinstance(one, Report) else []
    for report in opened:
        report.to_error()
        report.decode_result()
    return opened


@cache
def _job() -> JointJob:
    return JointJob(
        method="filter",
        setting="vertical",
        parties=("bank", "shop"),
        label_party="bank",
        labelled=True,
    )


@cache
def _history() -> bytes:
    """A history of one job, which is in the inbox too."""
    path = folder() / "new" / HISTORY_FILE
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    history = History(path.parent)
    history.begin(_job(), "bank.csv")
    _record(history).charge({"all": np.arange(9, dtype=np.uint64)})
    _record(history, {"all": np.arange(9, dtype=np.uint64)}).admit()
    Inbox(path.parent).ask(_job(), 1e9)
    return path.read_bytes()


def _record(history: History, digests: Any = None) -> JobRecord:
    return JobRecord(history, _job(), "bank", Policy(), "bank.csv", digests or {})


@target
def history(data: bytes) -> object:
    """The file of a member's history and inbox, with some of its bytes changed."""
    return _remember(patched(_history(), data))


@target
def history_cells(data: bytes) -> object:
    """The same file, with other texts in it; one line for each."""
    path = file_of(f"history/{HISTORY_FILE}", _history())
    parties, revealed, state, epsilon, text, decision, digests = (
        *data.decode(errors="replace").split("\n", 6),
        *[""] * 7,
    )[:7]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "UPDATE jobs SET parties = ?, revealed = ?, state = ?, epsilon = ?",
            (parties, revealed, state, epsilon),
        )
        db.execute("UPDATE inbox SET text = ?, state = ?", (text or _job().to_text(), decision))
        db.execute("UPDATE row_sets SET digests = ?", (digests.encode(),))
    return _remember(path.read_bytes())


def _remember(raw: bytes) -> object:
    """Read all of a history, and take part in one more job."""
    path = file_of(f"history/{HISTORY_FILE}", raw)
    path.with_name(f"{HISTORY_FILE}-journal").unlink(missing_ok=True)
    kept = History(path.parent)
    another = _record(kept, {"all": np.arange(7, dtype=np.uint64)})
    asks = (
        lambda: kept.row_key,
        lambda: kept.budget("bank.csv", Policy()),
        lambda: Inbox(path.parent).list_requests(Policy()),
        lambda: Inbox(path.parent).decide(_job().fingerprint[:8], approve=True),
        lambda: another.check_ids(9, 9),
        another.admit,
    )
    for ask in asks:
        with suppress(FedsiftError):
            ask()
    return kept.list_jobs()


@target
def ledger(data: bytes) -> object:
    """A result whose ledger is verified, with the keys in it and with other ones."""
    found = SelectionResult.load(file_of("signed.json", data))
    keys = {"bank": bytes(32), "hub": bytes(32)}
    return verify_result(found, quick=True), verify_result(found), verify_result(found, keys)


@target
def ledger_line(data: bytes) -> object:
    """One message in a chain of signatures."""
    line = MessageLine.from_text(data.decode(errors="replace"))
    return None if line is None else (line.is_mark, line.concerns("bank"), line.to_text(b"", b""))


@target
def signing_keys(data: bytes) -> object:
    """Files with public signing keys, and keys pinned in settings."""
    path = file_of("signing.toml", data)
    for which in ("pinned", "signing"):
        with suppress(FedsiftError):
            read_pinned(path, which)
    return read_signing_keys([path])


@target
def private_key(data: bytes) -> object:
    """A party's own Paillier key, of any length."""
    with suppress(FedsiftError):
        PaillierPrivateKey.from_bytes(data)
    return PaillierPrivateKey.from_bytes(data, allow_weak=True)


@cache
def _lattice() -> tuple[SealParameters, SealOwner, SealPublic, tuple[bytes, ...]]:
    """Keys of the smallest ring, and valid ciphertexts at both levels and with a seed."""
    parameters = SealParameters("bgv", 8192, 2, plain_primes(8192, 40)[0])
    owner = SealOwner(parameters)
    public = SealPublic(parameters, owner.public_blobs)
    slots = np.arange(8192, dtype=np.uint64)
    fresh = owner.encrypt(slots)
    loaded = public.workspace.ciphertext(fresh, parameters.levels)
    hidden = public.hide_circuit(loaded, 50.0)
    seeded = SeededEncryptor(owner).encrypt_slots(slots)
    return parameters, owner, public, (fresh, hidden, seeded, *owner.public_blobs)


@target
def lattice(data: bytes) -> object:
    """SEAL's ciphertexts and keys; the first byte says which, the others change its bytes."""
    parameters, owner, public, blobs = _lattice()
    which = data[0] % len(blobs) if data else 0
    blob = patched(blobs[which], data[1:])
    if which == 0:
        return public.workspace.ciphertext(blob, parameters.levels)
    if which == 1:
        return owner.decrypt(blob)
    if which == 2:
        return SeededReader(public).load(blob)
    return SealPublic(parameters, (blob,))


@target
def checkpoint(data: bytes) -> object:
    """What an intact checkpoint holds: of a step of a chain, and of a role."""
    raw, numbers = io.BytesIO(), np.arange(8).reshape(2, 4)
    np.savez(raw, index=np.frombuffer(data, dtype=np.uint8), a0=numbers, a1=np.arange(3.0))
    place = folder() / "steps"
    files = Checkpoints(place, "bank", "chain"), Checkpoints(place, "bank", "leader")
    for one in files:
        file_of(f"steps/{one.path(1).name}", raw.getvalue())
    kept, net = Kept(place, "bank", "leader", {"k": 3}, "data"), _Counting()
    try:
        with suppress(FedsiftError):
            kept.found()
        with suppress(FedsiftError):
            kept.load(_RUN, 1, net)  # type: ignore[arg-type]
    finally:
        kept.release()
    file_of(f"steps/{files[0].path(1).name}", raw.getvalue())
    steps = StepFiles(place, "bank", _JOB_NAME, "data")
    steps.found()
    return steps.left(1), steps.load(1)


class _Counting:
    """A network that only counts on."""

    def go_on(self, account: Any) -> None:
        made = {"transcript": Transcript(), "ledger": Ledger()}
        Session.go_on(SimpleNamespace(protocol=SimpleNamespace(name="vfps"), **made), account)  # type: ignore[arg-type]


@cache
def _machine() -> bytes:
    return rates.machine().encode()


@target
def machine_rates(data: bytes) -> object:
    """Seconds per unit of work, as an earlier run kept them."""
    known = rates._read(file_of("rates.json", data.replace(b"MACHINE", _machine())))
    return known if known is None else (known.age_days, known.measured, known["start"])
