"""What sites say, in whole crawls: read, recorded, respected where pages leave the crawl, and shown by `why`."""

import asyncio
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from skitter.cli.why import story
from skitter.compose import open_reader
from skitter.compose.searching import local_index
from skitter.export.canonicals import canonical
from skitter.export.destination import destination
from skitter.export.findings import find
from skitter.export.formats import FORMATS
from skitter.export.search.feed import feed, unwanted
from skitter.export.search.stored import as_asked, changed
from skitter.export.search.text import query
from skitter.export.source import Source
from skitter.model import Page, Purpose, State, Statement
from tests.crawl.virtual import Answer, Result, crawl, settings_with
from tests.unit.test_export_formats import Heard
from tests.unit.test_robots_usage import NO_TRAINING, rsl

A = "http://a.test"
TERMS = f"{A}/.well-known/tdmrep.json"
TEXT = " ".join(f"word{n} thing{n * 7 % 50} other{n * 3}" for n in range(60))
OTHER = " ".join(f"quite{n} different{n * 11 % 40} text{n * 5}" for n in range(60))


def page(*parts: str, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(200, f"<html>{''.join(parts)}</html>", {"content-type": "text/html"} | fields)


def links(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)


def reader(result: Result, **export: object) -> Source:
    """The crawl as the commands read it."""
    settings = settings_with()
    return open_reader(result.directory.path, replace(settings, export=replace(settings.export, **export)))


def written(source: Source, name: str, tmp_path: Path) -> tuple[list[str], list[str]]:
    heard = Heard()
    with destination(str(tmp_path / "out")) as files:
        asyncio.run(FORMATS[name].write(source, files, heard))
    return (tmp_path / "out").read_text().splitlines(), heard.omitted


def found_in(source: Source, file: Path, word: str) -> tuple[list[str], int]:
    """The URLs of an index that was just brought up to date, and how many pages it holds."""

    async def ask() -> tuple[list[str], int]:
        index = local_index(file)
        await index.open()
        try:
            await feed(
                changed(source, index, pytest.fail),
                index,
                poison=lambda rejected: pytest.fail(rejected.reason),
                respected=source.settings.export.respect_ai,
            )
            results = await as_asked(await index.search(query(word), 20, 0), source)
            assert all(len(hit.snippet) <= 10 for hit in results.hits if "short" in hit.url)
            return sorted(hit.url.removeprefix(A) for hit in results.hits), await index.count()
        finally:
            await index.close()

    return asyncio.run(ask())


def why(source: Source, url: str) -> str:
    return "\n".join(story(asyncio.run(find(url, source, 2e9)), 2e9))


# ------------------------------------------------------------------------------------------------ uses

SAYING = {
    f"{A}/robots.txt": Answer(
        body="User-agent: *\nContent-Usage: /no/ train-ai=n\nContent-Signal: search=yes, ai-input=no\n"
    ),
    f"{A}/": page(links("/no/1", "/header", "/meta", "/noai", "/open", "/odd"), TEXT),
    f"{A}/no/1": page(TEXT),
    f"{A}/header": page(TEXT + " a", content_usage="train-ai=n, search=y"),
    f"{A}/meta": page('<meta name="tdm-reservation" content="1">', TEXT + " b"),
    f"{A}/noai": page(TEXT + " c", x_robots_tag="noai"),
    f"{A}/open": page(OTHER, content_usage="train-ai=y"),
    f"{A}/odd": page(OTHER + " d", content_usage="train-ai=((n", tdm_reservation="perhaps"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return crawl(tmp_path_factory.mktemp("said"), [f"{A}/"], SAYING)


def test_every_statement_is_recorded_with_source_time_and_raw_text(said: Result) -> None:
    found = {one.url.removeprefix(A): one for one in said.pages}
    asked = {request.url: request for request in said.log}
    (usage, signal) = found["/no/1"].statements
    assert (usage.source, usage.raw, usage.uses) == (
        "Content-Usage in robots.txt",
        "/no/ train-ai=n",
        {"train-ai": "n"},
    )
    assert (signal.raw, signal.uses) == ("search=yes, ai-input=no", {"search": "y", "ai-input": "n"})
    assert usage.at == signal.at < found["/no/1"].fetched_at  # when robots.txt was read
    assert found["/header"].statements[-1].at == found["/header"].fetched_at
    assert [one.source for one in found["/open"].statements] == [
        "Content-Signal in robots.txt",
        "Content-Usage header",
    ]
    odd = [(one.raw, one.uses) for one in found["/odd"].statements[1:]]
    assert odd == [("train-ai=((n", {}), ("perhaps", {})]  # unknown stays unknown, and is on record
    assert TERMS not in asked  # nobody asked for what it says


def test_exports_leave_out_who_says_no_and_say_how_many(said: Result, tmp_path: Path) -> None:
    lines, omitted = written(reader(said, respect_ai=("train-ai",)), "jsonl", tmp_path)
    records = {record["url"].removeprefix(A): record for record in map(json.loads, lines)}
    assert set(records) == {"/", "/open", "/odd"}
    assert omitted == ["they say no to train-ai (export.respect_ai)"] * 4
    assert records["/open"]["robots"]["ai"] == {"search": "y", "ai-input": "n", "train-ai": "y"}
    assert records["/"]["robots"]["ai"] == {"search": "y", "ai-input": "n"}
    assert records["/odd"]["statements"][1]["source"] == "Content-Usage header"
    assert len(written(reader(said), "jsonl", tmp_path)[0]) == 7
    assert written(reader(said, respect_ai=("ai-input",)), "csv", tmp_path)[0][1:] == []
    urls = {json.loads(line.split(" ", 2)[2])["url"] for line in written(reader(said, respect_ai=("tdm",)), "cdxj", tmp_path)[0]}  # fmt: skip
    assert urls == {url for url in SAYING if url != f"{A}/meta"}


def test_an_index_holds_what_is_allowed_now(said: Result, tmp_path: Path) -> None:
    file = tmp_path / "search.sqlite"
    everything = found_in(reader(said), file, "word1")
    assert "/header" in everything[0]
    assert found_in(reader(said, respect_ai=("train-ai",)), file, "word1")[0] == ["/"]
    assert found_in(reader(said), file, "word1") == everything


def test_why_tells_who_said_what(said: Result) -> None:
    told = why(reader(said, respect_ai=("train-ai",)), f"{A}/header")
    assert "about its uses it is said: search=y, ai-input=n, train-ai=n" in told
    assert "Content-Usage header: train-ai=n, search=y (read " in told
    assert "is left out of exports and indexes: it says no to train-ai (Content-Usage header" in told


# ------------------------------------------------------------------------------------------------ terms of an origin

TDM = json.dumps([{"location": "/art/", "tdm-reservation": 1}])
OF_ORIGIN = {
    f"{A}/robots.txt": Answer(
        body=f"License: {A}/license.xml\nLicense: https://elsewhere.test/l.xml\nUser-agent: *\nDisallow: /x\n"
    ),
    f"{A}/license.xml": Answer(body=rsl(NO_TRAINING, "/news/").decode()),
    f"{A}/own.xml": Answer(body=rsl(NO_TRAINING).decode()),
    TERMS: Answer(body=TDM),
    f"{A}/": page(links("/art/1", "/news/1", "/blog/1", "/art/free")),
    f"{A}/art/1": page(TEXT),
    f"{A}/art/free": page('<meta name="tdm-reservation" content="0">', TEXT),
    f"{A}/news/1": page(TEXT),
    f"{A}/blog/1": page('<link rel="license" type="application/rsl+xml" href="/own.xml">', TEXT),
}


@pytest.mark.parametrize(
    ("setting", "respected", "fetched"),
    [("auto", [], False), ("auto", ["train-ai"], True), ("always", [], True), ("never", ["train-ai"], False)],
)
def test_terms_are_fetched_once_for_an_origin_if_they_are_wanted(
    tmp_path: Path, setting: str, respected: list[str], fetched: bool
) -> None:
    result = crawl(
        tmp_path,
        [f"{A}/"],
        OF_ORIGIN,
        robots__terms=setting,
        export__respect_ai=respected,
        scope__kind="host",
    )
    asked = [request.url for request in result.log]
    files = [TERMS, f"{A}/license.xml", f"{A}/own.xml"]
    assert [asked.count(url) for url in files] == [int(fetched)] * 3
    assert not [url for url in asked if "elsewhere" in url]  # out of scope, and of another domain
    assert asked[0] == f"{A}/robots.txt"
    kinds = {one.url: one.purpose for one in result.pages}
    assert result.counts.pages == 5
    assert [kinds[url] for url in files if fetched] == [Purpose.TERMS] * 3 * fetched
    starts = [request.start for request in result.log]
    ends = [request.end for request in result.log]
    assert all(later - earlier >= 1.0 for earlier, later in zip(ends, starts[1:], strict=False))


def test_what_they_say_counts_whichever_was_fetched_first(tmp_path: Path) -> None:
    result = crawl(tmp_path, [f"{A}/"], OF_ORIGIN, robots__terms="always", scope__kind="host")
    source = reader(result, respect_ai=("train-ai",))
    records = map(json.loads, written(source, "jsonl", tmp_path)[0])
    assert {record["url"].removeprefix(A) for record in records if record["purpose"] == "page"} == {
        "/",
        "/art/free",
    }
    told = why(source, f"{A}/art/free")
    assert "tdmrep.json:" in told
    assert "(superseded)" in told
    assert f"RSL licence: {A}/own.xml: prohibits usage ai-train" in why(source, f"{A}/blog/1")


def test_a_licence_of_several_origins_says_to_each_what_concerns_it(tmp_path: Path) -> None:
    free, shut = "http://free.said.test", "http://shut.said.test"
    both = f"""<rsl xmlns="https://rslstandard.org/rsl">
        <content url="{free}/"><license><permits type="usage">all</permits></license></content>
        <content url="{shut}/">{NO_TRAINING}</content></rsl>"""
    named = Answer(body=f"License: {free}/license.xml\nUser-agent: *\nDisallow: /x\n")
    script = {
        f"{free}/robots.txt": named,
        f"{shut}/robots.txt": named,
        f"{free}/license.xml": Answer(body=both),
    }
    script |= {f"{free}/": page(TEXT), f"{shut}/": page(TEXT)}
    result = crawl(tmp_path, [f"{free}/", f"{shut}/"], script, robots__terms="always", scope__kind="host")
    records = map(json.loads, written(reader(result, respect_ai=("train-ai",)), "jsonl", tmp_path)[0])
    assert [record["url"] for record in records if record["purpose"] == "page"] == [f"{free}/"]


def test_terms_that_are_forbidden_missing_or_broken_say_nothing(tmp_path: Path) -> None:
    script = OF_ORIGIN | {
        f"{A}/robots.txt": Answer(body=f"License: {A}/license.xml\nUser-agent: *\nDisallow: /.well-known/\n"),
        f"{A}/license.xml": Answer(body="<rsl><content"),
        f"{A}/own.xml": Answer(404),
    }
    result = crawl(tmp_path, [f"{A}/"], script, robots__terms="always")
    assert TERMS not in [request.url for request in result.log]
    refused = result.records[TERMS].reason
    assert refused is not None
    assert refused.code == "robots"
    lines, omitted = written(reader(result, respect_ai=("train-ai",)), "jsonl", tmp_path)
    assert (omitted, len(lines)) == ([], 7)


# ------------------------------------------------------------------------------------------------ payment


def test_a_price_is_recorded_and_never_paid(tmp_path: Path) -> None:
    script = {
        f"{A}/": page(links("/paid", "/paid/long")),
        f"{A}/paid": Answer(402, "pay", {"crawler-price": "USD 0.01"}),
        f"{A}/paid/long": Answer(402, "pay", {"crawler-price": "x" * 1000}),
    }
    result = crawl(tmp_path, [f"{A}/"], script)
    for url in (f"{A}/paid", f"{A}/paid/long"):
        assert len(result.times(url)) == 1
        record = result.records[url]
        assert record.reason is not None
        assert (record.state, record.status, record.reason.code) == (State.CRAWLED, 402, "payment")
        assert len(record.reason.detail) < 200
    told = why(reader(result), f"{A}/paid")
    assert "the server asks for USD 0.01 for this page (crawler-price); nothing is paid" in told
    assert "Skitter never pays" in told


# ------------------------------------------------------------------------------------------------ canonical pages


def named(href: str, text: str = TEXT) -> Answer:
    return page(f'<link rel="canonical" href="{href}">', f"<p>{text}")


CANONICAL = {
    f"{A}/": page(links("/print", "/main", "/lie", "/one", "/two", "/gone", "/far", "/self", "/bad", "/1", "/9")),
    f"{A}/print": named("/main"),
    f"{A}/main": named("/main", TEXT + " printed"),
    f"{A}/lie": named("/main", OTHER),
    f"{A}/one": named("/two", TEXT + " one"),
    f"{A}/two": named("/one", TEXT + " two"),
    f"{A}/gone": named("/missing", OTHER + " gone"),
    f"{A}/far": named("http://b.test/", OTHER + " far"),
    f"{A}/self": named(f"{A}/self?utm_source=x", OTHER + " self"),
    f"{A}/bad": named("mailto:someone", OTHER + " bad"),
    f"{A}/1": named("/2", TEXT + " same"),
    f"{A}/2": named("/3", TEXT + " same"),
    f"{A}/3": named("/3", TEXT + " same"),
    f"{A}/9": Answer(200, f"<p>{TEXT} nine", {"content-type": "text/html", "link": "</10>; rel=canonical"}),
    f"{A}/10": Answer(200, f"<p>{TEXT} nine", {"content-type": "text/html"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def canonicals(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return crawl(
        tmp_path_factory.mktemp("canonical"), [f"{A}/"], CANONICAL, scope__kind="host", dedup__near=True
    )


@pytest.mark.parametrize(
    ("path", "merged", "why"),
    [
        ("/print", True, "it is nearly the same as"),
        ("/main", None, ""),
        ("/self", None, ""),
        ("/lie", False, "it differs from http://a.test/main"),
        ("/one", False, "a circle"),
        ("/two", False, "a circle"),
        ("/gone", False, "was answered with status 404"),
        ("/far", False, "has no page (refused: "),
        ("/bad", False, "is not a URL"),
        ("/1", True, "http://a.test/3"),
        ("/9", True, "it is identical to http://a.test/10"),
    ],
)
def test_a_page_is_merged_only_into_one_that_was_fetched_and_is_the_same(
    canonicals: Result, path: str, merged: bool | None, why: str
) -> None:
    source = reader(canonicals)
    (stored,) = [one for one in canonicals.pages if one.url == A + path]
    verdict = asyncio.run(canonical(stored, source))
    assert (None if verdict is None else verdict.merged) is merged
    assert why in ("" if verdict is None else verdict.why)


def test_the_canonical_page_is_the_one_in_the_index_whichever_came_first(
    canonicals: Result, tmp_path: Path
) -> None:
    found, _ = found_in(reader(canonicals), tmp_path / "index", "word1")
    assert found == ["/10", "/3", "/main", "/one", "/two"]
    (later,) = [one for one in canonicals.pages if one.url == f"{A}/10"]
    assert later.identical  # so it would have been left out, as a copy of /9


def test_why_tells_what_became_of_it(canonicals: Result) -> None:
    assert "is merged into its canonical form: it is nearly the same as http://a.test/main" in why(
        reader(canonicals), f"{A}/print"
    )
    assert "as canonical, and stays: it differs from" in why(reader(canonicals), f"{A}/lie")


# ------------------------------------------------------------------------------------------------ copies and snippets


def test_a_copy_is_not_shown_whatever_its_url_is_spelt_like(tmp_path: Path) -> None:
    """The archive percent-encodes what RFC 3986 does not allow in a URL, and browsers send."""
    odd = ("/a|b", "/a?q={x}", "/%zz", "/%7c", "/a[1]")
    script = {f"{A}/": page(links(*odd, "/shown"))} | {f"{A}/shown": page(TEXT)}
    script |= {A + path: page(f"<p>{TEXT}", x_robots_tag="noarchive") for path in odd}
    result = crawl(tmp_path / "crawl", [f"{A}/"], script)
    assert {A + path for path in odd} <= {page.url for page in result.pages}
    lines, _ = written(reader(result), "cdxj", tmp_path)
    assert [json.loads(line.split(" ", 2)[2])["url"] for line in lines] == [
        f"{A}/",
        f"{A}/robots.txt",
        f"{A}/shown",
    ]


def test_copies_snippets_and_dates_are_respected(tmp_path: Path) -> None:
    script = {
        f"{A}/": page(links("/none", "/short", "/late", "/early", "/nonsense")),
        f"{A}/none": page(f"<p>{TEXT}", x_robots_tag="noarchive"),
        f"{A}/short": page('<meta name="robots" content="max-snippet:10">', f"<p>{TEXT} short"),
        f"{A}/late": page(f"<p>{OTHER} word1", x_robots_tag="unavailable_after: 1 Jan 2001 10:00:00 GMT"),
        f"{A}/early": page(f"<p>{OTHER} early word1", x_robots_tag="unavailable_after: 2999-01-01"),
        f"{A}/nonsense": page(
            f"<p>{OTHER} nonsense word1", x_robots_tag="unavailable_after: tomorrow, perhaps"
        ),
    }
    result = crawl(tmp_path / "crawl", [f"{A}/"], script)
    for wanted, shown in ((False, False), (True, True)):
        lines, omitted = written(reader(result, noarchive=wanted), "cdxj", tmp_path)
        assert any('"http://a.test/none"' in line for line in lines) is shown
        assert omitted == ([] if shown else ["they ask for noarchive (export.noarchive)"])
    assert len(written(reader(result), "jsonl", tmp_path)[0]) == 6  # records and text are no copies
    found, _ = found_in(reader(result), tmp_path / "index", "word1")
    assert found == ["/early", "/none", "/nonsense", "/short"]
    (early,) = [one for one in result.pages if one.url == f"{A}/early"]
    assert unwanted(early, now=4e10) == "it asks not to be indexed any more (unavailable_after)"


def test_a_page_that_says_no_to_search_is_in_no_index() -> None:
    said = Page(
        url=f"{A}/", requested_url="", key="", host="", domain="", status=200, fetched_at=0.0,
        statements=(Statement("Content-Usage header", "search=n", {"search": "n"}),),
    )  # fmt: skip
    assert unwanted(said) == "it says no to search (Content-Usage header: search=n)"


# ------------------------------------------------------------------------------------------------ as people run it


class Site(BaseHTTPRequestHandler):
    """A site that says what it wants, on a real socket."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        host = f"http://{self.headers['Host']}"
        body, headers = {
            "/robots.txt": (f"User-agent: *\nContent-Signal: search=yes\nLicense: {host}/license.xml\n", {}),
            "/license.xml": (rsl(NO_TRAINING, "/news/").decode(), {}),
            "/.well-known/tdmrep.json": (TDM, {}),
            "/": (links("/art/1", "/news/1", "/free", "/paid", "/long"), {}),
            "/long": (TEXT, {"X-Robots-Tag": "noindex, " * 116_500}),
            "/art/1": (TEXT, {}),
            "/news/1": (TEXT + " news", {}),
            "/free": (OTHER, {"Content-Usage": "train-ai=y", "X-Robots-Tag": "noarchive"}),
            "/paid": ("", {"crawler-price": "USD 0.01"}),
        }[self.path]
        self.send_response(402 if self.path == "/paid" else 200)
        for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_words: object) -> None:
        pass


def skitter(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "skitter", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def test_from_the_command_line_to_an_export_without_those_who_say_no(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_address[1]}"
        options = ["--allow-private", "127.0.0.0/8", "--delay", "10ms", "--workers", "1", "-q"]
        options += ["--set", 'export.respect_ai=["train-ai"]']
        done = skitter(tmp_path, "crawl", f"{root}/", "-o", "crawl", *options)
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert sorted(Site.asked) == sorted(
        [
            "/robots.txt",
            "/",
            "/art/1",
            "/news/1",
            "/free",
            "/long",
            "/paid",
            "/license.xml",
            "/.well-known/tdmrep.json",
        ]
    )
    exported = skitter(tmp_path, "export", "crawl", "--format", "jsonl", "-o", "pages.jsonl")
    assert "2 pages left out: they say no to train-ai (export.respect_ai)" in exported.stderr
    records = map(json.loads, (tmp_path / "pages.jsonl").read_text().splitlines())
    found = {record["url"].removeprefix(root) for record in records if record["purpose"] == "page"}
    assert found == {"/", "/free", "/paid"}
    everything = skitter(tmp_path, "export", "crawl", "--format", "jsonl", "--respect-ai", "none")
    assert len(everything.stdout.splitlines()) == 7
    replay = skitter(tmp_path, "export", "crawl", "--format", "cdxj").stdout
    assert '/free"' not in replay
    assert '/free"' in skitter(tmp_path, "export", "crawl", "--format", "cdxj", "--noarchive").stdout
    assert "tdmrep.json" in skitter(tmp_path, "why", "crawl", f"{root}/art/1").stdout
    long = skitter(tmp_path, "why", "crawl", f"{root}/long").stdout
    assert (
        "was given up (headers)" in long
    )  # a header of a megabyte: bounded, on record, and not asked for again
    paid = skitter(tmp_path, "why", "crawl", f"{root}/paid").stdout
    assert "asks for USD 0.01 for this page (crawler-price); nothing is paid" in paid
    assert skitter(tmp_path, "search", "crawl", "word1").returncode == 1  # both pages that have it say no
    kept = tmp_path / "crawl" / "crawl.toml"
    kept.write_text(kept.read_text().replace('respect_ai = ["train-ai"]', "respect_ai = []"))
    assert skitter(tmp_path, "search", "crawl", "word1", "-q").stdout.count(root) == 2  # the index follows
