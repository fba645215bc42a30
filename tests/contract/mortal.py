"""An owner of a frontier that works until it is killed. Run as `python -m tests.contract.mortal PLACE SEED`.

After every verb it writes one line of JSON to a pipe: what was acknowledged. The reader kills it between any two
bytes.
"""

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from skitter.model import Hints, Link, Page, Place, Purpose, Settlement, State, Verdict, Visit
from skitter.ports import Mark
from skitter.testing.contracts.owner import Ground, allowed, link
from tests.cluster import redis
from tests.contract.grounds import RocksGround

HOSTS = 40
AGAIN = 1e6  # seconds until a page is due again
HINTS = Hints(lastmod=5.5, priority=0.25, rel=("next",))  # of every link


def tell(**said: object) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


def found(visit: Visit, links: list[str], place: Place, now: float) -> Settlement:
    if visit.link.purpose is Purpose.ROBOTS:
        copy = allowed(visit.link.origin, now + 1e6)
        return Settlement(visit=visit, verdict=Verdict(state=State.CRAWLED), robots=copy)
    target = visit.link
    page = Page(
        url=target.url,
        requested_url=target.url,
        key=target.key,
        host=target.host,
        domain=target.host,
        status=200,
        fetched_at=now,
        archive=place,
        digest=f"sha1:{target.key}",
    )
    verdict = Verdict(state=State.CRAWLED, host_free=now + 0.001, due=now + AGAIN)
    return Settlement(visit=visit, verdict=verdict, page=page, links=[told(url) for url in links], status=200)


def told(url: str) -> Link:
    return replace(link(url), hints=HINTS)


def ground_at(place: str) -> Ground:
    """On disk, or on an engine."""
    return redis.ground_at(place) if place.startswith("redis:") else RocksGround(Path(place))


async def work(place: str, seed: int) -> None:
    dice = random.Random(seed)
    frontier = ground_at(place).frontier(delay=0.001)
    opened = await frontier.open(time.time())
    tell(opened=sorted(visit.link.url for visit in opened.lost), mark=opened.mark.end)
    end, number = opened.mark.end, 0
    while True:
        urls = [f"https://h{dice.randrange(HOSTS)}.example/{seed}/{number + n}" for n in range(20)]
        number += 20
        await frontier.add([told(url) for url in urls[:10]], [], time.time())
        tell(added=urls[:10])
        visits = await frontier.lease(8, time.time())
        tell(leased=[visit.link.url for visit in visits])
        settled = visits[: dice.randint(0, len(visits))]
        places = [Place("00-00001.warc.gz", end + 10 * n, 10) for n in range(len(settled))]
        end += 10 * len(settled)
        shares = [urls[10 + n :: 8][:2] for n in range(len(settled))]
        now = time.time()
        settlements = [found(*each, now) for each in zip(settled, shares, places, strict=True)]
        await frontier.settle(settlements, Mark("00-00001.warc.gz", end), now)
        links = [url for s in settlements for url in (one.url for one in s.links)]
        tell(settled=[visit.link.url for visit in settled], links=links, mark=end)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
