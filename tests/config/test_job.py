"""Job and party files: what is read, and every problem with its line."""

import dataclasses
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.config.job import MethodSchema, load_job
from fedsift.config.parties import POLICY_KEYS, load_party
from fedsift.config.toml import line_numbers
from fedsift.errors import FedsiftError, JobError
from fedsift.protocol import Policy

METHODS = {
    "filter": MethodSchema(
        {"score": (str,), "n_features_to_select": (int, float), "bins": (int, list, dict)},
        frozenset({"feature-scores", "bin-counts"}),
        elsewhere={"random_state": "seed in [job]"},
    ),
    "vfps": MethodSchema({"k": (int,)}, settings=("vertical",)),
}
GOOD = """\
[job]
method = "filter"
seed = 7
timeout_seconds = 30

[data]
setting = "vertical"
label = { party = "bank", column = "default" }
id = "customer"
categorical = ["region"]

[[party]]
name = "bank"
data = "bank.csv"
policy = { may_reveal = ["feature-scores"], min_bin_size = 10 }

[[party]]
name = "shop"
data = "shop.csv"
id = ["number"]
columns = [
  "visits",  # a comment
]

[method]
score = "gini"
"""


@pytest.fixture
def load(tmp_path):
    for name in ("bank.csv", "shop.csv"):
        (tmp_path / name).write_text("a\n1\n")

    def loaded(text=GOOD, **changes):
        for old, new in changes.get("swap", {}).items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "job.toml"
        path.write_text(text, encoding="utf-8")
        return load_job(path, METHODS, ["wine", "breast_cancer"])

    loaded.folder = tmp_path
    return loaded


def problems(load, **changes):
    with pytest.raises(JobError) as caught:
        load(**changes)
    return caught.value.problems


def test_a_good_job(load):
    job = load()

    assert (job.method, job.seed, job.timeout_seconds, job.engine) == ("filter", 7, 30, "embedded")
    assert job.data.label_party == "bank"
    assert job.data.categorical == ("region",)
    bank, shop = job.parties
    assert bank.data == load.folder / "bank.csv"
    assert (bank.id_columns, shop.id_columns) == (("customer",), ("number",))
    assert (bank.columns, shop.columns) == (None, ("visits",))
    assert job.policies == {"bank": {"may_reveal": ["feature-scores"], "min_bin_size": 10}}
    assert job.parameters == {"score": "gini"}
    assert job.output == load.folder / "job-out"


def test_a_catalogued_set(load):
    job = load('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nparties = ["a", "b"]\n')

    assert (job.data.dataset, job.data.parties, job.data.setting) == (
        "wine",
        ("a", "b"),
        "vertical",
    )


def test_party_entries_name_the_parties_of_a_split(load):
    job = load('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\n[[party]]\nname = "solo"\n')

    assert job.data.parties == ("solo",)


@pytest.mark.parametrize(
    ("swap", "line", "words"),
    [
        ({'"filter"': '"filtr"'}, 2, "Did you mean 'filter'?"),
        ({"seed = 7": "sead = 7"}, 3, "Did you mean 'seed'?"),
        ({"seed = 7": "seed = -7"}, 3, "negative"),
        ({"seed = 7": "seed = true"}, 3, "is true or false. It must be a whole number."),
        ({"= 30": "= 0"}, 4, "positive"),
        ({"= 30": "= nan"}, 4, "positive"),
        ({'"vertical"': '"sideways"'}, 7, "vertical, horizontal"),
        ({'party = "bank", ': ""}, 8, "A vertical job needs label"),
        ({'party = "bank", column': 'party = "bnak", column'}, 8, "Did you mean 'bank'?"),
        ({'["region"]': '["region", 3]'}, 10, "a list of texts"),
        ({"may_reveal": "may_revael"}, 15, "Did you mean 'may_reveal'?"),
        ({"feature-scores": "feature-score"}, 15, "Did you mean 'feature-scores'?"),
        ({"min_bin_size = 10": "min_bin_size = -1"}, 15, "negative"),
        ({'"shop.csv"': '"."'}, 19, "a directory"),
        ({"[method]": "[metod]"}, 25, "Did you mean 'method'?"),
        ({"score =": "scores ="}, 26, "Did you mean 'score'?"),
        ({"score =": "random_state ="}, 26, "seed in [job]"),
        ({'"gini"': "3"}, 26, "text in quotes"),
        ({"[method]": '[runtime]\nengine = "flare"\n[method]'}, 25, "has no kit"),
        ({"[method]": '[runtime]\nengine = "embeded"\n[method]'}, 26, "'embedded'"),
    ],
)
def test_a_problem_and_its_line(load, swap, line, words):
    (problem,) = problems(load, swap=swap)

    assert problem.startswith(f"line {line}: ")
    assert words in problem


def test_one_problem_reads_as_one_line(load):
    with pytest.raises(JobError) as caught:
        load(swap={"seed = 7": "sead = 7"})

    assert caught.value.one_line == (
        "E202: job.toml, line 3: Unknown key 'sead' in [job]. "
        "Known keys: method, seed, timeout_seconds. Did you mean 'seed'?"
    )


def test_all_problems_at_once_in_order(load):
    found = problems(load, swap={"seed": "sead", '"gini"': "3", '"shop.csv"': '"gone.csv"'})

    assert [problem.split(":")[0] for problem in found] == ["line 3", "line 19", "line 26"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no method"),
        ("job = 3", "job in the file is a whole number"),
        ('[job]\nmethod = "filter"', "no [data]"),
        ('[job]\nmethod = "filter"\n[data]', "setting is not given"),
        ('[job]\nmethod = "filter"\n[data]\nsetting = "vertical"', "has no data"),
        ('[job]\nmethod = "vfps"\n[data]\ndataset = "wine"\nsetting = "horizontal"', "vertical"),
        ('[job]\nmethod = "filter"\n[data]\ndataset = "wein"', "Did you mean 'wine'?"),
        ('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nid = "a"', "with a dataset"),
        ('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nparties = 0', "1 or more"),
        ('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nlabel_holder = "x"', "no party 'x'"),
        ('[job]\nmethod = "filter"\n[data]\ndataset = "wine"\nskew = "kmeans"', "horizontal"),
        ('party = ["a"]', "Write [[party]] tables"),
        ("[[party]]\nname = 3", "text in quotes"),
        ('[[party]]\nname = " "', "has no name"),
        ('[[party]]\nname = "a"\n[[party]]\nname = "A "', "first in line 2"),
        ('[[party]]\nname = "a"\n[data]\nsetting = "vertical"', "Party 'a' has no data"),
        ('[[party]]\nfile = "gone.toml"', "not there"),
        ('[[party]]\nname = "a"\ndata = "bank.csv"\n[data]\ndataset = "wine"', "Both dataset"),
    ],
)
def test_what_is_missing_or_does_not_fit(load, text, words):
    assert words in "\n".join(problems(load, text=text))


@pytest.mark.parametrize(
    ("text", "line"),
    [("[job", 1), ("[job]\nseed = 1\nseed = 2", 3), ('a = "', 1), ("a = 1\nb = nope", 2)],
)
def test_broken_toml_has_a_line(load, text, line):
    (problem,) = problems(load, text=text)

    assert problem.startswith(f"line {line}: Not valid TOML: ")
    assert "(at " not in problem


@given(st.text(alphabet="[]{}=\"'#,.\n abj1", max_size=60))
def test_no_text_crashes_the_reader(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(FedsiftError):
        load_job(path, METHODS)


def test_a_party_file(load):
    (load.folder / "own.toml").write_text(
        '[party]\nname = "shop"\n[data]\npath = "shop.csv"\nid = "nr"\n'
        "[policy]\nmin_security_bits = 128\n"
    )

    entry = load_party(load.folder / "own.toml")

    assert (entry.name, entry.id_columns) == ("shop", ("nr",))
    assert entry.data == load.folder / "shop.csv"
    assert entry.policy == {"min_security_bits": 128}


def test_problems_of_a_party_file_are_listed_with_the_job(load):
    (load.folder / "own.toml").write_text('[party]\nnam = "shop"\n')

    found = problems(load, text='[job]\nmethod = "filter"\n[[party]]\nfile = "own.toml"\n')

    assert sum("own.toml, " in problem for problem in found) == 3
    assert any("Did you mean 'name'?" in problem for problem in found)


def test_a_party_cannot_have_two_names(load):
    (load.folder / "own.toml").write_text('[party]\nname = "shop"\n[data]\npath = "shop.csv"\n')

    found = problems(load, text='[[party]]\nname = "x"\nfile = "own.toml"\ndata = "shop.csv"\n')

    assert any("called 'x' here and 'shop'" in problem for problem in found)
    assert any("Both file and data" in problem for problem in found)


def test_policy_keys_are_those_of_a_policy():
    assert list(POLICY_KEYS) == [field.name for field in dataclasses.fields(Policy)]


def test_lines_of_unusual_toml():
    text = (
        '# [no]\na.b = 1\n"c d" = """\nx = 1\n[no]\n"""\n'
        "e = [\n  { f = 1 },\n  2,\n]\n[t.u] # x = 2\nv = '''\n=\n''' # ]\nw = 3\n"
    )

    assert tomllib.loads(text)
    assert line_numbers(text) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("c d",): 3,
        ("e",): 7,
        ("t", "u"): 11,
        ("t", "u", "v"): 12,
        ("t", "u", "w"): 15,
    }


SURVIVAL = {'column = "default"': 'time = "days", event = "died"'}


def test_a_label_of_survival_times(load):
    for swap in (SURVIVAL, SURVIVAL | {"[data]": '[data]\ntask = "survival"'}):
        data = load(swap=swap).data

        assert data.label == {"time": "days", "event": "died"}
        assert (data.label_party, data.task) == ("bank", "survival")
    rows = load(
        '[job]\nmethod = "filter"\n[data]\nsetting = "horizontal"\n'
        'label = { time = "days", event = "died" }\n[[party]]\nname = "a"\ndata = "bank.csv"\n'
    )
    assert rows.data.label == {"time": "days", "event": "died"}


@pytest.mark.parametrize(
    ("swap", "words"),
    [
        ({'column = "default"': 'time = "days"'}, "and no column"),
        ({'column = "default"': 'time = "days", event = "died", column = "x"'}, "and no column"),
        (SURVIVAL | {"[data]": '[data]\ntask = "regression"'}, "goes with a label of time"),
        ({"[data]": '[data]\ntask = "survival"'}, "goes with a label of time"),
        ({'column = "default"': 'tme = "days", event = "died"'}, "Did you mean 'time'?"),
    ],
)
def test_a_label_of_survival_times_names_both(load, swap, words):
    assert any(words in problem for problem in problems(load, swap=swap))
