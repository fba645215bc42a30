"""What becomes of due times and of runs: pure, as tables of cases."""

import pytest
from msgspec.structs import replace

from skitter.jobs import rules
from skitter.jobs.model import BadJob, Crawl, Ended, Job, Keep, Kind, Notice, Overlap, Run, State

DAY = 86400.0
CRAWL = Crawl(urls=("https://example.org/",))
DAILY = rules.checked(Job(name="news", crawl=CRAWL, line="@daily"), 0.0)


def states(rows: list[Run]) -> list[tuple[float, State]]:
    return [(row.due / DAY, row.state) for row in rows]


def test_what_is_not_due_is_not_planned():
    assert DAILY.next_due == DAY
    assert rules.plan(DAILY, [], DAY - 1) == ([], DAY)


def test_a_due_time_becomes_a_run():
    (row,), coming = rules.plan(DAILY, [], DAY + 5)
    assert (row.id, row.due, row.state, row.directory) == (
        "news-19700102T000000Z",
        DAY,
        State.WAITING,
        "news/19700102T000000Z",
    )
    assert coming == 2 * DAY


def test_of_many_that_passed_the_latest_is_run_and_the_others_were_missed():
    rows, coming = rules.plan(DAILY, [], 4 * DAY + 1)
    assert states(rows) == [(1, State.MISSED), (2, State.MISSED), (3, State.MISSED), (4, State.WAITING)]
    assert coming == 5 * DAY
    assert {row.directory for row in rows[:-1]} == {""}


@pytest.mark.parametrize(
    ("late", "state"), [(59.0, State.WAITING), (60.0, State.WAITING), (61.0, State.MISSED)]
)
def test_a_deadline_ends_the_chance_to_make_up(late, state):
    rows, _ = rules.plan(replace(DAILY, deadline=60.0), [], DAY + late)
    assert states(rows) == [(1, state)]


def test_only_the_latest_hundred_missed_runs_get_rows_and_the_rest_is_counted():
    minutely = rules.checked(replace(DAILY, line="* * * * *"), 0.0)
    rows, coming = rules.plan(minutely, [], 10 * DAY + 1)
    assert len(rows) == rules.RECORDED + 1
    assert rows[-1].due == 10 * DAY
    assert rows[0].reason.endswith(f"so were {10 * 1440 - rules.RECORDED - 1} before it")
    assert coming == 10 * DAY + 60


@pytest.mark.parametrize(
    ("overlap", "unfinished", "state"),
    [
        (Overlap.SKIP, 0, State.WAITING),
        (Overlap.SKIP, 1, State.SKIPPED),
        (Overlap.QUEUE, 1, State.WAITING),
        (Overlap.QUEUE, 2, State.SKIPPED),
    ],
)
def test_a_run_that_is_due_before_the_last_is_over(overlap, unfinished, state):
    going = [rules.new_run(DAILY, -float(n)) for n in range(unfinished)]
    (row,), _ = rules.plan(replace(DAILY, overlap=overlap), going, DAY)
    assert row.state is state
    assert bool(row.reason) == (state is State.SKIPPED)


def test_while_a_job_is_paused_nothing_is_due_and_nothing_is_missed():
    still = rules.paused(DAILY)
    assert rules.plan(still, [], 50 * DAY) == ([], None)
    assert rules.continued(still, 50 * DAY + 5).next_due == 51 * DAY


CLAIMED = replace(rules.new_run(DAILY, DAY), state=State.RUNNING, owner="me", tries=1, lease_until=9.0)


@pytest.mark.parametrize(
    ("code", "tries", "state", "why"),
    [
        (0, 1, State.DONE, "nothing was left to do"),
        (3, 1, State.DONE, "stopped at a limit"),
        (1, 1, State.FAILED, "no page could be fetched"),
        (2, 1, State.FAILED, "wrong settings"),
        (4, 1, State.WAITING, "goes on later: disk full, directory in use, or an engine was lost"),
        (130, 1, State.WAITING, "goes on later: interrupted"),
        (-9, 1, State.WAITING, "goes on later: killed by signal 9"),
        (-9, rules.MOST_TRIES, State.FAILED, "killed by signal 9, 8 times"),
        (77, 1, State.FAILED, "exit code 77"),
    ],
)
def test_what_an_exit_code_means(code, tries, state, why):
    after = rules.ended(DAILY, replace(CLAIMED, tries=tries), Ended(code), 1000.0)
    assert (after.state, after.reason, after.owner, after.exit_code) == (state, why, "", code)
    assert after.final == (state is not State.WAITING)


def test_pauses_grow_before_a_run_goes_on():
    pauses = [rules.ended(DAILY, replace(CLAIMED, tries=n), Ended(4), 0.0).not_before for n in range(1, 7)]
    assert pauses == [60, 300, 900, 3600, 3600, 3600]


def test_somebody_who_stops_a_run_is_no_failure():
    after = rules.ended(DAILY, replace(CLAIMED, stop_asked=True), Ended(130), 5.0)
    assert (after.state, after.reason) == (State.STOPPED, "somebody stopped it")


def test_a_stopped_scheduler_is_no_try_of_its_runs():
    after = rules.released(CLAIMED, 5.0)
    assert (after.state, after.tries, after.not_before, after.owner) == (State.WAITING, 0, 5.0, "")


def test_ends_are_told_if_somebody_listens():
    listening = replace(DAILY, notice=Notice(webhook="https://example.org/"))
    assert rules.ended(DAILY, CLAIMED, Ended(0), 5.0).tell_at is None
    assert rules.ended(listening, CLAIMED, Ended(0), 5.0).tell_at == 5.0
    assert rules.ended(listening, CLAIMED, Ended(4), 5.0).tell_at is None, "it is not over"
    missed, _ = rules.plan(listening, [], 2 * DAY)[0]
    assert missed.tell_at == 2 * DAY


def test_telling_is_tried_again_and_given_up():
    run, times = replace(CLAIMED, state=State.DONE, tell_at=0.0), []
    while run.tell_at is not None:
        run = rules.told(run, 0.0, heard=False)
        times.append(run.tell_at)
    assert times == [60, 300, 900, 3600, 21600, None]
    assert rules.told(run, 0.0, heard=True).tell_at is None


def old(number: int, state: State = State.DONE, **changes) -> Run:
    return replace(rules.new_run(DAILY, number * DAY), state=state, ended_at=number * DAY + 60, **changes)


def removed(keep: Keep, runs: list[Run], now: float) -> list[float]:
    return [run.due / DAY for run in rules.expired(keep, runs, now)]


def test_old_crawls_by_number_and_by_age():
    runs = [old(n) for n in range(1, 7)]
    assert removed(Keep(runs=2), runs, 7 * DAY) == [4, 3, 2, 1]
    assert removed(Keep(seconds=3 * DAY), runs, 7 * DAY) == [3, 2, 1]
    assert removed(Keep(), runs, 700 * DAY) == []


def test_what_runs_and_the_newest_that_is_done_stay():
    runs = [old(1, State.RUNNING), old(2), old(3, State.FAILED), old(4, State.FAILED), old(5, State.WAITING)]
    assert removed(Keep(runs=1), runs, 900 * DAY) == [4, 3]
    assert removed(Keep(seconds=1.0), runs, 900 * DAY) == [4, 3]


def test_a_crawl_that_runs_share_is_never_removed():
    assert removed(Keep(runs=1), [old(n, kind=Kind.CONTINUE) for n in range(5)], 900 * DAY) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "../x"}, "is no name of a job"),
        ({"name": "a" * 65}, "is no name of a job"),
        ({"name": "News"}, "lower-case letters"),
        ({"name": "a\nb"}, "is no name of a job"),
        ({"name": ""}, "is no name of a job"),
        ({"crawl": Crawl()}, "there is nothing to crawl"),
        ({"crawl": Crawl(urls=("--with=x.py",))}, "is not a URL"),
        ({"keep": Keep(runs=0)}, "write 1 or more"),
        ({"keep": Keep(runs=1), "kind": Kind.CONTINUE}, "share one crawl"),
        ({"zone": "Nowhere"}, "is not a time zone"),
        ({"line": "0 0 30 2 *"}, "never comes true"),
    ],
)
def test_a_job_that_cannot_be_is_refused(changes, said):
    with pytest.raises(BadJob, match=said):
        rules.checked(replace(DAILY, **changes), 0.0)
