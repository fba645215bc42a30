"""`skitter plan`: what a crawl would meet and cost. The server's log shows that no page was fetched for it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from time import monotonic

import pytest

from skitter.crawl.plan import Range, SitePlan, costs
from skitter.model import Reason
from skitter.runtime.windows import Windows, read
from skitter.settings import CrawlSettings, Settings
from tests.crawl.controlled import skitter


class Site:
    """A site whose robots.txt and sitemaps a test writes; its log has (path, start, end)."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.seen: list[tuple[str, float, float]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.origin = f"http://a.test:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                began = monotonic()
                body = site.files.get(self.path)
                self.send_response(404 if body is None else 200)
                body = (body or "").replace("ORIGIN", site.origin)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())
                site.seen.append((self.path, began, monotonic()))

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def plan(self, *words: object, check: int = 0) -> str:
        done = skitter(
            "plan", *words, "--resolve", "a.test:127.0.0.1", "--allow-private", "127.0.0.0/8", check=check
        )
        return done.stdout

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    try:
        yield made
    finally:
        made.close()


def sitemap(*paths: str) -> str:
    return f"<urlset>{''.join(f'<url><loc>ORIGIN{path}</loc></url>' for path in paths)}</urlset>"


def test_sitemaps_are_counted_and_no_page_is_fetched(site):
    site.files |= {
        "/robots.txt": "User-agent: *\nDisallow: /private/\nSitemap: ORIGIN/index.xml\n",
        "/index.xml": "<sitemapindex><sitemap><loc>ORIGIN/one.xml</loc></sitemap>"
        "<sitemap><loc>ORIGIN/two.xml</loc></sitemap></sitemapindex>",
        "/one.xml": sitemap("/1", "/2", "/private/3", "/photo.mp4"),
        "/two.xml": sitemap("/2", "/4", "/calendar/5"),
        "/1": "a page",
    }
    told = site.plan(site.origin, "--delay", "100ms", "--exclude", "/calendar/", "--json")
    (found,) = json.loads(told)["sites"]
    assert found["listed"] == 3
    assert found["refused"] == {"robots": 1, "scope.extension": 1, "scope.exclude": 1}
    assert [each["entries"] for each in found["sitemaps"]] == [2, 4, 3]
    estimate = json.loads(told)["estimate"]
    assert estimate["pages"] == {"low": 4, "high": None}  # the seed, which no sitemap lists, and three
    assert estimate["seconds"]["low"] >= 0.4
    assert [path for path, _, _ in site.seen] == ["/robots.txt", "/index.xml", "/one.xml", "/two.xml"]
    gaps = [after[1] - before[2] for before, after in pairwise(site.seen)]
    assert min(gaps) >= 0.09


def test_with_sitemaps_alone_exactly_their_pages_are_expected(site):
    site.files |= {
        "/robots.txt": "Sitemap: ORIGIN/map.xml\n",
        "/map.xml": sitemap("/1", "/2"),
    }
    told = json.loads(site.plan(site.origin, "--delay", "10ms", "--sitemaps", "only", "--json"))
    assert told["estimate"]["pages"] == {"low": 2, "high": 2}
    assert told["sites"][0]["seeds"][0]["refused"]["code"] == "scope.sitemaps"


def test_what_sitemaps_list_counts_also_if_the_seed_is_refused(site):
    site.files |= {
        "/robots.txt": "User-agent: *\nDisallow: /$\nSitemap: ORIGIN/map.xml\n",
        "/map.xml": sitemap("/1", "/2"),
    }
    told = json.loads(site.plan(site.origin, "--delay", "10ms", "--json"))
    assert told["estimate"]["pages"] == {"low": 2, "high": None}


def test_a_person_sees_delays_refusals_and_ranges(site):
    site.files["/robots.txt"] = "User-agent: *\nCrawl-delay: 2\nDisallow: /private/\n"
    told = site.plan(site.origin, f"{site.origin}/private/", "--pages", "1000")
    assert "2.0s between requests (Crawl-delay in its robots.txt), 1,800 requests an hour at most" in told
    assert f"{site.origin}/private/ would be refused (robots): robots.txt line 3: Disallow: /private/" in told
    assert f"{site.origin}/ would be crawled" in told
    assert "The crawl: 1,000 pages" in told
    assert "3.2 MiB to 96.3 MiB received" in told
    assert [path for path, _, _ in site.seen] == ["/robots.txt"]


def test_what_may_not_be_fetched_is_said_with_exit_code_1(site):
    site.files["/robots.txt"] = "User-agent: *\nDisallow: /\n"
    assert "Nothing would be fetched." in site.plan(site.origin, check=1)
    site.files["/robots.txt"] = "User-agent: *\nCrawl-delay: 9\n"
    told = site.plan(site.origin, "--set", "politeness.max_crawl_delay=5s", check=1)
    assert "more than politeness.max_crawl_delay" in told


def test_the_address_guard_holds_for_a_plan(site):
    done = skitter("plan", site.origin, "--resolve", "a.test:127.0.0.1", check=1)
    assert "Nothing would be fetched." in done.stdout
    assert "not a public address: loopback" in done.stdout
    assert site.seen == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(["ftp://a.test/"], "nothing can be planned"), (["a.test", "--pages", "0"], "--pages 0")],
)
def test_wrong_usage_is_one_line(words, complaint):
    done = skitter("plan", *words, check=2)
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_sitemap_that_lists_itself_without_end_is_read_once(site):
    site.files |= {
        "/robots.txt": "Sitemap: ORIGIN/loop.xml\n",
        "/loop.xml": "<sitemapindex><sitemap><loc>ORIGIN/loop.xml</loc></sitemap></sitemapindex>",
    }
    site.plan(site.origin, "--delay", "0s")
    assert [path for path, _, _ in site.seen] == ["/robots.txt", "/loop.xml"]


# ------------------------------------------------------------------------------------------------ what it costs


def planned(origin: str, listed: int, delay: float = 1.0, reason: Reason | None = None) -> SitePlan:
    return SitePlan(
        origin=origin, seeds=[(f"{origin}/", reason)], listed=listed, delay=delay, answered_in=0.1
    )


def test_the_slowest_host_decides_how_long_it_takes():
    found = costs([planned("http://a.test", 100), planned("http://b.test", 10, delay=30.0)], Settings(), 0.0)
    assert found is not None
    assert found.pages == Range(110, None)
    assert found.seconds.low == pytest.approx(10 * 30.1)
    assert found.seconds.high == pytest.approx(10 * 31.0)


def test_a_page_limit_ends_it_and_is_named():
    found = costs([planned("http://a.test", 1000)], Settings(crawl=CrawlSettings(max_pages=10)), 0.0)
    assert found is not None
    assert found.pages == Range(10, 10)
    assert found.limit == "crawl.max_pages = 10"
    assert found.seconds.low == pytest.approx(11.0)


def test_the_budget_of_a_host_ends_it_and_is_named():
    small = SitePlan(origin="http://a.test", seeds=[("http://a.test/", None)], delay=1.0, listed=500, most=20)
    large = SitePlan(origin="http://b.test", seeds=[("http://b.test/", None)], delay=1.0, listed=30)
    found = costs([small, large], Settings(), 0.0)
    assert found is not None
    assert (found.pages, found.limit) == (Range(50, None), "budget.host_pages")
    alone = costs([small], Settings(), 0.0)
    assert alone is not None
    assert alone.pages == Range(20, 20)


def test_nothing_is_estimated_for_sites_that_refuse():
    assert costs([planned("http://a.test", 0, reason=Reason("robots", "no"))], Settings(), 0.0) is None


def test_a_window_that_is_open_a_third_of_the_day_triples_the_time():
    site = planned("http://a.test", 100)
    always = costs([site], Settings(), 0.0)
    site.hours = [("politeness.window", Windows([read("22:00-06:00 Europe/Berlin")]))]
    nights = costs([site], Settings(), 0.0)
    assert always is not None
    assert nights is not None
    assert nights.seconds.low == pytest.approx(3 * always.seconds.low, rel=0.01)
