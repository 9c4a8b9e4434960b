"""Every mistake in a project file is told with its line."""

import pytest

from fedsift.deploy.project import Submitter, load_project
from fedsift.errors import FileProblem, JobError
from helpers.deploy import ANN, write_project


def test_a_project_is_read(tmp_path):
    project = load_project(write_project(tmp_path))

    assert (project.name, project.host, project.port) == ("credit", "hub.example.org", 8002)
    assert project.organisations == ("bank", "shop-2")
    assert project.submitters == (Submitter(ANN, "bank"),)
    assert project.kit_names == ("hub", "bank", "shop-2", ANN)


@pytest.mark.parametrize(
    ("swap", "line", "words"),
    [
        ({'name = "credit"': 'name = "credit risk"'}, 2, "letters, digits and _"),
        ({'name = "credit"\n': ""}, 1, "needs a name"),
        ({'"hub.example.org"': '"hub.example.org:8002"'}, 5, "without a port"),
        ({'"hub.example.org"': '"bank"'}, 5, "an organisation too"),
        ({'host = "hub.example.org"\n': ""}, 4, "dials"),
        ({'"hub.example.org"': '""'}, 4, "dials"),
        ({"8002": "80020"}, 6, "from 1 to 65535"),
        ({"8002": '"8002"'}, 6, "a whole number"),
        ({"port = 8002": 'scheme = "udp"'}, 6, "grpc, http, tcp"),
        ({'"shop-2"': '"shop 2"'}, 12, "letters, digits, - and _"),
        ({'"shop-2"': '"BANK"'}, 12, "named twice"),
        ({'"shop-2"': '"coordinator"'}, 12, "reserved"),
        ({'"shop-2"': '"hub"'}, 12, "reserved"),
        ({f'"{ANN}"': '"ann"'}, 15, "e-mail address"),
        ({'organisation = "bank"': 'organisation = "bnak"'}, 16, "Did you mean 'bank'?"),
        ({'organisation = "bank"\n': ""}, 14, "Add organisation"),
        ({"[project]": "[projetc]"}, 1, "Did you mean 'project'?"),
        ({'name = "shop-2"': 'nmae = "shop-2"'}, 12, "Did you mean 'name'?"),
    ],
)
def test_a_problem_and_its_line(tmp_path, swap, line, words):
    with pytest.raises(JobError) as caught:
        load_project(write_project(tmp_path, swap))

    assert caught.value.exit_code == 2
    assert any(p.startswith(f"line {line}: ") and words in p for p in caught.value.problems)


def test_one_organisation_is_no_federation(tmp_path):
    with pytest.raises(JobError, match="at least two"):
        load_project(write_project(tmp_path, {'\n[[organisation]]\nname = "shop-2"\n': ""}))


def test_nobody_to_submit(tmp_path):
    path = write_project(tmp_path)
    path.write_text(path.read_text().split("[[submitter]]")[0])

    with pytest.raises(JobError, match="no submitter"):
        load_project(path)


def test_all_problems_at_once(tmp_path):
    with pytest.raises(JobError) as caught:
        load_project(write_project(tmp_path, {"8002": "0", '"shop-2"': '"bank"', "credit": "-"}))

    assert len(caught.value.problems) == 3


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileProblem, match="Cannot read"):
        load_project(tmp_path / "none.toml")
