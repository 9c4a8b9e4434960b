"""The page about interrupted runs: its example runs, and its job file is one."""

import re
from pathlib import Path

import numpy as np

import fedsift as fs
from fedsift.cli.prepare import read_job

PAGE = (Path(__file__).parents[2] / "docs" / "resume.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_resumes_and_gives_the_same():
    (example,) = blocks("python")
    names = {}
    exec(compile(example, "resume.md", "exec"), names)  # noqa: S102 - our own page
    settings = {"n_rounds": 3, "n_iterations": 5, "random_state": 0}
    whole = fs.FPSOSelector(**settings).fit(names["X"], names["y"])
    assert np.array_equal(names["resumed"].support_, whole.support_)
    assert not list(Path(names["place"]).iterdir())


def test_the_job_file_names_a_place_for_checkpoints(tmp_path):
    (job,) = blocks("toml")
    path = tmp_path / "job.toml"
    data = '[data]\ndataset = "wine"\nsetting = "horizontal"\n'
    path.write_text(job + data, encoding="utf-8")
    assert read_job(path).checkpoint == tmp_path / "kept"
