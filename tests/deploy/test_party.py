"""An organisation's data and policy are checked before they are written down."""

import pytest

from fedsift.deploy.kits import PartyData, load_policy, set_party
from fedsift.deploy.site_files import load_site, settings_file
from fedsift.errors import ColumnError, ConfigError, FedsiftError, FileProblem, JobError


def test_data_and_policy_are_written_down(kits, bank_csv):
    data = PartyData(bank_csv, ("customer_id",), "default", ("income", "branch"), ("branch",))

    facts = set_party(kits["bank"], data, {"methods": ["filter"]})

    settings = load_site(kits["bank"].settings)
    assert facts.n_rows == 40
    assert facts.features == {"income": "numeric", "branch": "categorical"}
    assert settings.data == bank_csv.absolute()
    assert settings.label == "default"
    assert settings.columns == ("income", "branch")
    assert settings.policy == {"methods": ["filter"]}


def test_label_and_ids_are_no_features(kits, bank_csv):
    facts = set_party(kits["bank"], PartyData(bank_csv, ("customer_id",), "default"))

    assert set(facts.features) == {"income", "region", "branch"}


def test_a_policy_stays_when_only_the_data_changes(kits, bank_csv):
    set_party(kits["bank"], PartyData(bank_csv), {"min_rows": 30})
    set_party(kits["bank"], PartyData(bank_csv, ("customer_id",)))

    assert load_site(kits["bank"].settings).policy == {"min_rows": 30}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"path": "gone.csv"}, FileProblem),
        ({"path": "table.xls"}, FileProblem),
        ({"id_columns": ("customer",)}, ColumnError),
        ({"label": "defalt"}, ColumnError),
        ({"columns": ("income", "outcome")}, ColumnError),
        ({"label": "income", "columns": ("income",)}, ConfigError),
        ({"id_columns": ("region",)}, FedsiftError),
    ],
)
def test_wrong_data_changes_nothing(kits, bank_csv, data, error):
    before = settings_file(kits["bank"].settings).read_text()
    given = {"path": bank_csv} | data
    given["path"] = bank_csv.parent / given["path"]

    with pytest.raises(error):
        set_party(kits["bank"], PartyData(**given))
    assert settings_file(kits["bank"].settings).read_text() == before


def test_a_wrong_policy_changes_nothing(kits, bank_csv):
    before = settings_file(kits["bank"].settings).read_text()

    with pytest.raises(FedsiftError, match="methodes"):
        set_party(kits["bank"], PartyData(bank_csv), {"methodes": []})
    assert settings_file(kits["bank"].settings).read_text() == before


def test_a_policy_file(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('[policy]\nmay_reveal = ["feature-scores"]\nmin_rows = 9\n')

    assert load_policy(path, {"feature-scores"}) == {
        "may_reveal": ["feature-scores"],
        "min_rows": 9,
    }

    with pytest.raises(JobError, match="Unknown disclosure"):
        load_policy(path, {"class-counts"})
    path.write_text("[party]\nname = 'bank'\n")
    with pytest.raises(JobError, match="no policy"):
        load_policy(path)
