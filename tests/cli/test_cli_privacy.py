"""Budgets of privacy in job files: keys, policies, what result and plan tell, what stays away."""

import pytest

import fedsift as fs
from helpers.joint import at_sites, columns_homes, horizontal, rows_homes, run_joint, vertical

EDGES = [-0.5, 0.5, 1.5]


def drawn(workshop, **settings):
    method = {"score": "gini", "n_features_to_select": 2, "bins": EDGES, "release_epsilon": 1.5}
    workshop.sections["method"] = method | settings


class TestJobFiles:
    def test_a_selection_is_drawn(self, workshop):
        drawn(workshop, release_delta=1e-6)
        result = workshop.run("--json").json["result"]

        release = result["parameters"]["privacy"]["release"]
        assert (release["epsilon"], release["delta"]) == (1.5, 1e-6)
        assert result["scores"] == {}
        rows = [row for row in result["disclosures"] if row["kind"] == "selection"]
        assert [row["learner"] for row in rows] == ["shop"]
        assert "drawn with noise, spent epsilon 1.5, delta 1e-06" in rows[0]["what"]
        assert result["predicted"]["ciphertexts"] == result["traffic"]["ciphertexts"]
        assert "Remarks" not in {row["message"] for row in result["traffic"]["rows"]}

    def test_the_seed_of_a_job_does_not_fix_the_draws(self, workshop):
        drawn(workshop, release_epsilon=0.01)
        seen = {str(workshop.run("--json").json["result"]["ranking"]) for _ in range(8)}
        assert len(seen) > 1

    def test_a_plan_tells_the_promise(self, workshop):
        drawn(workshop)
        planned = workshop.plan()
        assert planned.exit_code == 0
        assert "drawn with epsilon 1.5" in " ".join(planned.out.split())

    def test_a_policy_limits_what_a_selection_tells(self, workshop):
        drawn(workshop)
        workshop.parties[1]["policy"] = {"max_release_epsilon": 1, "min_bin_size": 1}
        refused = workshop.plan()
        assert refused.exit_code == 4
        assert "release_epsilon of at most 1" in refused.err

        workshop.parties[1]["policy"]["max_release_epsilon"] = 2
        assert workshop.plan().exit_code == 0
        for wrong in (0, "much"):
            workshop.parties[1]["policy"]["max_release_epsilon"] = wrong
            bad = workshop.plan()
            assert bad.exit_code == 2
            assert "max_release_epsilon" in bad.err

    def test_a_wrong_kind_of_budget_is_found(self, workshop):
        drawn(workshop, release_epsilon="little")
        bad = workshop.plan()
        assert bad.exit_code == 2
        assert "release_epsilon" in bad.err

    def test_a_chain_with_checkpoints_spends_nothing_twice(self, workshop):
        workshop.sections["job"] = {"seed": 7}
        del workshop.sections["method"]
        steps = (
            '[[step]]\nmethod = "filter"\nn_features_to_select = 3\n'
            '[[step]]\nmethod = "filter"\nn_features_to_select = 2\n'
            f"bins = {EDGES}\nrelease_epsilon = 1.0\n"
            '[runtime]\ncheckpoint = "kept"\n'
        )
        refused = workshop.run(text=workshop.text() + steps)
        assert refused.exit_code == 2
        assert "step 2 has a budget of privacy" in refused.err


class TestSites:
    """Every party at a site of its own."""

    def job(self, **settings):
        numbers = {"bins": [0.0, 1.0, 20.0, 40.0], "n_features_to_select": 2}
        return vertical("filter", score="gini", **numbers, **settings)

    @pytest.mark.parametrize("budget", [{"release_epsilon": 3.0}, {"epsilon": 3.0}])
    def test_no_remark_on_rows_crosses(self, budget):
        exact, private = self.job(), self.job(**budget)
        coordinator, ended = at_sites(exact, columns_homes(exact))
        told = ended[coordinator].value
        coordinator, ended = at_sites(private, columns_homes(private))
        kept = ended[coordinator].value

        assert "remarks" in {row.kind for row in told.disclosures}
        assert "remarks" not in {row.kind for row in kept.disclosures}
        assert all("takes part with" in text for text in kept.warnings)
        assert kept.n_selected == 2

    def test_sites_and_one_process_disclose_the_same(self):
        job = self.job(release_epsilon=3.0)
        coordinator, ended = at_sites(job, columns_homes(job))
        here = run_joint(job, columns_homes(job))

        def keys(result):
            return {(row.learner, row.about, row.message, row.what) for row in result.disclosures}

        assert keys(ended[coordinator].value) == keys(here)
        assert here.scores == ended[coordinator].value.scores == {}

    def test_each_site_keeps_to_its_own_policy(self):
        job = self.job(release_epsilon=3.0)
        strict = {"shop": fs.Policy(max_release_epsilon=1.0, min_bin_size=1)}
        _, ended = at_sites(job, columns_homes(job, policies=strict))
        assert "release_epsilon of at most 1" in str(ended["shop"].error)
        assert all(one.error is not None for one in ended.values())

    def test_members_draw_from_pooled_counts(self):
        numbers = {"bins": [0.0, 1.0], "n_features_to_select": 1}
        job = horizontal("filter", score="mi", release_epsilon=900.0, **numbers)
        coordinator, ended = at_sites(job, rows_homes(["income", "visits"]))
        result = ended[coordinator].value
        assert result.selected["north"] == ("visits",)
        assert result.scores == {}
