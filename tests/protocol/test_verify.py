"""A ledger is signed by all parties: every alteration is found and named, and no clean one is."""

import hashlib
import json

import msgspec
import numpy as np
import pytest

import fedsift as fs
from benchmarks.suites.verify.alterations import KINDS, alter
from fedsift.crypto.envelope import SigningKey
from fedsift.jobs.run import run_joint
from fedsift.protocol.commitments import (
    MESSAGES,
    MessageLine,
    Signer,
    head_of,
    mark_resumed,
    sign_again,
    to_base64,
)
from fedsift.protocol.verify import CONTRADICTED, DROPPED, FOREIGN, MISSING, verify_result
from fedsift.result import SelectionResult
from helpers.cli import call
from helpers.joint import columns_homes, horizontal, rows_homes, vertical
from helpers.relay import Sites
from helpers.resume import CASES, cut_run

PLAIN = {"security": "plain", "n_features_to_select": 2}
JOBS = {
    "vertical": (vertical("filter", **PLAIN), lambda job: columns_homes(job)),
    "horizontal": (
        horizontal("filter", bins=3, **PLAIN),
        lambda _: rows_homes(["income", "hours"]),
    ),
}


def at_sites(job, homes):
    """The coordinator's result, and the public keys that its sites sign with."""
    members = {party: party for party in job.parties} | dict.fromkeys(job.neutrals, "hub")
    sites = Sites(members)

    def play(engine):
        return run_joint(job, {p: homes[p] for p in engine.home if p in homes}, engine)

    ended = sites.run(play)
    assert {name: end.error for name, end in ended.items()} == dict.fromkeys(ended)
    keys = {name: key.signing.public for name, key in sites.keys.items()}
    return ended[members[job.coordinator]].value, keys


@pytest.fixture(scope="module")
def signed():
    """Results of one process, and of sites with pinned keys."""
    made = {}
    for name, (job, homes) in JOBS.items():
        made[name, "one process"] = (run_joint(job, homes(job)), None)
        made[name, "sites"] = at_sites(job, homes(job))
    return made


PLACES = [(name, place) for name in JOBS for place in ("one process", "sites")]


def check(result, original, keys):
    fingerprint = original.commitments.fingerprint if keys is None else None
    return verify_result(result, keys, fingerprint)


@pytest.mark.parametrize("which", PLACES, ids=" ".join)
def test_a_clean_ledger_passes(signed, which):
    result, keys = signed[which]

    found = check(result, result, keys)

    assert found.problems == ()
    assert found.passed
    assert found.n_messages == result.traffic.messages
    assert {row.learner for row in result.disclosures} <= set(found.parties)
    assert verify_result(result, quick=True).passed
    assert msgspec.json.decode(result.to_json(), type=SelectionResult) == result


@pytest.mark.parametrize("which", PLACES, ids=" ".join)
def test_every_alteration_is_found_and_named(signed, which):
    result, keys = signed[which]
    random = np.random.default_rng(5)
    plain = json.loads(result.to_json())
    for number in range(40 if "vertical" in which else 15):
        altered = alter(plain, KINDS[number % len(KINDS)], random)
        assert altered.result != plain

        found = check(msgspec.convert(altered.result, SelectionResult), result, keys)

        assert not found.passed
        assert altered.is_named_by(found), (altered.how, altered.where, altered.entries, found)


@pytest.mark.parametrize("which", PLACES, ids=" ".join)
def test_a_last_entry_that_was_dropped_is_named_although_the_end_was_repaired(signed, which):
    result, keys = signed[which]
    plain = json.loads(result.to_json())
    run = plain["commitments"]["run"]
    for chain in plain["commitments"]["messages"]:
        whole = dict(chain)
        *entries, last = chain["entries"]
        lines = [entry.partition("|")[2].rpartition("|")[0] for entry in entries]
        head = head_of(run, MESSAGES, chain["party"], lines)
        chain |= {"entries": entries, "count": len(entries), "head": head}

        found = check(msgspec.convert(plain, SelectionResult), result, keys)

        where = f"messages of {chain['party']!r}"
        assert (DROPPED, where) in {(one.kind, one.where) for one in found.problems}, last
        chain |= whole


ALTERED = {
    "selected": {"bank": [], "shop": ["visits"], "store": []},
    "scores": {"bank": {"income": 99.0}},
    "ranking": {},
    "p_values": {"bank": {"income": 0.001}},
    "q_values": {"bank": {"income": 0.001}},
    "security": "secure",
    "security_bits": 512,
    "parameters": {"score": "iv"},
    "shape": {"n_rows": 1_000_000},
    "seed": 1,
    "warnings": ["All is well."],
    "timings": {"total": 0.0},
    "method": "dcfs",
}


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", ALTERED)
@pytest.mark.parametrize("place", ["one process", "sites"])
def test_every_other_part_of_a_result_is_signed_too(signed, place, name, quick):
    result, keys = signed["vertical", place]
    plain = json.loads(result.to_json())
    assert plain[name] != ALTERED[name]
    altered = msgspec.convert(plain | {name: ALTERED[name]}, SelectionResult)

    found = verify_result(altered, keys, quick=quick)

    assert not found.passed
    named = {(one.kind, one.where) for one in found.problems if repr(name) in one.text}
    assert named == {("changed", "result")}
    assert verify_result(result, keys).covered[name][0] == "bank"


def test_it_says_what_is_covered_and_what_is_not(signed):
    result, keys = signed["vertical", "sites"]
    found = verify_result(result, keys)

    parts = {*result.__struct_fields__} - {"commitments", "steps"}
    assert {*found.covered, *found.not_covered} == {*parts, "messages"}
    assert found.not_covered == ("predicted",)
    assert set(found.covered["selected"]) == {"bank", "shop", "store"}
    assert found.covered["scores"] == found.covered["disclosures"] == ("bank",)
    told = msgspec.structs.replace(result, predicted={"seconds": 1.0})
    assert verify_result(told, keys).passed


def test_a_result_from_before_there_were_p_values_still_verifies(signed):
    """What its file lacks counts as empty, and that is what was signed."""
    result, keys = signed["vertical", "sites"]
    assert not any(result.p_values.values())
    whole = result.commitments.outcome
    lines = [entry.partition("|")[2].rpartition("|")[0] for entry in whole.entries]
    assert sum(line.startswith(("p_values|", "q_values|")) for line in lines) == 2
    plain = json.loads(result.to_json())
    del plain["p_values"], plain["q_values"]

    read = msgspec.convert(plain, SelectionResult)

    assert (read.p_values, read.q_values) == ({}, {})
    assert verify_result(read, keys).passed


def test_a_part_may_not_be_missing_or_signed_by_another_party(signed):
    result, keys = signed["vertical", "sites"]

    def problems(outcome):
        changed = msgspec.structs.replace(result.commitments, outcome=outcome)
        found = verify_result(msgspec.structs.replace(result, commitments=changed), keys)
        return {one.kind for one in found.problems}

    assert problems(None) == {MISSING}
    chain = result.commitments.outcome
    assert CONTRADICTED in problems(msgspec.structs.replace(chain, party="shop"))
    shorter = Signer(result.commitments.run, SigningKey.generate())
    assert FOREIGN in problems(shorter._sign("outcome", "bank", ["selected|x"]))


def test_a_coordinator_that_tells_other_columns_of_a_party_is_contradicted(signed):
    result, keys = signed["vertical", "sites"]
    chosen = {**result.selected, "shop": ("spend", "visits", "made up")}
    key = SigningKey.generate()
    told = msgspec.structs.replace(result, selected=chosen)
    forged = Signer(result.commitments.run, key).sign_ledger(
        told, "bank", [one for one in result.commitments.messages if one.party != "bank"]
    )

    found = verify_result(forged, keys | {"bank": key.public})

    text = "'shop' signed other selected columns of its own than the result has."
    assert (CONTRADICTED, "messages of 'shop'", text) in {
        (one.kind, one.where, one.text) for one in found.problems
    }


def test_a_result_whose_names_were_replaced_is_signed_again(signed):
    result, _ = signed["vertical", "one process"]
    chosen = {party: [f"{name} #" for name in own] for party, own in result.selected.items()}
    replaced = msgspec.structs.replace(result, selected=chosen)

    assert not verify_result(replaced).passed
    again = sign_again(replaced)
    assert verify_result(again).passed
    assert verify_result(again).n_messages == result.traffic.messages
    assert sign_again(msgspec.structs.replace(result, commitments=None)).commitments is None


@pytest.mark.parametrize("quick", [False, True])
def test_a_quick_check_finds_altered_messages_too(signed, quick):
    result, _ = signed["vertical", "one process"]
    random = np.random.default_rng(6)
    plain = json.loads(result.to_json())
    for how in ("dropped", "added", "reordered"):
        altered = msgspec.convert(alter(plain, how, random).result, SelectionResult)
        assert not verify_result(altered, quick=quick).passed


def test_whole_chains_cannot_be_left_out(signed):
    result, keys = signed["vertical", "sites"]
    for party in keys:
        left = [chain for chain in result.commitments.messages if chain.party != party]
        rest = msgspec.structs.replace(result.commitments, messages=tuple(left))

        found = verify_result(msgspec.structs.replace(result, commitments=rest), keys)

        assert (MISSING, f"messages of {party!r}") in {(p.kind, p.where) for p in found.problems}


def test_keys_in_the_file_prove_nothing_by_themselves(signed):
    """Whoever signs everything again is found by pinned keys or by the fingerprint alone."""
    result, keys = signed["vertical", "sites"]
    signers = {party: Signer(result.commitments.run, SigningKey.generate()) for party in keys}
    chains = [
        signers[chain.party].sign_messages(
            chain.party, [e.partition("|")[2].rpartition("|")[0] for e in chain.entries]
        )
        for chain in result.commitments.messages
    ]
    forged = signers["bank"].sign_ledger(result, "bank", chains)

    alone = verify_result(forged)
    assert alone.passed
    assert "the keys in the result itself" in alone.summary
    assert FOREIGN in {p.kind for p in verify_result(forged, keys).problems}
    told = result.commitments.fingerprint
    assert [p.kind for p in verify_result(forged, fingerprint=told).problems] == [FOREIGN]


def test_a_party_that_signs_something_else_is_contradicted(signed):
    """The shop has its own key: only the chains of the others show that it lies."""
    result, keys = signed["vertical", "sites"]
    shop = SigningKey.generate()
    keys = keys | {"shop": shop.public}
    chains = []
    for chain in result.commitments.messages:
        lines = [entry.partition("|")[2].rpartition("|")[0] for entry in chain.entries]
        if chain.party == "shop":
            told = next(i for i, line in enumerate(lines) if "|OwnOutline|" in line)
            lines[told] = lines[told].replace("|outline|", "|nothing|")
            chain = Signer(result.commitments.run, shop).sign_messages("shop", lines)
        chains.append(chain)
    lying = msgspec.structs.replace(result.commitments, messages=tuple(chains))

    found = verify_result(msgspec.structs.replace(result, commitments=lying), keys)

    assert {p.kind for p in found.problems} == {CONTRADICTED}
    assert all("OwnOutline from 'shop' to 'bank'" in p.text for p in found.problems)


def test_a_coordinator_that_signs_a_shorter_ledger_is_contradicted(signed):
    result, _ = signed["vertical", "one process"]
    key = SigningKey.generate()
    shorter = msgspec.structs.replace(result, disclosures=result.disclosures[1:])
    signer = Signer(result.commitments.run, key)

    found = verify_result(signer.sign_ledger(shorter, "bank", result.commitments.messages))

    assert found.problems
    assert {p.kind for p in found.problems} == {CONTRADICTED}
    assert result.disclosures[0].kind in found.problems[0].text


def test_a_commitment_shows_nothing_to_those_without_the_secret(signed):
    """A confirmation has always the same bytes: a bare digest would give such messages away."""
    frame = b"fsm\x01" + msgspec.msgpack.encode({"is": "Done"})
    bare = {to_base64(hashlib.sha256(frame).digest()), to_base64(hashlib.sha256(b"").digest())}
    for result, _ in signed.values():
        chain = result.commitments.messages[0]
        lines = [
            MessageLine.from_text(e.partition("|")[2].rpartition("|")[0]) for e in chain.entries
        ]
        done = [line for line in lines if line.message == "Done"]
        assert done
        assert {line.n_bytes for line in done} == {len(frame)}
        assert not bare & {line.commitment for line in lines}
        assert len({line.commitment for line in lines}) == len(lines)


def test_names_cannot_break_a_line():
    line = MessageLine("p", 1, "a|b\n", "x%7Cy", "c", "d", "M", "k", 3).to_text(b"s", b"frame")

    assert line.count("|") == 9
    assert "\n" not in line
    assert MessageLine.from_text(line).sender == "a|b\n"
    assert MessageLine.from_text(line).sender_role == "x%7Cy"
    assert MessageLine.from_text(mark_resumed("p", 3)).is_mark


@pytest.mark.parametrize("name", ["filter", "filter-horizontal"])
def test_a_resumed_run_says_what_it_did_not_sign(name, tmp_path):
    case = CASES[name]
    total = case.make(tmp_path / "whole").fit(case.federation()).result_.traffic.messages
    cut_run(case.make(tmp_path / "run"), case.federation(), int(0.8 * total))

    result = case.make(tmp_path / "run").fit(case.federation()).result_

    assert verify_result(result).passed
    assert any("(resumed)" in entry for entry in result.commitments.messages[0].entries)


def test_a_chain_is_signed_as_a_whole():
    X, y = np.random.default_rng(0).normal(size=(60, 6)), np.arange(60) % 2
    federation = fs.split_vertical(X, y, 2)
    steps = [fs.FilterSelector("gini", **(PLAIN | {"n_features_to_select": n})) for n in (4, 2)]

    result = fs.Chain(steps).fit(federation).result_

    found = verify_result(result)
    assert found.passed
    assert found.n_messages == result.traffic.messages
    assert all(step.commitments is None and not step.traffic.lines for step in result.steps)
    assert "step 1: scores" in found.covered
    first = msgspec.structs.replace(result.steps[0], scores={})
    altered = msgspec.structs.replace(result, steps=(first, *result.steps[1:]))
    assert ["Its 'step 1: scores'" in one.text for one in verify_result(altered).problems] == [True]
    for steps in (result.steps[:1], (*result.steps, first)):
        assert not verify_result(msgspec.structs.replace(result, steps=steps)).passed


def test_rows_aligned_beforehand_are_signed_for_too():
    pytest.importorskip("private_set_intersection", reason="openmined-psi is not installed")
    ids = [f"c{i}" for i in range(40)]
    values = np.random.default_rng(0).normal(size=40)
    bank = {"id": ids, "a": values, "y": np.arange(40) % 2}
    shop = {"id": ids[::-1], "b": values}
    federation = fs.Federation.vertical({"bank": bank, "shop": shop}, label=("bank", "y"), on="id")

    result = (
        fs.FilterSelector("gini", **(PLAIN | {"n_features_to_select": 1})).fit(federation).result_
    )

    assert {"common-ids"} <= {row.kind for row in result.disclosures}
    assert verify_result(result).problems == ()


class TestCommand:
    @pytest.fixture
    def path(self, signed, tmp_path):
        return signed["vertical", "sites"][0].save(tmp_path / "result.json")

    @pytest.fixture
    def keys(self, signed, tmp_path):
        own = signed["vertical", "sites"][1]
        text = "".join(f'{name} = "{to_base64(key)}="\n' for name, key in own.items())
        (tmp_path / "site.toml").write_text("[keys.signing]\n" + text)
        return tmp_path / "site.toml"

    def test_it_says_whose_keys_were_used(self, path, keys):
        alone, pinned = call("verify", path), call("verify", path.parent, "--keys", keys)

        assert alone.exit_code == pinned.exit_code == 0
        assert "bank, shop, store" in alone.out
        assert "keys in the result itself" in " ".join(alone.out.split())
        assert "keys that were given" in " ".join(pinned.out.split())
        assert "Signed by bank, shop, store: messages, selected" in " ".join(pinned.out.split())
        assert "Not signed: predicted" in pinned.out
        told = json.loads(call("verify", path, "--json").out)
        assert (told["covered"]["security"], told["not_covered"]) == (["bank"], ["predicted"])

    def test_it_names_what_was_altered(self, path, keys):
        plain = json.loads(path.read_text())
        plain["disclosures"][2]["kind"] = "nothing"
        path.write_text(json.dumps(plain))

        outcome = call("verify", path, "--keys", keys)

        assert outcome.exit_code == 5
        assert outcome.err.startswith("E502: ")
        assert "Row 2 was changed" in outcome.err
        assert call("verify", path, "--json").exit_code == 5

    @pytest.mark.parametrize("name", ["selected", "scores", "security", "parameters"])
    def test_it_names_a_part_of_the_result_that_was_altered(self, path, name):
        path.write_text(json.dumps(json.loads(path.read_text()) | {name: ALTERED[name]}))

        outcome = call("verify", path)

        assert outcome.exit_code == 5
        assert f"Its '{name}' was changed" in outcome.err

    def test_a_wrong_fingerprint(self, signed, path):
        right = signed["vertical", "sites"][0].commitments.fingerprint

        assert call("verify", path, "--fingerprint", right).exit_code == 0
        assert call("verify", path, "--fingerprint", "0000 1111").exit_code == 5

    def test_results_of_the_first_version_have_no_signatures(self, path):
        plain = json.loads(path.read_text())
        del plain["commitments"], plain["traffic"]["lines"]
        path.write_text(json.dumps(plain))

        assert SelectionResult.load(path).commitments is None
        outcome = call("verify", path)
        assert outcome.exit_code == 5
        assert "carries no signatures" in outcome.err

    def test_files_without_keys_are_refused(self, path, tmp_path):
        (tmp_path / "empty.toml").write_text("[keys.signing]\n")
        assert call("verify", path, "--keys", tmp_path / "empty.toml").err.startswith("E200")
        assert call("verify", path, "--keys", tmp_path / "none.toml").exit_code == 2
