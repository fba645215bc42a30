"""The named questions about a crawl of a site with known faults, and the report that shows them."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from skitter.cli import main
from skitter.export.checks import checks
from tests.crawl.harness import crawl, settings_for
from tests.crawl.sites import small_site

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e"
Asked = Callable[[str], list[dict[str, object]]]


def html(title: str = "", head: str = "", body: str = "") -> tuple[int, str, bytes]:
    titled = f"<title>{title}</title>" if title else ""
    return 200, "text/html; charset=utf-8", f"<html lang=en><head>{titled}{head}</head><body>{body}".encode()


def links(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">link</a>' for href in hrefs)


def moved(target: str, status: int = 301) -> tuple[int, str, bytes]:
    return status, "text/html", target.encode()


ENTITIES = HOSTILE.replace("&", "&amp;").replace("<", "&lt;")
SITE = {
    "/": html("The start of the site", body=links("/a", "/b", "/gone", "/one", "/loop1", "/temporary", "/private/x", "/hostile", "/Upper", "/empty", "/broken")),
    "/a": html("A title that two have", "<meta name=description content='The same description'>", links("/", "/gone", "/deep", "https://elsewhere.example/")),
    "/b": html("A title that two have", "<meta name=description content='The same description'><link rel=canonical href=/one>", links("/copy")),
    "/copy": html("A title that two have", "<meta name=description content='The same description'><link rel=canonical href=/one>", links("/copy")),
    "/one": moved("/two"),
    "/two": moved("/three"),
    "/three": html("The end of all redirects", "<meta name=robots content=noindex>"),
    "/loop1": moved("/loop2"),
    "/loop2": moved("/loop1"),
    "/temporary": moved("/a", 302),
    "/hostile": html(ENTITIES),
    "/Upper": html("X"),
    "/empty": html("", body=links("/b")),
    "/deep": html("Nothing links from here"),
    "/broken": moved("/gone"),
}  # fmt: skip


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("faulty") / "crawl"
    with small_site(SITE, robots=b"User-agent: *\nDisallow: /private/\n") as site:
        crawl(folder, [f"{site}/"], settings_for())
    return folder, site


@pytest.fixture
def ask(crawled: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> Asked:
    """The rows of a named question, with addresses as paths."""
    folder, site = crawled

    def rows(name: str) -> list[dict[str, object]]:
        assert main(["sql", str(folder), name, "--json", "-q"]) == 0
        return [json.loads(line.replace(site, "")) for line in capsys.readouterr().out.splitlines()]

    return rows


def test_broken_links_are_found_with_their_sources(ask):
    found = {(row["problem"], row["target"], row["source"]) for row in ask("broken-links")}
    assert found == {("404", "/gone", "/"), ("404", "/gone", "/a")}
    assert [(row["url"], row["linked_from"]) for row in ask("missing-pages")] == [("/gone", 2)]


def test_redirects_are_followed_from_end_to_end(ask):
    assert [(row["url"], row["hops"], row["chain"]) for row in ask("redirect-chains")] == [
        ("/one", 2, "/one → /two → /three")
    ]
    assert [(row["url"], row["loop"]) for row in ask("redirect-loops")] == [("/loop1", "/loop1 → /loop2")]
    assert [(row["url"], row["status"]) for row in ask("temporary-redirects")] == [("/temporary", 302)]
    assert [(row["url"], row["problem"]) for row in ask("redirects-to-errors")] == [("/broken", "404")]
    linked = {(row["source"], row["target"]) for row in ask("linked-redirects")}
    own = {("/", "/one"), ("/", "/loop1"), ("/", "/temporary"), ("/", "/broken")}
    assert linked == own | {("/b", "/one"), ("/copy", "/one")}  # a canonical address is a link, too


def test_titles_and_descriptions(ask):
    assert [(row["title"], row["pages"]) for row in ask("duplicate-titles")] == [("A title that two have", 3)]
    assert [row["url"] for row in ask("missing-titles")] == ["/empty"]
    assert [row["url"] for row in ask("short-titles")] == ["/Upper"]
    assert [row["pages"] for row in ask("duplicate-descriptions")] == [3]


def test_what_search_engines_are_told(ask):
    assert [row["url"] for row in ask("noindex-pages")] == ["/three"]
    assert {row["url"]: row["problem"] for row in ask("canonical-problems")} == {
        "/b": "redirects to /two",
        "/copy": "redirects to /two",
    }
    assert {row["url"] for row in ask("refused-by-robots")} == {"/private/x"}


def test_structure_and_addresses(ask):
    assert [row["host"] for row in ask("external-hosts")] == ["elsewhere.example"]
    assert {row["url"] for row in ask("untidy-addresses")} == {"/Upper"}
    assert "/deep" in {row["url"] for row in ask("dead-ends")}
    assert {row["url"]: row["linked_from"] for row in ask("few-in-links")}["/deep"] == "/a"
    assert ask("orphan-pages") == []
    assert ask("most-linked")[0] == {"url": "/one", "linked_from": 3}


# ---------------------------------------------------------------------------------------------- the report


class Elements(HTMLParser):
    """Every element of a page, and every address in it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.addresses: list[str] = []
        self.attributes: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value for name, value in attrs if name in {"href", "src"}]
        self.ids |= {value for name, value in attrs if name == "id"}


@pytest.fixture(scope="module")
def report(crawled: tuple[Path, str]) -> str:
    file = crawled[0].parent / "report.html"
    assert main(["report", str(crawled[0]), "--html", "-o", str(file), "-q"]) == 0
    return file.read_text("utf-8")


def test_the_page_is_alone_and_harmless(report, crawled):
    page = Elements()
    page.feed(report)
    assert not page.names & {"script", "img", "link", "iframe", "object", "base", "form"}
    assert not [name for name in page.attributes if name.startswith("on")]
    outside = [each for each in page.addresses if not each.startswith("#")]
    assert all(each.startswith((crawled[1], "https://elsewhere.example/")) for each in outside)
    assert {each[1:] for each in page.addresses if each.startswith("#")} <= page.ids
    assert "default-src &#x27;none&#x27;" in report or "default-src 'none'" in report
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report
    assert "\u202e" not in report
    assert "url(" not in report
    assert "@import" not in report


def test_the_page_tells_of_every_check(report):
    for check in checks().values():
        assert check.title in report or check.title.lower() in report
    assert re.search(r'id="broken-links"><h3>Broken links <span class="badge">2<', report)
    assert "<svg" in report
    only_one = report.partition('id="pages-by-type"')[2].partition("</article>")[0]
    assert "<td>text/html</td>" in only_one  # a chart of one bar would say nothing


def test_long_answers_are_cut_with_the_command_for_all(tmp_path):
    from benchmarks.synthetic import build  # noqa: PLC0415

    build(tmp_path / "crawl", 400)
    assert main(["report", str(tmp_path / "crawl"), "--html", "-o", str(tmp_path / "x.html"), "-q"]) == 0
    text = (tmp_path / "x.html").read_text("utf-8")
    assert re.search(r"[\d,]+ more rows: <code>skitter sql \S+/crawl broken-links</code>", text)
    assert len(text) < 500_000


def test_the_report_as_text_and_json(crawled, capsys):
    assert main(["report", str(crawled[0]), "-q"]) == 0
    said = capsys.readouterr().out
    assert "finished: nothing is left to do" in said
    assert re.search(r"^ +2  broken-links ", said, re.MULTILINE)
    assert main(["report", str(crawled[0]), "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in told["checks"]} == set(checks())
    assert next(each["rows"] for each in told["checks"] if each["name"] == "broken-links") == 2


def test_wrong_usage(crawled, tmp_path, capsys):
    assert main(["report", str(crawled[0]), "--html", "--json"]) == 2
    assert main(["report", str(crawled[0]), "--html", "-o", str(tmp_path)]) == 2
    assert "name a file" in capsys.readouterr().err
