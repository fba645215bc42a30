"""The contract of `skitter.jobs.ports.JobStore`, executable.

class TestMyJobs(JobStoreContract):
    async def sharers(self, count: int) -> list[JobStore]:
        return [MyJobs(...) for _ in range(count)]

Sharers stand for schedulers, on one machine or on many. Leases are real: some stores use the time of an engine.
"""

import asyncio

from msgspec.structs import replace

from skitter.jobs import rules
from skitter.jobs.model import UNFINISHED, Crawl, Job, Kind, Notice, Run, State
from skitter.jobs.ports import Beat, JobStore
from skitter.testing.contracts.owner import asynchronous

_LONG = 3600.0  # seconds: a lease that does not end in a test
_SHORT = 0.05
_ROUNDS = 30


def job(name: str = "news", **changes: object) -> Job:
    """A job that is due every minute."""
    made = Job(name=name, crawl=Crawl(urls=("https://example.org/",)), line="* * * * *", next_due=60.0)
    return replace(made, **changes)


async def planned(store: JobStore, one: Job, *dues: float) -> list[Run]:
    """Runs of a stored job that wait."""
    rows = [rules.new_run(one, due) for due in dues]
    current = await store.job(one.name)
    assert current is not None
    assert await store.plan(current, (current.next_due or 0.0) + 60, rows)
    return rows


class JobStoreContract:
    """Every store of jobs passes."""

    async def sharers(self, count: int) -> list[JobStore]:
        raise NotImplementedError

    @asynchronous
    async def test_a_job_comes_back_as_it_was(self) -> None:
        (store,) = await self.sharers(1)
        one = job(
            crawl=Crawl(("https://example.org/é",), settings={"crawl.max_pages": "5"}),
            notice=Notice(command="mail x"),
        )
        assert await store.add(one)
        assert not await store.add(replace(one, line="0 0 * * *")), "the first one of a name stays"
        assert await store.job("news") == one
        assert await store.jobs() == [one]
        assert await store.job("other") is None
        await store.close()

    @asynchronous
    async def test_only_the_version_before_can_be_changed(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job())
        assert await store.change(replace(job(), version=2, paused=True, next_due=None))
        assert not await store.change(replace(job(), version=2))
        assert not await store.change(replace(job(), version=4))
        changed = await store.job("news")
        assert changed is not None
        assert changed.paused
        assert await store.jobs(due_by=1e12) == []
        await store.close()

    @asynchronous
    async def test_jobs_are_found_when_they_are_due(self) -> None:
        (store,) = await self.sharers(1)
        for name, due in (("a", 30.0), ("b", 10.0), ("c", None)):
            await store.add(job(name, next_due=due))
        assert [each.name for each in await store.jobs(due_by=30.0)] == ["b", "a"]
        assert await store.jobs(due_by=9.9) == []
        assert await store.wake_at("here") == 10.0
        await store.close()

    @asynchronous
    async def test_of_schedulers_that_plan_the_same_due_time_one_does(self) -> None:
        stores = await self.sharers(4)
        await stores[0].add(job())
        for number in range(1, _ROUNDS):
            read = [await store.job("news") for store in stores]
            rows = [[rules.new_run(each, each.next_due or 0.0)] for each in read if each]
            done = await asyncio.gather(
                *(
                    store.plan(each, 60.0 * (number + 1), row)
                    for store, each, row in zip(stores, read, rows, strict=True)
                    if each
                )
            )
            assert sorted(done) == [False, False, False, True]
        assert [run.due for run in await stores[1].runs("news")] == [
            60.0 * n for n in range(_ROUNDS - 1, 0, -1)
        ]
        for store in stores:
            await store.close()

    @asynchronous
    async def test_a_stale_plan_changes_nothing(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job())
        read = await store.job("news")
        assert read is not None
        assert await store.change(rules.paused(read))
        assert not await store.plan(read, 120.0, [rules.new_run(read, 60.0)])
        assert await store.runs() == []
        await store.close()

    @asynchronous
    async def test_a_run_is_claimed_once_however_many_want_it(self) -> None:
        stores = await self.sharers(4)
        for number in range(_ROUNDS):
            await stores[0].add(job(f"job-{number}"))
            await planned(stores[0], job(f"job-{number}"), 60.0)
        taken: list[str] = []

        async def take(store: JobStore, name: str) -> None:
            while (run := await store.claim(name, "here", _LONG)) is not None:
                taken.append(run.id)

        await asyncio.gather(*(take(store, f"s{number}") for number, store in enumerate(stores)))
        assert len(taken) == len(set(taken)) == _ROUNDS
        for store in stores:
            await store.close()

    @asynchronous
    async def test_runs_of_a_job_begin_in_order_one_at_a_time(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job())
        first, second = await planned(store, job(), 60.0, 120.0)
        assert await store.wake_at("here") == 0.0, "it may begin at once"
        taken = await store.claim("s", "here", _LONG)
        assert taken is not None
        assert (await store.wake_at("here") or 0) >= 120.0, "what waits behind another wakes nobody"
        assert (taken.id, taken.tries, taken.state, taken.home) == (first.id, 1, State.RUNNING, "here")
        assert await store.claim("t", "here", _LONG) is None
        assert await store.settle(replace(taken, state=State.DONE, owner=""), "s")
        after = await store.claim("t", "here", _LONG)
        assert after is not None
        assert after.id == second.id
        await store.close()

    @asynchronous
    async def test_a_run_whose_scheduler_is_gone_goes_on_under_its_id(self) -> None:
        one, other = await self.sharers(2)
        await one.add(job())
        await planned(one, job(), 60.0)
        taken = await one.claim("gone", "here", _SHORT)
        assert taken is not None
        await asyncio.sleep(2 * _SHORT)
        again = await other.claim("next", "here", _LONG)
        assert again is not None
        assert (again.id, again.tries, again.owner, again.started_at) == (
            taken.id,
            2,
            "next",
            taken.started_at,
        )
        assert await one.beat(taken, _LONG) is Beat.LOST
        assert not await one.settle(replace(taken, state=State.DONE), "gone")
        assert await other.beat(again, _LONG) is Beat.GO_ON
        await one.close()
        await other.close()

    @asynchronous
    async def test_a_lease_that_is_renewed_does_not_end(self) -> None:
        one, other = await self.sharers(2)
        await one.add(job())
        await planned(one, job(), 60.0)
        taken = await one.claim("s", "here", _SHORT)
        assert taken is not None
        assert await one.beat(taken, _LONG) is Beat.GO_ON
        await asyncio.sleep(2 * _SHORT)
        assert await other.claim("t", "here", _LONG) is None
        await one.close()
        await other.close()

    @asynchronous
    async def test_a_crawl_goes_on_only_where_it_lies(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job("begun"))
        await planned(store, job("begun"), 60.0)
        await store.claim("s", "here", _SHORT)
        await store.add(job("one", home="there", kind=Kind.CONTINUE))
        await planned(store, job("one"), 120.0)
        await asyncio.sleep(2 * _SHORT)
        for home, expected in (("elsewhere", []), ("there", ["one"]), ("here", ["begun"])):
            found = []
            while (run := await store.claim("t", home, _LONG)) is not None:
                found.append(run.job)
            assert found == expected
        await store.close()

    @asynchronous
    async def test_a_run_that_shall_wait_waits(self) -> None:
        (store,) = await self.sharers(1)
        now = await store.now()
        await store.add(job(next_due=now + 7200))
        (run,) = await planned(store, job(), 60.0)
        taken = await store.claim("s", "here", _LONG)
        assert taken is not None
        later = replace(taken, state=State.WAITING, not_before=now + 3600, owner="")
        assert await store.settle(later, "s")
        assert await store.claim("s", "here", _LONG) is None
        assert await store.wake_at("here") == now + 3600
        assert await store.run(run.id) == later
        await store.close()

    @asynchronous
    async def test_a_run_by_hand_waits_for_no_other(self) -> None:
        one, other = await self.sharers(2)
        await one.add(job())
        for number in range(_ROUNDS):
            asked = await asyncio.gather(
                one.ask(rules.new_run(job(), 1000.0 + 2 * number, by_hand=True)),
                other.ask(rules.new_run(job(), 1001.0 + 2 * number, by_hand=True)),
            )
            assert sorted(asked) == [False, True]
            taken = await one.claim("s", "here", _LONG)
            assert taken is not None
            assert await one.settle(replace(taken, state=State.DONE, owner=""), "s")
        assert len(await one.runs(limit=1000)) == _ROUNDS
        await one.close()
        await other.close()

    @asynchronous
    async def test_only_the_run_that_was_named_is_claimed(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job("a"))
        await store.add(job("b"))
        await planned(store, job("a"), 60.0)
        (run,) = await planned(store, job("b"), 60.0)
        taken = await store.claim("s", "here", _LONG, only=run.id)
        assert taken is not None
        assert taken.id == run.id
        await store.close()

    @asynchronous
    async def test_stopping(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job())
        running, waiting = await planned(store, job(), 60.0, 120.0)
        taken = await store.claim("s", "here", _LONG)
        assert taken is not None
        assert await store.stop(waiting.id) is State.STOPPED
        assert await store.stop(running.id) is State.RUNNING
        assert await store.beat(taken, _LONG) is Beat.STOP
        assert await store.settle(replace(taken, state=State.STOPPED, owner=""), "s")
        assert await store.stop(running.id) is None
        assert await store.runs(states=UNFINISHED) == []
        await store.close()

    @asynchronous
    async def test_a_job_that_runs_is_not_removed(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job())
        await planned(store, job(), 60.0)
        taken = await store.claim("s", "here", _LONG)
        assert taken is not None
        assert not await store.remove("news")
        assert await store.settle(replace(taken, state=State.DONE, owner=""), "s")
        assert await store.remove("news")
        assert not await store.remove("news")
        assert await store.runs() == []
        await store.close()

    @asynchronous
    async def test_an_end_is_told_by_one_scheduler_at_a_time(self) -> None:
        one, other = await self.sharers(2)
        now = await one.now()
        await one.add(job(next_due=now))
        rows = [
            replace(rules.new_run(job(), 60.0 * n), state=State.MISSED, tell_at=now) for n in range(1, 20)
        ]
        read = await one.job("news")
        assert read is not None
        assert await one.plan(read, now + 60, rows)
        first, second = await asyncio.gather(one.to_tell(_LONG), other.to_tell(_LONG))
        assert sorted(run.id for run in [*first, *second]) == sorted(run.id for run in rows)
        assert await one.to_tell(_LONG) == []
        for run in [*first, *second]:
            await one.note(rules.told(run, now, heard=True))
        told = await other.runs("news")
        assert [run.tell_at for run in told] == [None] * len(rows)
        await one.close()
        await other.close()

    @asynchronous
    async def test_the_history_is_read_in_pages(self) -> None:
        (store,) = await self.sharers(1)
        await store.add(job())
        await planned(store, job(), *(60.0 * n for n in range(1, 11)))
        first = await store.runs("news", limit=4)
        assert [run.due for run in first] == [600.0, 540.0, 480.0, 420.0]
        assert [run.due for run in await store.runs("news", limit=4, before=420.0)] == [
            360.0,
            300.0,
            240.0,
            180.0,
        ]
        assert len(await store.runs(states=(State.WAITING,))) == 10
        assert await store.runs("news", states=(State.DONE,)) == []
        await store.close()
