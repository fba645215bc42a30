"""Which pages lie within `scope.max_depth` does not depend on which host answers sooner."""

import asyncio
from pathlib import Path

import pytest

from skitter import urls
from tests.crawl.harness import Crawled, crawl_on_this_loop, settings_for
from tests.fetching import ok, run, serving

# x.test is four steps away over hosts that answer at once, and two over one that waits until x.test was visited.
WEB = {
    "a.test/": ["q.test/1", "slow.test/"],
    "q.test/1": ["q.test/2"],
    "q.test/2": ["q.test/3"],
    "q.test/3": ["x.test/"],
    "slow.test/": ["x.test/"],
    "x.test/": ["y.test/", "x.test/moved"],
    "y.test/": ["z.test/"],
    "z.test/": ["end.test/"],
}
MOVED = {"x.test/moved": "new.test/"}
DEPTHS = {
    "a.test": 0,
    "q.test": 3,
    "slow.test": 1,
    "x.test": 2,
    "y.test": 3,
    "z.test": 4,
    "end.test": 5,
    "new.test": 3,
}  # the greatest of each host
HOSTS = tuple(f"{host}:127.0.0.1" for host in DEPTHS)


def crawled(path: Path, *limits: int | None, shards: int = 1) -> tuple[Crawled, dict[str, int]]:
    """Crawl with each limit in turn; the depths of the pages that are stored in the end."""

    async def main():
        far = asyncio.Event()

        async def talk(server, reader, writer):
            while head := await server.hear(reader):
                lines = head.split(b"\r\n")
                host = next(line for line in lines if line.startswith(b"Host: "))[6:].decode().split(":")[0]
                asked = host + lines[0].split()[1].decode()
                if asked == "slow.test/":
                    await asyncio.wait_for(far.wait(), 60)
                    await asyncio.sleep(0.5)  # x.test is settled by now
                if asked == "x.test/":
                    far.set()
                if asked in MOVED:
                    target = b"Location: http://" + MOVED[asked].replace("/", f":{server.port}/").encode()
                    writer.write(ok(b"", target, status=b"301 Moved"))
                    continue
                hrefs = [link.replace("/", f":{server.port}/", 1) for link in WEB.get(asked, [])]
                body = "".join(f"<a href='http://{href}'>{asked}</a>" for href in hrefs) or asked
                status = b"404 No" if asked.endswith("robots.txt") else b"200 OK"
                writer.write(ok(body.encode(), b"Content-Type: text/html", status=status))

        async with serving(talk) as server:
            seeds = [server.url("/", "a.test")]
            for limit in limits:
                settings = settings_for(
                    scope__kind="any", scope__max_depth=limit, crawl__shards=shards, fetch__resolve=HOSTS
                )
                result = await crawl_on_this_loop(path, seeds, settings)
                seeds = []
        return result

    result = run(main())
    stored = [page for page in result.pages if page.status == 200]
    return result, {urls.host(page.url): page.depth for page in stored if not page.url.endswith(("/1", "/2"))}


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("limits", [(4,), (5,), (4, 5)], ids=str)
def test_pages_are_as_deep_as_their_shortest_way(tmp_path, limits, shards):
    result, found = crawled(tmp_path / "c", *limits, shards=shards)
    assert found == {host: depth for host, depth in DEPTHS.items() if depth <= limits[-1]}
    assert result.report.counts.queued == 0
    assert sum(result.report.counts.depths.values()) == result.report.counts.pages
    assert max(result.report.counts.depths) == limits[-1]


@pytest.mark.parametrize("shards", [1, 3])
def test_depths_that_nobody_kept_are_made_up_for_when_a_limit_is_set(tmp_path, shards):
    """Without a limit the first way decides; which is the wrong one here, for what x.test leads to."""
    _, found = crawled(tmp_path / "c", None, shards=shards)
    assert (found["x.test"], found["y.test"], found["end.test"]) == (4, 5, 7)
    _, found = crawled(tmp_path / "again", None, 4, shards=shards)
    assert found == DEPTHS
