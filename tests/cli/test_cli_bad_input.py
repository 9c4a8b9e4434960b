"""Every wrong input: exit code 2, one line in three parts, no traceback, no cell value, no file."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from helpers.cli import CELL, Outcome, Workshop, call


def assert_refused(workshop: Workshop, outcome: Outcome, code: str, *words: str) -> None:
    assert outcome.exit_code == 2
    assert outcome.out == ""
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith(f"{code}: ")
    # What was found, what is needed, what to do: at least three sentences.
    assert len(re.findall(r"[.?](?:\s|$)", lines[0])) >= 3, lines[0]
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in outcome.err
    assert str(CELL) not in outcome.err
    assert not workshop.out.exists()
    assert not list(workshop.folder.glob(".fedsift-*"))


def test_a_missing_column(workshop):
    workshop.sections["data"]["label"]["column"] = "defualt"

    assert_refused(workshop, workshop.run(), "E101", "'defualt'", "Did you mean 'default'?")


def test_a_missing_id_column(workshop):
    workshop.sections["data"]["id"] = "client"

    assert_refused(workshop, workshop.run(), "E101", "'client'", "bank")


def test_a_missing_wanted_column(workshop):
    workshop.parties[1]["columns"] = ["visits", "spending"]

    assert_refused(workshop, workshop.run(), "E101", "'spending'", "shop")


def test_duplicate_ids(workshop):
    workshop.shop.loc[0, "customer_id"] = workshop.shop.loc[1, "customer_id"]

    outcome = workshop.run()

    assert_refused(workshop, outcome, "E103", "shop")
    assert workshop.shop.loc[1, "customer_id"] not in outcome.err.split()


def test_ids_that_nobody_else_has(workshop):
    workshop.shop["customer_id"] = [f"somebody-else-{number}" for number in range(60)]

    outcome = workshop.run()

    assert_refused(workshop, outcome, "E103", "No id is common to all 2 parties")
    assert "somebody-else" not in outcome.err


def test_one_class_only(workshop):
    workshop.bank["default"] = "no"

    assert_refused(workshop, workshop.run(), "E102", "class")


def test_an_all_nan_column(workshop):
    workshop.shop["spend"] = np.nan

    assert_refused(workshop, workshop.run(), "E101", "'spend'", "shop")


def test_infinite_values(workshop):
    workshop.shop.loc[4, "spend"] = np.inf

    assert_refused(workshop, workshop.run(), "E102", "'spend'", "infinit", "row 4")


def test_text_in_a_numeric_column(workshop):
    workshop.shop["spend"] = workshop.shop["spend"].astype(object)
    workshop.shop.loc[9, "spend"] = "a secret remark"

    outcome = workshop.run()

    assert_refused(workshop, outcome, "E102", "'spend'", "text", "row 9")
    assert "secret" not in outcome.err


@pytest.mark.parametrize("wanted", [6, 10, 99])
def test_more_features_wanted_than_there_are(workshop, wanted):
    workshop.sections["method"]["n_features_to_select"] = wanted

    assert_refused(workshop, workshop.run(), "E201", f"= {wanted}", "5 features", "from 1 to 5")


@pytest.mark.parametrize("wanted", [0, -3, 1.5])
def test_a_number_of_features_that_is_none(workshop, wanted):
    workshop.sections["method"]["n_features_to_select"] = wanted

    assert_refused(
        workshop,
        workshop.run(),
        "E202",
        "line 10",
        f"n_features_to_select = {wanted}",
        "share in (0, 1]",
    )


def test_an_empty_party(workshop):
    workshop.shop = workshop.shop.iloc[:0]

    assert_refused(workshop, workshop.run(), "E104", "shop", "empty")


def test_a_party_without_features(workshop):
    workshop.shop = workshop.shop[["customer_id"]]

    assert_refused(workshop, workshop.run(), "E104", "shop", "empty")


def test_a_party_named_twice(workshop):
    workshop.parties[1]["name"] = "Bank"

    assert_refused(workshop, workshop.run(), "E202", "'Bank' is named twice", "line 15")


def test_an_unknown_method(workshop):
    workshop.sections["job"]["method"] = "fliter"

    assert_refused(workshop, workshop.run(), "E202", "line 2", "'fliter'", "Did you mean 'filter'?")


def test_an_unknown_key(workshop):
    workshop.sections["method"]["n_feature_to_select"] = 3

    assert_refused(
        workshop, workshop.run(), "E202", "line 11", "Did you mean 'n_features_to_select'?"
    )


def test_a_missing_data_file(workshop):
    workshop.parties[1]["data"] = "shoop.csv"

    assert_refused(
        workshop,
        workshop.run(),
        "E202",
        "line 16",
        "'shoop.csv' is not there",
        "Did you mean 'shop.csv'?",
    )


def test_a_label_at_another_party(workshop):
    workshop.sections["data"]["label"]["party"] = "shop"

    assert_refused(
        workshop, workshop.run(), "E101", "'shop' has no column 'default'", "Party 'bank' has one"
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("~no-such-user/shop.csv", "a home that is not known here"),
        ("shop\0.csv", "is no path"),
        ("", "is no path"),
    ],
)
@pytest.mark.parametrize("place", ["data", "directory", "checkpoint"])
def test_a_path_that_cannot_be_one(workshop, place, path, words):
    if place == "data":
        workshop.parties[1]["data"] = path
    else:
        section = "output" if place == "directory" else "runtime"
        workshop.sections[section] = {place: path}

    assert_refused(workshop, workshop.run(), "E202", words)


def test_a_path_as_windows_writes_it(workshop):
    text = workshop.text().replace("shop.csv", "C:\\users\\shop.csv")

    assert_refused(workshop, workshop.run(text=text), "E202", "Not valid TOML", "in single quotes")


def test_an_unreadable_data_file(workshop):
    workshop.parties[1]["data"] = "noise.csv"
    (workshop.folder / "noise.csv").write_bytes(bytes(range(256)) * 8)

    assert_refused(workshop, workshop.run(), "E105", "noise.csv")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00job"])
def test_an_unreadable_job_file(workshop, content):
    path = workshop.folder / "job.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)

    outcome = call("run", path, "--out", workshop.out)

    assert_refused(workshop, outcome, "E105", "job.toml")


def test_a_job_file_that_is_not_there(workshop):
    outcome = call("run", workshop.folder / "nothing.toml", "--out", workshop.out)

    assert_refused(workshop, outcome, "E105", "nothing.toml", "'fedsift init' writes a new file")
    workshop.write()
    close = call("run", workshop.folder / "jobb.toml", "--out", workshop.out)
    assert_refused(workshop, close, "E105", "Did you mean", "job.toml'?")


def test_a_table_instead_of_a_job_file(workshop):
    workshop.write()
    outcome = call("run", workshop.folder / "bank.csv", "--out", workshop.out)

    assert_refused(workshop, outcome, "E202", "bank.csv, line 1", "'fedsift init' writes such a")


def test_a_job_file_that_is_not_toml(workshop):
    outcome = workshop.run(text="[job]\nmethod = filter\n")

    assert_refused(workshop, outcome, "E202", "job.toml, line 2", "Not valid TOML")


def test_an_unknown_data_set(workshop):
    workshop.sections["data"] = {"dataset": "wein"}
    workshop.parties = []

    assert_refused(workshop, workshop.run(), "E202", "'wein'", "Did you mean 'wine'?")


def test_a_wrong_choice_of_a_parameter(workshop):
    workshop.sections["method"]["score"] = "jini"

    assert_refused(workshop, workshop.run(), "E202", "'jini'", "Did you mean 'gini'?")


def test_the_engine_flare_without_a_kit(workshop):
    workshop.sections["runtime"] = {"engine": "flare"}

    assert_refused(workshop, workshop.run(), "E202", "'flare'", "has no kit")


def test_an_output_place_with_a_name_that_no_folder_has(workshop):
    workshop.write()
    outcome = call("run", workshop.folder / "job.toml", "--out", workshop.folder / ("a" * 300))

    assert_refused(workshop, outcome, "E105", "Cannot write to")


def test_an_output_place_that_is_a_file(workshop):
    (workshop.folder / "taken").write_text("kept")

    outcome = call("run", workshop.write(), "--out", workshop.folder / "taken" / "deeper")

    assert_refused(workshop, outcome, "E105", "taken is a file")
    assert (workshop.folder / "taken").read_text() == "kept"


def test_many_problems_are_listed_at_once(workshop):
    workshop.sections["job"] = {"method": "fliter", "sed": 1, "timeout_seconds": "long"}
    workshop.parties[0]["data"] = "nowhere.csv"

    outcome = workshop.run()

    assert outcome.exit_code == 2
    first, *problems = outcome.err.strip().splitlines()
    assert first == "E202: job.toml has 4 problems. Fix all of them before the job can be used."
    assert [re.match(r"  line (\d+): ", line)[1] for line in problems] == ["2", "3", "4", "14"]
    assert not workshop.out.exists()


def test_a_result_file_that_is_none(workshop):
    path = workshop.write()

    outcome = call("report", path)

    assert outcome.exit_code == 2
    assert outcome.err.startswith("E105: ")
    assert len(outcome.err.strip().splitlines()) == 1


LONG_PATH = "x" * 5000


def give_endless_name(workshop):
    workshop.shop = workshop.shop.rename(columns={"visits": "v" * 200_000})


def set_method(**settings):
    def change(workshop):
        workshop.sections["method"] |= settings

    return change


def set_seed(seed):
    def change(workshop):
        workshop.sections["job"]["seed"] = seed

    return change


def give_long_path(workshop):
    workshop.parties[1]["data"] = LONG_PATH + ".csv"


EXTREMES = {
    "a column name of 200,000 characters": (give_endless_name, "E105", "too long"),
    "epsilon": (set_method(bins=[0.5], epsilon=1e308), "E202", "epsilon = 1e+308"),
    "delta": (set_method(bins=[0.5], epsilon=1.0, delta=1e-320), "E202", "delta = 1e-320"),
    "release_epsilon": (set_method(bins=[0.5], release_epsilon=1e300), "E202", "release_epsilon"),
    "a seed of 1,000 digits": (set_seed(10**1000), "E202", "whole number of"),
    "a file path of 5,000 characters": (give_long_path, "E202", "is no path"),
}


@pytest.mark.parametrize("extreme", EXTREMES)
def test_extreme_settings(workshop, extreme):
    change, code, words = EXTREMES[extreme]
    change(workshop)

    assert_refused(workshop, workshop.run(), code, words)


@pytest.mark.parametrize(
    "text", ["seed = " + "1" * 10_000, "seed = " + "[" * 5000], ids=["digits", "nesting"]
)
def test_a_job_file_that_no_reader_takes(workshop, text):
    outcome = workshop.run(text=f"[job]\n{text}\n")
    assert_refused(workshop, outcome, "E202", "nested too deeply, or a number with too many digits")


@pytest.mark.parametrize("name", ["learning_rate", "gate_learning_rate", "sigma", "lam"])
def test_a_training_step_of_any_size(workshop, name):
    pytest.importorskip("torch")
    workshop.sections["job"]["method"] = "fedsdg"
    workshop.sections["method"] = {name: 1e300}

    assert_refused(workshop, workshop.run(), "E202", f"{name} = 1e+300")


@pytest.mark.parametrize("command", ["run", "plan", "report", "compare"])
def test_a_path_of_5000_characters(command):
    outcome = call(command, LONG_PATH)
    assert outcome.exit_code == 2
    assert outcome.err.startswith("E105: ")
    assert "File name too long" in outcome.err
    assert len(outcome.err) < 600


def test_broken_text_in_a_result(workshop):
    assert workshop.run().exit_code == 0
    path = workshop.out / "result.json"
    path.write_bytes(path.read_bytes().replace(b'"filter"', b'"\xff\xfe"', 1))

    outcome = call("report", path)

    assert outcome.exit_code == 2
    assert outcome.err.startswith("E105: ")
    assert "is not a fedsift result file" in outcome.err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["methods"], ["methods", "--json"], ["--version"]])
def test_a_full_standard_output(arguments):
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "fedsift", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 2
    assert ran.stderr.startswith("E105: The system refuses to write the output: No space left")
    assert "Traceback" not in ran.stderr


def test_out_of_memory(workshop, monkeypatch):
    def take_everything(*_):
        raise MemoryError

    monkeypatch.setattr("fedsift.result.SelectionResult.load", take_everything)
    outcome = call("report", workshop.write())
    assert outcome.exit_code == 3
    assert outcome.err.startswith("E601: There was not enough memory")
