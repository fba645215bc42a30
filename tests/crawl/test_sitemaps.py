"""Sitemaps and feeds in whole crawls: which are read, what they make of a crawl, and what is harmless. Virtual time."""

import itertools

import pytest
from msgspec import structs

from skitter import schedule, seeds
from skitter.events import Warned
from skitter.model import Purpose, State
from tests.crawl.virtual import MEMORY, ROCKSDB, Answer, ScriptedFetcher, crawl, html, moved

A, B, C = "http://a.test", "http://b.test", "http://c.test"
XML = {"Content-Type": "application/xml"}


@pytest.fixture(params=[MEMORY, ROCKSDB])
def store(request):
    return request.param


def urlset(*urls, fields=""):
    inside = "".join(f"<url><loc>{url}</loc>{fields}</url>" for url in urls)
    return Answer(
        body=f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{inside}</urlset>', headers=XML
    )


def index(*urls):
    inside = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return Answer(body=f"<sitemapindex>{inside}</sitemapindex>", headers=XML)


def robots(*lines):
    return Answer(body="".join(f"{line}\n" for line in lines))


def sitemap(url):
    return next(seeds.named([url], purpose=Purpose.SITEMAP))


def requested(result):
    return [request.url for request in result.log]


def warnings(result):
    return [event.text for event in result.events if isinstance(event, Warned)]


def pages_of(result):
    return {page.url for page in result.pages if page.purpose is Purpose.PAGE and page.status == 200}


SITE = {
    f"{A}/robots.txt": robots(f"Sitemap: {A}/map.xml"),
    f"{A}/map.xml": urlset(f"{A}/", f"{A}/hidden", f"{B}/foreign"),
    f"{A}/": html("/linked"),
    f"{A}/hidden": html("/deeper"),
    f"{A}/linked": html(),
    f"{A}/deeper": html(),
}


def test_what_a_robots_txt_names_is_read_and_its_pages_are_crawled(tmp_path, store):
    result = crawl(tmp_path, [f"{A}/"], SITE, store=store, scope__kind="host")
    assert pages_of(result) == {f"{A}/", f"{A}/hidden", f"{A}/linked", f"{A}/deeper"}
    assert requested(result).count(f"{A}/map.xml") == 1
    hidden = result.records[f"{A}/hidden"]
    assert (hidden.depth, hidden.parent, hidden.hints.source) == (1, f"{A}/map.xml", "sitemap")
    assert result.records[f"{B}/foreign"].reason.code == "scope.host"
    assert result.counts.others == {"sitemap": 1}
    (listed,) = [page for page in result.pages if page.purpose is Purpose.SITEMAP]
    assert (listed.links_count, listed.content_type, listed.parent) == (
        3,
        "application/xml",
        f"{A}/robots.txt",
    )
    assert listed.archive is not None


@pytest.mark.parametrize(
    "limits", [{"scope__sitemaps": "off"}, {"scope__kind": "page"}, {"scope__max_depth": 0}]
)
def test_it_is_not_read_when_nothing_could_come_of_it(tmp_path, limits):
    result = crawl(tmp_path, [f"{A}/"], SITE, **limits)
    assert f"{A}/map.xml" not in requested(result)


def test_the_usual_place_is_tried_only_if_asked_for_and_only_at_the_hosts_of_seeds(tmp_path, store):
    pages = {
        f"{A}/": html("/2", f"{B}/"),
        f"{A}/2": html(),
        f"{B}/": html(),
        f"{A}/sitemap.xml": urlset(f"{A}/3"),
        f"{A}/3": html(),
    }
    plain = crawl(tmp_path / "plain", [f"{A}/"], pages, store=store)
    assert not [url for url in requested(plain) if "sitemap" in url]
    searched = crawl(tmp_path / "searched", [f"{A}/"], pages, store=store, scope__sitemaps="search")
    assert [url for url in requested(searched) if "sitemap" in url] == [f"{A}/sitemap.xml"]
    assert pages_of(searched) == {f"{A}/", f"{A}/2", f"{A}/3", f"{B}/"}
    named = crawl(tmp_path / "named", [f"{A}/"], pages | SITE, store=store, scope__sitemaps="search")
    assert f"{A}/sitemap.xml" not in requested(named)


def test_from_sitemaps_alone_exactly_their_pages_are_found(tmp_path, store):
    result = crawl(
        tmp_path,
        [f"{A}/start"],
        SITE | {f"{A}/start": html("/linked")},
        store=store,
        scope__kind="host",
        scope__sitemaps="only",
    )
    assert pages_of(result) == {f"{A}/", f"{A}/hidden"}
    assert set(requested(result)) == {f"{A}/robots.txt", f"{A}/map.xml", f"{A}/", f"{A}/hidden"}
    assert result.records[f"{A}/start"].reason.code == "scope.sitemaps"
    assert result.records[f"{A}/linked"].reason.code == "scope.sitemaps"


def test_one_named_by_hand_widens_the_scope_and_with_named_nothing_else_is_read(tmp_path, store):
    pages = SITE | {f"{A}/other.xml": urlset(f"{A}/deeper")}
    result = crawl(
        tmp_path, [sitemap(f"{A}/other.xml")], pages, store=store, scope__kind="host", scope__sitemaps="named"
    )
    assert requested(result) == [f"{A}/robots.txt", f"{A}/other.xml", f"{A}/deeper"]
    assert result.directory.roots() == [f"{A}/other.xml"]


def test_it_asks_robots_txt_and_keeps_the_delay_like_a_page(tmp_path, store):
    pages = SITE | {
        f"{A}/robots.txt": robots(
            "User-agent: *",
            "Disallow: /map",
            "Crawl-delay: 7",
            f"Sitemap: {A}/map.xml",
            f"Sitemap: {A}/two.xml",
        ),
        f"{A}/two.xml": urlset(f"{A}/hidden"),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.records[f"{A}/map.xml"].reason.code == "robots"
    assert f"{A}/map.xml" not in requested(result)
    times = sorted((request.start, request.end) for request in result.log)
    assert all(after[0] - before[1] >= 7 for before, after in itertools.pairwise(times))


def test_indexes_of_indexes_loops_and_redirects_end(tmp_path, store):
    pages = {
        f"{A}/robots.txt": robots(f"sitemap: {A}/index.xml", "Sitemap: /relative.txt"),
        f"{A}/index.xml": index(f"{A}/index.xml", f"{A}/second.xml", f"{A}/moved.xml"),
        f"{A}/second.xml": index(f"{A}/index.xml", f"{A}/map.xml"),
        f"{A}/moved.xml": moved(f"{A}/index.xml"),
        f"{A}/relative.txt": Answer(
            body=f"\ufeff{A}/text\n\nnot a url\n", headers={"Content-Type": "text/plain"}
        ),
        f"{A}/map.xml": urlset(f"{A}/page"),
        f"{A}/page": html(),
        f"{A}/text": html(),
        f"{A}/": html(),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert pages_of(result) == {f"{A}/", f"{A}/page", f"{A}/text"}
    log = requested(result)
    assert len(log) == len(set(log))


def test_an_endless_chain_of_indexes_ends_with_the_reason(tmp_path, store):
    def script(asked):
        number = int(asked.url.rpartition("/")[2].removesuffix(".xml"))
        return index(f"{A}/{number + 1}.xml")

    pages = {f"{A}/robots.txt": robots(f"Sitemap: {A}/0.xml"), f"{A}/": html()}
    pages |= {f"{A}/{number}.xml": script for number in range(50)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store)
    assert result.records[f"{A}/6.xml"].reason.code == "sitemap.nested"
    assert f"{A}/5.xml" in requested(result)
    assert len([url for url in requested(result) if url.endswith(".xml")]) == 6


def test_a_sitemap_speaks_for_the_site_that_names_it_and_for_no_other(tmp_path, store):
    pages = {
        f"{A}/": html(),
        f"{A}/robots.txt": robots(f"Sitemap: {C}/of-a.xml"),
        f"{C}/of-a.xml": urlset(f"{A}/1", f"{B}/lie", f"{C}/own"),
        f"{A}/1": html(),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, scope__kind="any")
    assert pages_of(result) == {f"{A}/", f"{A}/1"}
    assert {result.records[url].reason.code for url in (f"{B}/lie", f"{C}/own")} == {"sitemap.host"}
    by_hand = crawl(
        tmp_path / "hand",
        [sitemap(f"{C}/of-a.xml")],
        pages | {f"{B}/lie": html(), f"{C}/own": html()},
        store=store,
        scope__kind="any",
    )
    assert pages_of(by_hand) == {f"{A}/1", f"{B}/lie", f"{C}/own"}


def test_hints_are_kept_and_the_priority_orders_pages(tmp_path, store):
    body = (
        "<urlset>"
        f"<url><loc>{A}/low</loc><priority>0.1</priority><lastmod>2024-05-01</lastmod></url>"
        f"<url><loc>{A}/high</loc><priority>0.9</priority><changefreq>Daily</changefreq></url>"
        f"<url><loc>{A}/plain</loc><priority>7</priority><lastmod>soon</lastmod></url>"
        "</urlset>"
    )
    pages = {f"{A}/map.xml": Answer(body=body), f"{A}/low": html(), f"{A}/high": html(), f"{A}/plain": html()}
    result = crawl(tmp_path, [sitemap(f"{A}/map.xml")], pages, store=store)
    assert requested(result)[-3:] == [f"{A}/high", f"{A}/plain", f"{A}/low"]
    assert result.records[f"{A}/low"].hints.lastmod == 1714521600.0
    assert result.records[f"{A}/high"].hints.changefreq == "daily"
    plain = result.records[f"{A}/plain"].hints
    assert (plain.priority, plain.lastmod) == (None, None)


def test_a_page_of_html_in_its_place_is_recorded_and_harmless(tmp_path, store):
    pages = {f"{A}/": html(), f"{A}/sitemap.xml": html("/a", "/b")}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, scope__sitemaps="search")
    (page,) = [page for page in result.pages if page.purpose is Purpose.SITEMAP]
    assert "no sitemap" in page.ignored
    assert set(result.records) == {f"{A}/", f"{A}/sitemap.xml"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [(Answer(status=404), "the server answered 404"), (html("/a"), "it is no sitemap or feed")],
)
def test_whoever_named_one_is_told_that_nothing_is_in_it(tmp_path, answer, why):
    result = crawl(tmp_path, [sitemap(f"{A}/map.xml")], {f"{A}/map.xml": answer})
    (said,) = warnings(result)
    assert said.startswith(f"the sitemap {A}/map.xml lists nothing: ")
    assert why in said
    full = crawl(tmp_path / "full", [sitemap(f"{A}/map.xml")], {f"{A}/map.xml": urlset(f"{A}/1")})
    assert not warnings(full)


def test_max_depth_and_page_budgets_apply_to_its_pages(tmp_path, store):
    pages = SITE | {f"{A}/map.xml": urlset(*(f"{A}/{number}" for number in range(20)))}
    pages |= {f"{A}/{number}": html("/deeper") for number in range(20)}
    result = crawl(tmp_path, [f"{A}/"], pages, store=store, budget__host_pages=5, scope__max_depth=1)
    assert len(pages_of(result)) == 5
    assert result.records[f"{A}/deeper"].reason.code == "scope.depth"


def test_after_a_crash_in_the_middle_it_is_read_again_and_nothing_is_fetched_twice(tmp_path):
    pages = SITE | {f"{A}/map.xml": urlset(*(f"{A}/{number}" for number in range(30)))}
    pages |= {f"{A}/{number}": html() for number in range(30)}
    first = crawl(tmp_path, [f"{A}/"], pages, store=ROCKSDB, crawl__max_pages=7)
    second = crawl(tmp_path, [], pages, store=ROCKSDB)
    both = requested(first) + requested(second)
    assert sorted(url for url in both if not url.endswith("robots.txt")) == sorted(
        {url for url in both if not url.endswith("robots.txt")}
    )
    assert set(both) >= {f"{A}/{number}" for number in range(30)}
    assert all(
        record.state is State.CRAWLED for record in second.records.values() if record.url != f"{A}/gone"
    )


def test_one_that_is_fetched_again_is_asked_for_with_its_validators(tmp_path, monkeypatch):
    """Nothing schedules recrawls yet: the sitemap is due again as soon as it was fetched the first time."""
    real, fetch, sent = schedule.verdict, ScriptedFetcher.fetch, []

    def verdict(visit, outcome, owed, settings, now, jitter):
        made = real(visit, outcome, owed, settings, now, jitter)
        again = made.state is State.CRAWLED and not visit.recrawl and visit.link.purpose is Purpose.SITEMAP
        return structs.replace(made, due=now) if again else made

    async def noted(self, visit, validators=()):
        if visit.link.purpose is Purpose.SITEMAP:
            sent.append(dict(validators))
        return await fetch(self, visit, validators)

    monkeypatch.setattr(schedule, "verdict", verdict)
    monkeypatch.setattr(ScriptedFetcher, "fetch", noted)
    first = urlset(f"{A}/1")
    answer = Answer(body=first.body, headers={**XML, "ETag": '"v1"'})
    pages = {
        f"{A}/map.xml": lambda asked: answer if asked.number == 1 else Answer(304, headers={"ETag": '"v1"'}),
        f"{A}/1": html(),
    }
    result = crawl(tmp_path, [sitemap(f"{A}/map.xml")], pages, store=ROCKSDB)
    assert sent == [{}, {"If-None-Match": '"v1"'}]
    assert pages_of(result) == {f"{A}/1"}
