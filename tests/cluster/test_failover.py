"""PostgreSQL dies in a running crawl, its standby takes over, and the workers find it by the second address.

With the leases that a cluster has by default: the seconds that this prints are those of the runbook.
"""

import time
from itertools import pairwise

from scripts.engines.postgres import Postgres
from scripts.engines.processes import family, kill

from skitter.testing.web import Features, Server, SyntheticWeb, serve_process
from tests.cluster.crawling import cluster, until, until_requests
from tests.cluster.own import own_place, started
from tests.cluster.test_crawls import assert_polite
from tests.crawl.harness import keys
from tests.engines import engine

NOTICED = 5.0  # seconds until somebody, or something, has noticed and promotes the standby


class Primary(Postgres):
    """Takes writes, and answers when its standby has them."""

    name = "primary"

    def ask(self, statement: str) -> str:
        """By psql."""
        return self.place.run(
            [str(self.programs / "psql"), "-XAtc", statement, self.address], self.home
        ).strip()


class Standby(Primary):
    """A copy that follows."""

    name = "standby"

    def __init__(self, primary: Primary) -> None:
        super().__init__(primary.place)
        self._primary = primary

    def install(self) -> None:
        """What the primary has, and the word to go on from there."""
        source = f"{self._primary.address}?application_name=standby"
        options = ["--write-recovery-conf", "--checkpoint=fast", "-D", str(self.data), "-d", source]
        self.place.run([str(self.programs / "pg_basebackup"), *options], self.home)


def silence_after(killed: float, server: Server) -> float:
    """When the longest time without requests ended. Some come after the kill: their visits were taken out before."""
    starts = sorted(request.start for request in server.log() if request.start > killed)
    pairs = pairwise([killed, *starts])
    return max(pairs, key=lambda pair: pair[1] - pair[0])[1]


def test_the_standby_takes_over_within_30_s_and_nothing_is_lost(tmp_path):
    for name in ("postgres", "redis", "kafka"):
        engine(name)
    web = SyntheticWeb(seed=6, hosts=12, pages_per_host=12, features=Features.plain(foreign_share=0.3))
    with own_place() as place, serve_process(web) as server:
        primary = Primary(place)
        with started(primary) as process:
            standby = Standby(primary)
            with started(standby):
                primary.ask("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
                primary.ask("SELECT pg_reload_conf()")
                sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
                until(lambda: primary.ask(sync) == "1", "the standby is in step")
                addresses = tuple(f"127.0.0.1:{each.port}" for each in (primary, standby))
                own = {
                    "postgres__addresses": addresses,
                    "postgres__database": "postgres",
                    "postgres__user": "skitter",
                    "crawl__shards": 4,
                }
                with cluster(tmp_path, server, **own) as crawl:
                    crawl.add(server.seeds())
                    for _ in range(2):
                        crawl.work()
                    until_requests(server, 60, crawl)
                    killed = time.time()
                    kill(family(process))
                    time.sleep(NOTICED)
                    promoted = time.time()
                    standby.ask("SELECT pg_promote()")
                    crawl.wait()
                    crawl.leave()
                    again = silence_after(killed, server)
                    print(f"\nrequests again {again - killed:.1f} s after the kill, ", end="")
                    print(f"{again - promoted:.1f} s after the promotion")
                    assert again > promoted, "there was a silence: nothing is begun without the truth"
                    assert again - killed < 30.0
                    judged = crawl.judged()
                    assert judged.pages == keys(server.truth("any").pages)
                    assert_polite(server, forgiven=("/robots.txt",))
