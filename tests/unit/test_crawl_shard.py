"""One shard at work: opening after a crash, seeds, groups of visits, pausing, stopping, and what is told."""

import asyncio
import os
import random
import shutil
from itertools import count

import msgspec
import pytest

from skitter import seeds
from skitter.backends.warc import Reader
from skitter.crawl.completing import Batching
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.shard import Shard
from skitter.events import Lost, Opened, Requested, SetAside, Settled, Stopped, Warned
from skitter.frontier import robots_first
from skitter.model import RobotsCopy, State, Stop
from skitter.testing.clock import VirtualClock, run_virtual
from skitter.testing.reference import MemoryRows, memory_frontier
from tests.crawl.virtual import Answer, VirtualCrawl, html, settings_with, site, web

A, B = "http://a.test", "http://b.test"


class Ground:
    """A crawl directory and a frontier's rows that outlive the crawls that use them."""

    def __init__(self, path, pages=None, **overrides):
        self.path = path
        self.pages = site(A, 5) if pages is None else pages
        self.overrides = overrides
        self.rows = MemoryRows()
        state = CrawlDirectory(path).state(0)  # where it would be, were it not in memory
        state.mkdir(parents=True)
        (state / "CURRENT").touch()
        self.clock = VirtualClock()

    def crawl(self, **overrides):
        """Another process, so to speak."""
        settings = settings_with(**self.overrides | overrides)
        self.rows.epoch += 1
        frontier = memory_frontier(self.rows, settings, epoch=self.rows.epoch)
        return VirtualCrawl(self.path, web(self.pages), settings, frontier, self.clock)

    def run(self, work):
        return run_virtual(work, self.clock)


@pytest.fixture
def ground(tmp_path):
    return Ground(tmp_path)


def told(crawl, kind):
    return [event for event in crawl.heard if isinstance(event, kind)]


# ------------------------------------------------------------------------------------------------ seeds


async def offered(crawl, starts):
    """Offer seeds; how many were new."""
    had = crawl.local_shards.counts.added
    await crawl.local_shards.add_seed_batch(list(seeds.named(starts)))
    return crawl.local_shards.counts.added - had


def test_seeds_are_counted_once_and_measured_into_the_scope(ground):
    async def main():
        crawl = ground.crawl(scope__kind="host")
        await crawl.local_shards.open()
        first = await offered(crawl, [f"{A}/", f"{A}/#again", f"{B}/"])
        return first, await offered(crawl, [f"{A}/"]), crawl

    first, second, crawl = ground.run(main())
    assert (first, second) == (2, 0)
    assert crawl.stations.scope.refusal(f"{A}/x", 1) is None
    assert crawl.stations.scope.refusal("http://c.test/", 1) is not None
    assert set(crawl.directory.roots()) >= {f"{A}/", f"{B}/"}


def test_a_seed_that_is_refused_has_a_record_a_reason_and_a_warning_and_is_no_root(ground):
    async def main():
        crawl = ground.crawl(scope__exclude=("/private",), scope__kind="host")
        await crawl.local_shards.open()
        new = await offered(crawl, [f"{A}/private/x", "no url at all", f"{B}/"])
        records = {record.url: record async for record in crawl.stations.frontier.urls()}
        return crawl, new, records

    crawl, new, records = ground.run(main())
    assert new == 1
    assert (records[f"{A}/private/x"].state, records[f"{A}/private/x"].reason.code) == (
        State.REFUSED,
        "scope.exclude",
    )
    assert (records["no url at all"].state, records["no url at all"].reason.code) == (
        State.REFUSED,
        "seed.unusable",
    )
    warnings = [event.text for event in told(crawl, Warned)]
    assert len(warnings) == 2
    assert all("is not crawled: " in text for text in warnings)
    assert crawl.directory.roots() == [f"{B}/"]


# ------------------------------------------------------------------------------------------------ opening


async def die_in_flight(crawl, starts):
    """Work until requests are in flight, and stop existing: nothing is closed or given back."""
    await crawl.local_shards.open()
    await offered(crawl, starts)
    work = asyncio.ensure_future(crawl.local_shards.run())
    await asyncio.sleep(0.1)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def test_what_was_open_in_a_crash_is_said_and_tried_again(ground):
    async def main():
        await die_in_flight(ground.crawl(), [f"{A}/", f"{B}/"])
        again = ground.crawl()
        return again, await again.run([])

    again, result = ground.run(main())
    assert told(again, Opened) == [Opened(0, 2, "")]
    assert {(event.url, event.host) for event in told(again, Lost)} == {
        (f"{A}/robots.txt", "a.test"),
        (f"{B}/robots.txt", "b.test"),
    }
    assert result.counts.pages == 6
    assert result.counts.lost == 2
    lines = again.directory.request_log(0).read_text().splitlines()
    assert sum('"Lost"' in line for line in lines) == 2


def test_closing_leaves_no_mark_on_visits_that_were_open(ground):
    async def main():
        first = ground.crawl()
        await die_in_flight(first, [f"{A}/"])
        await first.local_shards.close()
        again = ground.crawl()
        return again, await again.run([])

    again, result = ground.run(main())
    assert told(again, Opened) == [Opened(0, 0, "")]
    assert result.counts.lost == 0
    assert len(result.pages) == 6


def test_what_a_crash_appended_but_did_not_settle_is_cut_without_a_word(ground):
    async def main():
        first = ground.crawl()
        await first.run(seeds.named([f"{A}/"]))
        (file,) = first.directory.archive.iterdir()
        size = file.stat().st_size
        with file.open("ab") as archive:
            archive.write(b"half a record")
        again = ground.crawl()
        await again.run([])
        return told(again, Opened), file.stat().st_size - size

    opened, grown = ground.run(main())
    assert opened == [Opened(0, 0, "")]
    assert grown == 0


def test_what_was_settled_but_did_not_reach_the_disk_is_fetched_again_and_that_is_said(ground):
    async def main():
        first = ground.crawl()
        await first.run(seeds.named([f"{A}/"]))
        (file,) = first.directory.archive.iterdir()
        os.truncate(file, file.stat().st_size * 2 // 3)
        again = ground.crawl()
        return again, await again.run([])

    again, result = ground.run(main())
    (opened,) = told(again, Opened)
    assert "the archive ends before its last settled record" in opened.repaired
    fetched = len([request for request in result.log if "robots" not in request.url])
    assert 0 < fetched < 6
    assert f"{fetched} pages are fetched again" in opened.repaired
    assert len(result.pages) == 6


# ------------------------------------------------------------------------------------------------ committing


def test_a_request_is_in_the_log_before_its_visit_is_settled(ground, monkeypatch):
    crawl = ground.crawl()
    seen = []

    async def main():
        settle = crawl.stations.frontier.settle

        async def watched(settlements, mark, now):
            urls = {event.url for event in told(crawl, Requested)}
            seen.extend(settlement.visit.link.url in urls for settlement in settlements)
            return await settle(settlements, mark, now)

        monkeypatch.setattr(crawl.stations.frontier, "settle", watched)
        return await crawl.run(seeds.named([f"{A}/"]))

    result = ground.run(main())
    assert len(seen) == len(result.log) == 7
    assert all(seen)


def test_a_group_is_what_has_finished_together_and_no_larger_than_allowed(tmp_path, monkeypatch):
    hosts = [f"http://h{number}.test" for number in range(30)]
    ground = Ground(tmp_path, {f"{host}/": html() for host in hosts}, crawl__commit_visits=8)
    crawl = ground.crawl()
    sizes = []

    async def main():
        settle = crawl.stations.frontier.settle

        async def watched(settlements, mark, now):
            sizes.append(len(settlements))
            return await settle(settlements, mark, now)

        monkeypatch.setattr(crawl.stations.frontier, "settle", watched)
        return await crawl.run(seeds.named(f"{host}/" for host in hosts))

    result = ground.run(main())
    assert len(result.pages) == 30
    assert sum(sizes) == 60
    assert max(sizes) == 8
    assert (
        len(sizes) == 8
    )  # thirty robots.txt and thirty pages that end in the same instant: 8, 8, 8, 6 twice


def test_a_visit_that_was_settled_too_late_is_told_to_nobody(ground, monkeypatch):
    crawl = ground.crawl()

    async def main():
        settle = crawl.stations.frontier.settle

        async def late(settlements, mark, now):
            accepted = await settle(settlements, mark, now)
            return [
                ok and not one.visit.link.url.endswith("/3")
                for ok, one in zip(accepted, settlements, strict=True)
            ]

        monkeypatch.setattr(crawl.stations.frontier, "settle", late)
        return await crawl.run(seeds.named([f"{A}/"]))

    result = ground.run(main())
    assert result.stop is Stop.DONE
    told_of = {event.visit.link.url for event in told(crawl, Settled)}
    assert f"{A}/3" not in told_of
    assert f"{A}/4" in told_of


def test_every_page_has_its_place_in_the_archive(ground):
    crawl = ground.crawl()
    result = ground.run(crawl.run(seeds.named([f"{A}/"])))
    for page in result.pages:
        assert crawl.stations.archive.read(page.archive).startswith(b"HTTP/1.1 200 ")


def test_a_host_that_is_set_aside_is_told_by_its_name_or_its_origin(tmp_path):
    pages = {
        f"{A}/": Answer(503, headers={"Retry-After": "999999"}),
        f"{B}/robots.txt": Answer(body="User-agent: *\nCrawl-delay: 999\n"),
    }
    ground = Ground(tmp_path, pages)
    crawl = ground.crawl()
    ground.run(crawl.run(seeds.named([f"{A}/", f"{B}/"])))
    assert {(event.what, event.reason.code) for event in told(crawl, SetAside)} == {
        ("a.test", "retry-after"),
        (B, "crawl-delay"),
    }


# ------------------------------------------------------------------------------------------------ pausing, stopping


def test_nothing_is_leased_while_paused_and_everything_after(ground):
    crawl = ground.crawl()

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_later(2.0, crawl.local_shards.pause)
        loop.call_later(100.0, crawl.local_shards.go_on)
        return await crawl.run(seeds.named([f"{A}/"]))

    result = ground.run(main())
    assert [request.url for request in result.log if 2.0 < request.start < 100.0] == []
    assert len(result.pages) == 6


def test_the_first_reason_to_stop_counts_and_a_paused_shard_stops_too(ground):
    crawl = ground.crawl()

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_later(2.0, crawl.local_shards.pause)
        loop.call_later(5.0, lambda: [crawl.local_shards.stop(why) for why in (Stop.DISK, Stop.INTERRUPTED)])
        return await crawl.run(seeds.named([f"{A}/"]))

    result = ground.run(main())
    assert result.stop is Stop.DISK
    assert result.took == pytest.approx(5.0, abs=0.5)
    (stopped,) = told(crawl, Stopped)
    assert (stopped.why, stopped.counts.pages) == ("disk", result.counts.pages)


def test_too_little_room_on_the_disk_stops_the_crawl_with_a_warning(ground, monkeypatch):
    crawl = ground.crawl(crawl__sync_interval="1s", crawl__min_free_disk="1GiB")
    free = count(3 * 2**30, -(2**30))
    usage = shutil.disk_usage(ground.path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=next(free)))
    result = ground.run(crawl.run(seeds.named([f"{A}/"])))
    assert result.stop is Stop.DISK
    assert result.took == pytest.approx(4.0, abs=0.5)
    (warning,) = told(crawl, Warned)
    assert "only 0 MiB are free" in warning.text
    assert "crawl.min_free_disk" in warning.text


def test_visits_that_a_frontier_is_about_to_hand_out_are_told_of(ground):
    """Whoever shares out pages between shards must not give away what becomes a visit a moment later."""
    crawl = ground.crawl(crawl__concurrency=7)
    lease, seen = crawl.shard.frontier.lease, []

    async def slow(limit, now):
        seen.append((limit, crawl.shard.taking))
        visits = await lease(limit, now)
        await asyncio.sleep(0.5)
        seen.append((limit, crawl.shard.taking))
        return visits

    crawl.shard.frontier.lease = slow
    result = ground.run(crawl.run(seeds.named([f"{A}/"])))
    assert result.counts.pages
    assert seen
    assert all(limit == taking > 0 for limit, taking in seen)
    assert crawl.shard.taking == 0


def test_a_crawl_without_work_is_done_at_once(ground):
    crawl = ground.crawl()
    result = ground.run(crawl.run([]))
    assert (result.stop, result.log, result.took) == (Stop.DONE, [], 0.0)


def test_nothing_is_settled_behind_a_commit_that_is_called_off(tmp_path):
    pages = {f"{A}/robots.txt": Answer(404), f"{B}/robots.txt": Answer(404)}
    pages |= {f"{A}/": html(f"{A}/", takes=0.1), f"{B}/": html(f"{B}/", takes=0.5)}
    ground = Ground(tmp_path, pages)

    async def main():
        crawl = ground.crawl()
        settle, both_here = crawl.stations.frontier.settle, asyncio.Event()

        async def slowly(settlements, mark, now):
            if any(settlement.page for settlement in settlements):
                both_here.set()
                await asyncio.sleep(1.0)
            return await settle(settlements, mark, now)

        crawl.stations.frontier.settle = slowly
        running = asyncio.create_task(crawl.run(seeds.named([f"{A}/", f"{B}/"])))
        await both_here.wait()
        await asyncio.sleep(0.9)  # the other page has come meanwhile
        assert crawl.shard._finished
        running.cancel()  # as a second signal does
        await asyncio.wait([running])
        return await ground.crawl().run([])

    result = ground.run(main())
    assert sorted(page.url for page in result.pages) == [f"{A}/", f"{B}/"]
    archive = result.directory.archive
    answers = [
        record.fields["warc-target-uri"]
        for file in sorted(archive.glob("*.warc.gz"))
        for record in Reader(archive).records(file.name)
        if record.fields["warc-type"] == "response" and "robots" not in record.fields["warc-target-uri"]
    ]
    assert sorted(answers) == [f"{A}/", f"{B}/"]


def test_keys_rest_after_a_crash_before_anything_was_settled(ground):
    """Its first request may have been sent a moment ago, to a domain or a group that has other hosts as well."""

    async def main():
        crawl = ground.crawl()
        await crawl.local_shards.open()
        await offered(crawl, [f"{A}/"])
        assert await crawl.stations.frontier.lease(1, ground.clock.now())
        again, told = ground.crawl(), []
        stations = msgspec.structs.replace(again.stations, begun=lambda: told.append("begun"))
        await Shard(stations, again.events, again.directory).open()
        return told

    assert ground.run(main()) == ["begun"]


def test_visits_that_are_cancelled_no_longer_count_at_the_gate(ground):
    """A worker that loses a shard goes on with others, which share the gate: it must not stay closed to them."""

    async def main():
        crawl = ground.crawl(budget__bandwidth=1000)
        gate = crawl.stations.gate
        running = asyncio.create_task(crawl.run(seeds.named([f"{A}/"])))
        while not crawl.shard.under_way:
            await asyncio.sleep(0.01)
        assert gate.room(10, ground.clock.now()) == 0
        running.cancel()
        await asyncio.wait([running])
        return gate.room(10, ground.clock.now())

    assert ground.run(main()) == 1


def test_rules_that_another_shard_sends_are_read_anew(ground):
    async def main():
        crawl = ground.crawl()
        await crawl.local_shards.open()
        in_force = crawl.stations.permissions.in_force
        banned = RobotsCopy(
            origin=A, status=0, access="none", fetched_at=0.0, expires=1e12, problem="no answer"
        )
        sent = RobotsCopy(origin=A, status=200, access="all", fetched_at=0.0, expires=1e12)
        await crawl.stations.permissions.renew(banned)
        assert (await in_force(A)).refusal(f"{A}/") is not None
        await crawl.shard.add([robots_first.carry(sent, "a.test")])
        assert (await in_force(A)).refusal(f"{A}/") is None
        await crawl.local_shards.close()

    ground.run(main())


# ------------------------------------------------------------------------------------------------ gathering


def settled_in_groups(ground, hosts, gather):
    """Crawl hosts as if a commit were a round trip; how many visits were settled together, each time."""
    groups = []

    async def main():
        crawl = ground.crawl(scope__kind="host")
        crawl.shard._batching, crawl.shard._alone = Batching(gather, 64), False
        settle = crawl.stations.frontier.settle

        async def counting(settlements, mark, now):
            groups.append(len(settlements))
            return await settle(settlements, mark, now)

        crawl.stations.frontier.settle = counting
        return await crawl.run(seeds.named([f"{host}/" for host in hosts]))

    result = ground.run(main())
    assert result.counts.pages == 6 * len(hosts)
    return groups, result


def test_where_a_commit_is_a_journey_visits_are_taken_out_with_it_and_not_in_between(tmp_path):
    hosts = [f"http://h{number}.test" for number in range(40)]
    pages = {
        url: Answer(answer.status, answer.body, takes=0.01 * number)
        for number, host in enumerate(hosts)
        for url, answer in site(host, 5).items()
    }
    ground = Ground(tmp_path, pages, crawl__concurrency=16, politeness__delay="0s")
    groups, result = settled_in_groups(ground, hosts, 0.5)
    begins = {request.start for request in result.log}
    assert len(begins) <= len(groups) + 1


def test_where_a_commit_is_a_journey_it_waits_for_hosts_that_are_about_to_be_free(tmp_path):
    hosts = [f"http://h{number}.test" for number in range(10)]
    pages = {url: answer for host in hosts for url, answer in site(host, 5).items()}
    for number, host in enumerate(hosts):  # from here on each has its own beat
        pages[f"{host}/robots.txt"] = Answer(404, takes=0.1 * number)
    pages = {
        url: Answer(a.status, a.body, takes=a.takes if "robots" in url else 0.001) for url, a in pages.items()
    }
    alone, quick = settled_in_groups(Ground(tmp_path / "alone", pages), hosts, 0.001)
    together, gathered = settled_in_groups(Ground(tmp_path / "together", pages), hosts, 0.5)
    assert sum(alone) == sum(together)
    assert len(together) < len(alone) / 2
    assert gathered.counts.elapsed <= quick.counts.elapsed + 1  # nobody waits for it but the last


def test_a_commit_waits_for_nothing_when_nothing_more_can_come(tmp_path):
    _, result = settled_in_groups(Ground(tmp_path, politeness__delay="0s"), [A], 60.0)
    assert result.counts.elapsed < 60


def hosts_that_take(number, pages, seconds):
    """Hosts with so many pages, each of which takes a time of its own, the given one on average."""
    hosts, dice = [f"http://h{each}.test" for each in range(number)], random.Random(1)
    script = {url: answer for host in hosts for url, answer in site(host, pages).items()}
    return hosts, {
        url: Answer(answer.status, answer.body, takes=seconds * dice.uniform(0.5, 1.5))
        for url, answer in script.items()
    }


def most_at_once(log):
    return max(sum(one.start <= other.start < one.end for one in log) for other in log)


def crawled(tmp_path, hosts, script, **overrides):
    ground = Ground(tmp_path, script, **overrides)
    crawl = ground.crawl(scope__kind="host")
    groups = []
    settle = crawl.stations.frontier.settle

    async def counting(settlements, mark, now):
        groups.append(len(settlements))
        return await settle(settlements, mark, now)

    crawl.stations.frontier.settle = counting
    result = ground.run(crawl.run(seeds.named([f"{host}/" for host in hosts])))
    assert {page.url for page in result.pages} == {url for url in script if not url.endswith("robots.txt")}
    return result, groups


def test_answers_that_wait_to_be_settled_hold_no_connection(tmp_path):
    hosts, script = hosts_that_take(40, 9, 0.05)
    result, groups = crawled(tmp_path, hosts, script, crawl__concurrency=10, politeness__delay="0s")
    assert most_at_once(result.log) == 10
    busy = sum(request.end - request.start for request in result.log)
    assert result.took < 1.1 * busy / 10  # connections are hardly ever idle
    assert len(groups) < len(result.log) / 3


def test_a_host_that_wants_no_delay_is_not_kept_waiting_by_those_who_gather(tmp_path):
    (host,), script = hosts_that_take(1, 60, 0.05)
    result, _ = crawled(tmp_path, [host], script, politeness__delay="0s", politeness__per_host=3)
    front = result.times(f"{host}/")[0]
    busy = sum(request.end - request.start for request in result.log if request.start > front)
    assert result.took - front < 1.1 * busy / 3


def test_visits_to_polite_hosts_are_settled_in_batches(tmp_path):
    hosts, script = hosts_that_take(100, 5, 0.05)
    result, groups = crawled(tmp_path, hosts, script)
    assert len(groups) < len(result.log) / 10
