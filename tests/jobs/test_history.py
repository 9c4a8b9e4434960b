"""A member remembers what it revealed: once, within budgets, and over rows that cannot be subtracted."""

import json
import multiprocessing
import secrets
import sqlite3
import stat

import msgspec
import numpy as np
import pandas as pd
import pytest

import fedsift as fs
from fedsift.data.row_digests import BY_ID, BY_VALUES, digest_rows
from fedsift.data.sources import read_source
from fedsift.errors import BadEnvelope, FileProblem, PolicyViolation
from fedsift.jobs.history import (
    FEWEST_JOBS,
    HISTORY_FILE,
    MOST_IDS,
    MOST_JOBS,
    ROWS_PER_JOB,
    History,
    JobRecord,
)
from fedsift.jobs.row_sets import find_smallest_change, tell_copies_apart
from fedsift.jobs.spec import JointJob, JointStep
from fedsift.protocol import Policy
from fedsift.protocol.policy import PlannedDisclosure
from helpers.joint import horizontal, people, vertical

STARTS = 6


def submitted(job=None, **changes):
    job = horizontal("filter", score="f") if job is None else job
    return msgspec.structs.replace(job, nonce=secrets.token_hex(16), submitter="ann", **changes)


def begun(folder, job=None, policy=None, frame=None, ids=(), data="table.csv"):
    """A record of a new submission, with its budget charged."""
    job, history = submitted() if job is None else job, History(folder)
    history.begin(job, data)
    record = JobRecord(history, job, "shop", policy or Policy(), data)
    raw = read_source(people(40) if frame is None else frame, party="shop")
    record.charge(digest_rows(raw, ids, history.row_key))
    return record


def start_all(trials, gate, answers):
    """What processes of FLARE do at the beginning of a job, all at the same moment."""
    for folder, text in trials:
        gate.wait()
        try:
            History(folder).begin(JointJob.from_text(text))
        except BadEnvelope:
            answers.put((folder, 0))
        else:
            answers.put((folder, 1))


@pytest.mark.slow(5)
def test_of_six_simultaneous_starts_one_is_accepted(tmp_path):
    fork = multiprocessing.get_context("fork")
    trials = [(tmp_path / str(number), submitted().to_text()) for number in range(50)]
    for folder, _ in trials:
        folder.mkdir()
    gate, answers = fork.Barrier(STARTS), fork.Queue()
    started = [fork.Process(target=start_all, args=(trials, gate, answers)) for _ in range(STARTS)]
    for process in started:
        process.start()
    told = [answers.get(timeout=60) for _ in range(len(trials) * STARTS)]
    for process in started:
        process.join(30)
        assert process.exitcode == 0
    accepted = {folder: 0 for folder, _ in trials}
    for folder, one in told:
        accepted[folder] += one
    assert set(accepted.values()) == {1}


class TestFile:
    def test_it_belongs_to_its_owner_and_holds_no_value(self, tmp_path):
        frame = people(40)
        record = begun(tmp_path, frame=frame, ids=["id"])
        record.admit()
        path = tmp_path / HISTORY_FILE
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        raw = path.read_bytes()
        assert not [
            word for word in (*frame["id"], *frame["region"].dropna()) if word.encode() in raw
        ]
        assert frame["income"].to_numpy()[:1].tobytes() not in raw

    def test_a_file_of_a_later_version_is_refused(self, tmp_path):
        begun(tmp_path)
        with sqlite3.connect(tmp_path / HISTORY_FILE) as db:
            db.execute("PRAGMA user_version = 99")
        with pytest.raises(FileProblem, match="version 99"):
            begun(tmp_path)

    def test_a_damaged_file_and_a_closed_folder_end_the_job(self, tmp_path):
        (tmp_path / HISTORY_FILE).write_bytes(b"no database" * 100)
        with pytest.raises(FileProblem, match="cannot be kept"):
            begun(tmp_path)
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / HISTORY_FILE).mkdir()
        with pytest.raises(FileProblem, match="cannot be kept"):
            begun(tmp_path / "other")

    def test_a_job_is_listed_with_what_it_reveals_and_how_it_ended(self, tmp_path):
        record = begun(tmp_path, submitted(horizontal("filter", score="mi", epsilon=0.5)))
        planned = [
            PlannedDisclosure("hub", "coordinator", "shop", "member", "pooled-sums", "sums", "M"),
            PlannedDisclosure("shop", "member", "hub", "coordinator", "selection", "names", "S"),
        ]
        record.note_plan(planned)
        record.admit()
        record.history.end(record.job.fingerprint)
        (past,) = record.history.list_jobs()
        assert (past.state, past.n_rows, past.epsilon, past.submitter) == (
            "finished",
            40,
            0.5,
            "ann",
        )
        assert [(one.learner, one.kind) for one in past.revealed] == [("hub", "pooled-sums")]
        assert past.parties == ("north", "south", "west")

    def test_a_refused_job_spends_nothing_and_a_broken_one_does(self, tmp_path):
        policy = Policy(max_epsilon=1.0)
        job = horizontal("filter", score="mi", epsilon=1.0)
        first = begun(tmp_path, submitted(job), policy)
        first.admit()
        first.history.end(first.job.fingerprint, RuntimeError("power cut"))
        with pytest.raises(PolicyViolation, match="more epsilon than is left") as caught:
            begun(tmp_path, submitted(job), policy)
        last = first.history.list_jobs()[-1]
        first.history.end(last.job, caught.value)
        states = [(past.state, past.counted, past.epsilon) for past in first.history.list_jobs()]
        assert states == [("failed", True, 1.0), ("refused", False, 0.0)]
        budget = first.history.budget("table.csv", policy)
        assert (budget.jobs, budget.epsilon, budget.left()["epsilon"]) == (1, 1.0, 0.0)

    def test_a_job_that_ends_before_data_is_used_spends_nothing(self, tmp_path):
        job = submitted(horizontal("filter", score="mi", epsilon=1.0))
        record = begun(tmp_path, job, Policy(max_epsilon=1.0))
        assert record.history.budget("table.csv", Policy()).epsilon == 1.0
        record.history.end(job.fingerprint, RuntimeError("another member refused"))
        budget = record.history.budget("table.csv", Policy())
        assert (budget.jobs, budget.epsilon) == (0, 0.0)


class TestBudgets:
    def test_jobs_add_up_to_max_epsilon_unless_a_total_is_given(self, tmp_path):
        job = horizontal("filter", score="mi", epsilon=0.4)
        policy = Policy(max_epsilon=1.0, max_epsilon_total=1.2)
        for _ in range(3):
            begun(tmp_path, submitted(job), policy)
        with pytest.raises(PolicyViolation, match="epsilon_total"):
            begun(tmp_path, submitted(job), policy)
        others = people(40, seed=1)
        begun(tmp_path, submitted(job), policy, frame=others, data="another.csv")

    def test_both_budgets_count_for_the_total(self, tmp_path):
        job = horizontal("filter", score="mi", epsilon=0.4, release_epsilon=0.4)
        begun(tmp_path, submitted(job), Policy(max_epsilon_total=1.0))
        with pytest.raises(PolicyViolation, match="epsilon_total"):
            begun(tmp_path, submitted(job), Policy(max_epsilon_total=1.0))

    @pytest.mark.parametrize(("most", "allowed"), [(None, MOST_JOBS), (2, 2)])
    def test_a_table_takes_part_in_so_many_jobs(self, tmp_path, most, allowed):
        policy = Policy(max_jobs_per_table=most)
        for _ in range(allowed):
            begun(tmp_path, policy=policy)
        with pytest.raises(PolicyViolation, match="one more job"):
            begun(tmp_path, policy=policy)
        assert History(tmp_path).budget("table.csv", policy).jobs_left == 0

    @pytest.mark.parametrize("ids", [[], ["id"]])
    @pytest.mark.parametrize("limit", ["max_epsilon_total", "max_jobs_per_table"])
    def test_another_name_of_the_file_restores_nothing(self, tmp_path, ids, limit):
        policy = Policy(**{limit: 1})
        job = horizontal("filter", score="mi", epsilon=1.0)
        begun(tmp_path, submitted(job), policy, ids=ids, data="export_0.csv")
        for number in range(1, 5):
            exported = people(40).sample(frac=1, random_state=number)
            with pytest.raises(PolicyViolation, match=r"(of|on) a table"):
                begun(tmp_path, submitted(job), policy, exported, ids, f"export_{number}.csv")
        history = History(tmp_path)
        assert [past.counted for past in history.list_jobs()] == [True] + [False] * 4
        digests = digest_rows(read_source(people(40), party="shop"), ids, history.row_key)
        assert history.budget("export_9.csv", policy, digests).jobs == 1
        assert history.budget("export_9.csv", policy).jobs == 0  # its rows are not known

    def test_a_later_export_is_charged_for_the_rows_that_it_shares(self, tmp_path):
        job, frame = horizontal("filter", score="mi", epsilon=0.6), people(120)
        policy = Policy(max_epsilon_total=1.0)
        for start in (0, 40, 80):
            rows = frame.iloc[start : start + 40]
            begun(tmp_path, submitted(job), policy, rows, ["id"], f"from_{start}.csv")
        for first, last in ((40, 120), (119, 120)):
            with pytest.raises(PolicyViolation, match="epsilon_total"):
                begun(tmp_path, submitted(job), policy, frame.iloc[first:last], ["id"], "new.csv")
        # All months together: every row has been in one job, so the largest sum is that of one.
        history = History(tmp_path)
        digests = digest_rows(read_source(frame, party="shop"), ["id"], history.row_key)
        spent = history.budget("all.csv", policy, digests)
        assert (spent.jobs, spent.epsilon) == (1, 0.6)

    def test_changed_values_and_new_columns_restore_nothing_where_there_are_ids(self, tmp_path):
        job, policy = horizontal("filter", score="mi", epsilon=1.0), Policy(max_epsilon_total=1.0)
        begun(tmp_path, submitted(job), policy, ids=["id"], data="may.csv")
        later = people(40).assign(month=6, income=0.0)
        with pytest.raises(PolicyViolation, match="epsilon_total"):
            begun(tmp_path, submitted(job), policy, later, ["id"], "june.csv")

    def test_rows_that_are_alike_by_chance_are_not_charged(self, tmp_path):
        job, policy = horizontal("filter", score="mi", epsilon=1.0), Policy(max_epsilon_total=1.0)
        begun(tmp_path, submitted(job), policy, people(40), data="north.csv")
        others = pd.concat([people(40).iloc[:19], people(40, seed=1).iloc[19:]])
        begun(tmp_path, submitted(job), policy, others, data="south.csv")
        both = pd.concat([people(40), people(200, seed=2)])  # all rows of an earlier table
        with pytest.raises(PolicyViolation, match="epsilon_total"):
            begun(tmp_path, submitted(job), policy, both, data="all.csv")

    def test_a_history_of_the_version_before_is_read(self, tmp_path):
        policy = Policy(max_jobs_per_table=1)
        begun(tmp_path, policy=policy)
        with sqlite3.connect(tmp_path / HISTORY_FILE) as db:
            db.execute("DROP TABLE job_tables")
            db.execute("PRAGMA user_version = 1")
        with pytest.raises(PolicyViolation, match="one more job"):
            begun(tmp_path, policy=policy)

    @pytest.mark.parametrize("n_rows", [2 * ROWS_PER_JOB, 5 * ROWS_PER_JOB])
    def test_where_others_have_the_labels_few_rows_are_for_few_jobs(self, tmp_path, n_rows):
        allowed = max(FEWEST_JOBS, n_rows // ROWS_PER_JOB)
        assert allowed < MOST_JOBS
        frame, asked = people(n_rows), vertical("filter", ("bank", "shop"))
        for _ in range(allowed):
            begun(tmp_path, submitted(asked), frame=frame).admit()
        last = begun(tmp_path, submitted(asked), frame=frame)
        with pytest.raises(PolicyViolation, match="few rows") as caught:
            last.admit()
        last.history.end(last.job.fingerprint, caught.value)
        # A policy may say so by name, and whoever has the labels chooses none for itself.
        named = Policy(max_jobs_per_table=MOST_JOBS)
        begun(tmp_path, submitted(asked), named, frame=frame).admit()
        begun(tmp_path, submitted(asked, label_party="shop"), frame=frame).admit()

    def test_the_rows_in_use_count_not_those_of_the_table(self, tmp_path):
        asked, frame = vertical("filter", ("bank", "shop")), people(20 * ROWS_PER_JOB)
        for _ in range(FEWEST_JOBS):
            begun(tmp_path, submitted(asked), frame=frame).admit(np.arange(ROWS_PER_JOB))
        last = begun(tmp_path, submitted(asked), frame=frame)
        with pytest.raises(PolicyViolation, match="one for every 20 rows in use"):
            last.admit(np.arange(ROWS_PER_JOB))

    def test_steps_of_a_chain_add_up_before_the_first_message(self):
        steps = [fs.FilterSelector("mi", bins=[0.0], epsilon=0.3, n_features_to_select=2)] * 4
        tables = {
            p: (np.arange(60.0).reshape(20, 3), np.arange(20) % 2) for p in ("north", "south")
        }
        federation = fs.Federation.horizontal(tables)
        with pytest.raises(PolicyViolation, match=r"a sum of 1.2 over the epsilon of its steps"):
            fs.Chain(steps, policy={"max_epsilon": 1.0}).fit(federation)

    def test_steps_of_a_submitted_chain_add_up(self, tmp_path):
        step = JointStep(method="filter", parameters={"score": "mi", "epsilon": 0.3})
        job = msgspec.structs.replace(horizontal("filter"), method="chain", steps=(step,) * 4)
        assert job.budgets == (1.2, 0.0)
        with pytest.raises(PolicyViolation, match="more epsilon than is left"):
            begun(tmp_path, submitted(job), Policy(max_epsilon=1.0))


class TestRows:
    def admitted(self, folder, frame, policy=None, ids=()):
        record = begun(folder, policy=policy, frame=frame, ids=ids)
        record.admit()
        return record

    def test_the_same_rows_in_another_order_are_no_change(self, tmp_path):
        frame = people(40)
        self.admitted(tmp_path, frame)
        again = self.admitted(tmp_path, frame.sample(frac=1, random_state=0))
        assert again.history.list_jobs()[-1].row_change is None

    @pytest.mark.parametrize("n_gone", [1, 4])
    def test_rows_that_differ_a_little_are_refused(self, tmp_path, n_gone):
        frame = people(40)
        self.admitted(tmp_path, frame)
        with pytest.raises(PolicyViolation, match="differ in few rows") as caught:
            self.admitted(tmp_path, frame.iloc[n_gone:])
        assert str(n_gone) not in caught.value.found
        self.admitted(tmp_path, frame.iloc[5:])

    def test_a_refused_job_does_not_stand_in_the_way_of_the_next(self, tmp_path):
        frame = people(60)
        self.admitted(tmp_path, frame.iloc[:40])
        with pytest.raises(PolicyViolation):
            self.admitted(tmp_path, frame.iloc[:41])
        self.admitted(tmp_path, frame.iloc[:45])

    def test_three_jobs_cannot_be_combined_to_a_row(self, tmp_path):
        frame = people(60)
        self.admitted(tmp_path, frame)
        self.admitted(tmp_path, frame.iloc[:30])
        with pytest.raises(PolicyViolation):
            self.admitted(tmp_path, frame.iloc[30:59])

    def test_one_of_two_equal_rows_is_a_row(self, tmp_path):
        frame = people(40).loc[[0, 0, *range(1, 40)]]
        self.admitted(tmp_path, frame)
        with pytest.raises(PolicyViolation):
            self.admitted(tmp_path, frame.iloc[1:])

    def test_one_changed_value_is_a_change(self, tmp_path):
        frame = people(40)
        self.admitted(tmp_path, frame, ids=["id"])
        frame.loc[3, "income"] += 1
        with pytest.raises(PolicyViolation):
            self.admitted(tmp_path, frame, ids=["id"])

    def test_ids_tell_rows_whose_values_have_all_changed(self, tmp_path):
        frame = people(40)
        self.admitted(tmp_path, frame, ids=["id"])
        frame["income"] += 1
        self.admitted(tmp_path, frame, ids=["id"])
        with pytest.raises(PolicyViolation):
            self.admitted(tmp_path, frame.assign(age=1.0).iloc[1:], ids=["id"])

    def test_a_policy_may_ask_for_more_or_for_nothing(self, tmp_path):
        frame = people(40)
        self.admitted(tmp_path, frame)
        with pytest.raises(PolicyViolation, match="at least 20"):
            self.admitted(tmp_path, frame.iloc[10:], Policy(min_row_change=20))
        self.admitted(tmp_path, frame.iloc[1:], Policy(min_row_change=0))

    def test_digests_say_nothing_without_the_key(self):
        raw = read_source(people(10), party="shop")
        one, other = (digest_rows(raw, ["id"], key) for key in (bytes(32), b"k" * 32))
        for view in (BY_ID, BY_VALUES):
            assert not np.isin(one[view], other[view]).any()

    def test_against_all_combinations_counted_by_hand(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            sets = [np.flatnonzero(rng.random(12) < 0.6).astype(np.uint64) for _ in range(3)]
            own, *earlier = (np.isin(np.arange(12), one).astype(int) for one in sets)
            counts = [
                np.count_nonzero(own - one + sign * two)
                for one, two in (earlier, earlier[::-1])
                for sign in (-1, 0, 1)
            ]
            expected = min((count for count in counts if count), default=None)
            assert find_smallest_change(*map(tell_copies_apart, sets[:1]), sets[1:]) == expected


class TestIds:
    def asked(self, folder, n_asked, policy=None):
        record = begun(folder, submitted(vertical("filter", ("bank", "shop"))), policy)
        record.check_ids(n_asked, 40)
        return record

    def test_a_list_much_longer_than_the_own_is_refused(self, tmp_path):
        self.asked(tmp_path, MOST_IDS * 40)
        with pytest.raises(PolicyViolation, match=f"at most {MOST_IDS * 40} ids"):
            self.asked(tmp_path, MOST_IDS * 40 + 100)
        with pytest.raises(PolicyViolation, match="at most 30 ids"):
            self.asked(tmp_path, 31, Policy(max_ids_asked=30))

    def test_lists_that_differ_by_a_guess_are_refused(self, tmp_path):
        self.asked(tmp_path, 30)
        with pytest.raises(PolicyViolation, match="differs in few ids"):
            self.asked(tmp_path, 31)
        self.asked(tmp_path, 30)
        self.asked(tmp_path, 36)

    def test_lists_of_two_coordinators_are_compared(self, tmp_path):
        bank, store = vertical("filter", ("bank", "shop")), vertical("filter", ("store", "shop"))
        store = msgspec.structs.replace(store, label_party="store")
        for job in (bank, store):
            begun(tmp_path, submitted(job)).check_ids(30, 40)
        record = begun(tmp_path, submitted(store), data="renamed.csv")
        with pytest.raises(PolicyViolation, match="differs in few ids"):
            record.check_ids(31, 40)
        frame = people(40, seed=1)
        others = begun(tmp_path, submitted(store), frame=frame, data="another.csv")
        others.check_ids(31, 40)

    def test_after_a_swapped_guess_no_more_is_answered(self, tmp_path):
        self.asked(tmp_path, 30).admit(np.arange(20))
        second = self.asked(tmp_path, 30)
        with pytest.raises(PolicyViolation) as caught:
            second.admit(np.arange(21))
        second.history.end(second.job.fingerprint, caught.value)
        with pytest.raises(PolicyViolation, match="differs in few ids"):
            self.asked(tmp_path, 30)


def test_the_list_is_json(tmp_path):
    record = begun(tmp_path)
    assert json.loads(msgspec.json.encode(record.history.list_jobs()))[0]["method"] == "filter"
