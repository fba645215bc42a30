"""Memory does not grow with finished pages."""

import gc
import os
from pathlib import Path

import pytest

from skitter import seeds
from skitter.compose import opened
from skitter.events import Event, Events, Settled
from skitter.reporting.report import Report
from skitter.runtime.process import run
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import settings_for

PAGE = os.sysconf("SC_PAGESIZE")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Watch:
    """Notes the resident memory at certain numbers of stored pages."""

    def __init__(self, *moments: int) -> None:
        self.at = dict.fromkeys(moments, 0)
        self.pages = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Settled) and event.page is not None:
            self.pages += 1
            if self.pages in self.at:
                gc.collect()
                self.at[self.pages] = resident()


@pytest.mark.soak
def test_memory_at_page_100_000_is_at_most_30_mb_above_page_20_000(tmp_path, capsys):
    web = SyntheticWeb(
        seed=77, hosts=100, pages_per_host=1020, features=Features(page_bytes=2500, links_per_page=15)
    )
    watch = Watch(1_000, 20_000, 40_000, 60_000, 80_000, 100_000)

    with serve_process(web) as server:
        settings = settings_for(server, scope__kind="any", politeness__per_host=2, crawl__max_pages=100_000)

        async def main() -> Report:
            async with opened(tmp_path / "c", settings, Events(watch)) as running:
                await running.seed(seeds.named(server.seeds(), settings.urls))
                return await running.run()

        report = run(main())
    with capsys.disabled():
        print("\nresident MB by pages:", {pages: size >> 20 for pages, size in watch.at.items()})
        print(f"{report.pages_per_second:.0f} pages/s")
    assert report.counts.pages == 100_000
    assert watch.at[100_000] - watch.at[20_000] <= 30 * 2**20
