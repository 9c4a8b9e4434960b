"""Steps in job files: read with their seeds, and refused where they make no sense."""

import pytest

from fedsift.config.job import load_job
from fedsift.config.steps import step_seed
from fedsift.errors import JobError
from fedsift.jobs.spec import JointJob
from fedsift.methods.registry import schemas

HEAD = """\
[job]
seed = 7
[data]
setting = "vertical"
label = { party = "bank", column = "default" }
[[party]]
name = "bank"
[[party]]
name = "shop"
"""
FIRST = HEAD.count("\n") + 1


def load(tmp_path, steps, head=HEAD):
    path = tmp_path / "job.toml"
    path.write_text(head + steps, encoding="utf-8")
    return load_job(path, schemas(), ["wine"], engine="flare" if "[[party]]" in head else None)


def problems(tmp_path, steps, head=HEAD):
    with pytest.raises(JobError) as caught:
        load(tmp_path, steps, head)
    return caught.value.problems


CHAIN = """\
[[step]]
method = "vfps"
n_participants = 1

[[step]]
method = "filter"
n_features_to_select = 4
seed = 3
bins = { age = [20, 40] }

[[step]]
method = "train"
max_epochs = 5

[[step]]
method = "predict"
"""


def test_a_chain_is_read_with_a_seed_for_every_step(tmp_path):
    job = load(tmp_path, CHAIN)

    assert (job.method, job.parameters) == ("chain", {})
    assert [step.method for step in job.steps] == ["vfps", "filter", "train", "predict"]
    assert job.steps[1].parameters == {"n_features_to_select": 4, "bins": {"age": [20, 40]}}
    assert job.steps[3].parameters == {"rows": "held-out", "share": 0.2}
    assert [step.seed for step in job.steps] == [
        step_seed(7, 1),
        3,
        step_seed(7, 3),
        step_seed(7, 4),
    ]
    assert len({step.seed for step in job.steps}) == 4


def test_sites_get_the_same_text_and_refuse_another(tmp_path):
    job = JointJob.from_job(load(tmp_path, CHAIN))

    assert JointJob.from_text(job.to_text()) == job
    assert job.neutrals == ("aggregator",)
    trained = {"max_epochs": 5, "gates": "none", "init": "constant"}
    assert job.step(3).parameters == trained
    bad = [
        job.to_text().replace('"method":"train"', '"method":"fedsdg"', 1),
        job.to_text().replace('"share":0.2', '"share":2.0', 1),
        job.to_text().replace('"max_epochs":5', '"checkpoint":"/etc"', 1),
        job.to_text().replace('"method":"chain"', '"method":"filter"', 1),
    ]
    for text in bad:
        assert text != job.to_text()
        with pytest.raises(JobError):
            JointJob.from_text(text)


@pytest.mark.parametrize(
    ("steps", "line", "text"),
    [
        ('[[step]]\nmethod = "predict"\n', 1, "predict has no model"),
        ('[[step]]\nmethod = "fliter"\n', 1, "Did you mean 'filter'?"),
        ('[[step]]\nn_features = 3\n', 0, "A step names no method."),
        ('[[step]]\nmethod = "dcfs"\n', 1, "dcfs does not work in the vertical setting."),
        (
            '[[step]]\nmethod = "train"\n[[step]]\nmethod = "filter"\n',
            3,
            "filter comes after train.",
        ),
        (
            '[[step]]\nmethod = "train"\n[[step]]\nmethod = "predict"\n[[step]]\nmethod = "predict"',
            5,
            "predict has no model",
        ),
        (
            '[[step]]\nmethod = "filter"\nn_features_to_select = 3\n'
            '[[step]]\nmethod = "interaction"\nn_features_to_select = 5\n',
            5,
            "step 1 leaves 3 at most",
        ),
        (
            '[[step]]\nmethod = "vfps"\nn_participants = 1\n'
            '[[step]]\nmethod = "vfps"\nn_participants = 1\n',
            5,
            "Nothing is left to choose from.",
        ),
        ('[[step]]\nmethod = "filter"\nscroe = "f"\n', 2, "Did you mean 'score'?"),
        ('[[step]]\nmethod = "filter"\nrandom_state = 1\n', 2, "seed in [job]"),
        ('[[step]]\nmethod = "train"\nlam = 1\n', 2, "Unknown key 'lam'"),
        ('[[step]]\nmethod = "filter"\nseed = -1\n', 2, "seed is negative."),
        (
            '[[step]]\nmethod = "train"\n[[step]]\nmethod = "predict"\nshare = 1.5\n',
            4,
            "between 0 and 1",
        ),
        (
            '[[step]]\nmethod = "train"\n[[step]]\nmethod = "predict"\nrows = "unlabeled"\n',
            4,
            "Did you mean 'unlabelled'?",
        ),
        ('[[step]]\nmethod = "filter"\n[method]\nscore = "f"\n', 2, "Both [[step]] and [method]"),
    ],
)  # fmt: skip
def test_steps_that_make_no_sense(tmp_path, steps, line, text):
    found = problems(tmp_path, steps)

    assert len(found) == 1, found
    assert found[0].startswith(f"line {FIRST + line}: ")
    assert text in found[0]


def test_a_method_beside_steps(tmp_path):
    head = HEAD.replace("seed = 7", 'method = "filter"')
    (found,) = problems(tmp_path, '[[step]]\nmethod = "filter"\n', head)
    assert found.startswith("line 2: Both [[step]] and method in [job] are given.")


def test_no_steps_at_all(tmp_path):
    assert "no steps" in problems(tmp_path, "", "step = []\n" + HEAD)[0]


def test_a_catalogued_set_has_labels_everywhere(tmp_path):
    head = '[job]\n[data]\ndataset = "wine"\n'
    steps = '[[step]]\nmethod = "train"\n[[step]]\nmethod = "predict"\nrows = "unlabelled"\n'
    assert "has no rows without a label" in problems(tmp_path, steps, head)[0]
