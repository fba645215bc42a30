"""Main content of whole crawls: extracted while crawling or afterwards, seen by programs, exported and compared by commands."""

import json

import pytest

import skitter
from skitter import cli
from skitter.settings import SettingsError
from tests.crawl.harness import HASTY, crawl, settings_for
from tests.crawl.sites import small_site

STORY = b"".join(
    b"<p>Paragraph %d of the story, which goes on for a while, and has some more words.</p>" % number
    for number in range(8)
)


def page(name: bytes, more: bytes = b"") -> tuple[int, str, bytes]:
    menu = b"<nav><a href=/>Home</a> <a href=/a>A</a> <a href=/b>B</a></nav>"
    head = b"<!doctype html><title>%b</title>%b<article><h1>%b</h1>" % (name, menu, name)
    foot = b"</article><footer>Imprint and the like, at length, as footers are</footer>"
    return 200, "text/html; charset=utf-8", head + STORY + more + foot


PAGES = {
    "/": page(b"Start"),
    "/a": page(b"A", b"<pre>code()</pre>"),
    "/b": page(b"B", b"<p>Soon to be changed.</p>"),
}
LATER = PAGES | {"/b": page(b"B", b"<p>Now it has changed.</p>")}


def test_content_is_stored_while_crawling_if_settings_ask_for_it(tmp_path):
    with small_site(PAGES) as base:
        found = {
            asked: crawl(
                tmp_path / str(asked),
                [f"{base}/"],
                settings_for(None, parse__main=asked, parse__extractor="fast"),
            )
            for asked in (True, False)
        }
    for stored in found[True].pages:
        assert stored.content is not None
        assert "Paragraph 3" in stored.content.main
        assert "Imprint" not in stored.content.main
        assert stored.language == "en"  # detected: no page declares one
    assert all(stored.content is None for stored in found[False].pages)
    alike = [
        sorted((one.url, one.title, one.digest, one.text) for one in each.pages) for each in found.values()
    ]
    assert alike[0] == alike[1]
    assert len(alike[0]) == 3


def test_a_program_sees_the_main_content_of_a_page(monkeypatch):
    with small_site(PAGES) as base:
        pages = {each.url: each for each in skitter.crawl(f"{base}/", parse_extractor="fast", **HASTY)}
    found = pages[f"{base}/a"]
    assert found.markdown.startswith("# A\n\nParagraph 0")
    assert "```\ncode()\n```" in found.markdown
    assert "Imprint" not in found.main
    monkeypatch.setattr("skitter.parse.main.find_spec", lambda _name: None)
    other = pages[f"{base}/b"]
    assert "Soon to be changed." in other.main  # needs no library
    with small_site(PAGES) as base, pytest.raises(SettingsError, match=r"install .*\[main\]"):
        next(iter(skitter.crawl(f"{base}/", **HASTY))).main  # noqa: B018


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_crawl_that_lacks_the_library_says_so_before_it_begins(workers, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("skitter.parse.main.find_spec", lambda _name: None)
    words = ("http://127.0.0.1:9/", "--main", "--workers", workers, "-o", str(tmp_path / "crawl"))
    assert run("crawl", *words, "--allow-private", "127.0.0.0/8") == 2
    assert "[main]" in capsys.readouterr().err


def run(*words: str) -> int:
    return cli.main(list(words))


def test_the_commands_export_and_compare_crawls(tmp_path, capsys):
    old, new = tmp_path / "old", tmp_path / "new"
    served = dict(PAGES)
    with small_site(served) as base:
        crawl(old, [f"{base}/"], settings_for(None, parse__extractor="fast"))
        served.update(LATER)
        crawl(new, [f"{base}/"], settings_for(None, parse__extractor="fast"))
    assert run("export", str(old), "--format", "markdown", "-o", str(tmp_path / "md")) == 0
    files = sorted(path.name for path in (tmp_path / "md").rglob("*.md"))
    assert files == ["a.md", "b.md", "index.md"]
    assert run("export", str(old), "--format", "chunks", "-o", str(tmp_path / "chunks.jsonl")) == 0
    assert len((tmp_path / "chunks.jsonl").read_text().splitlines()) >= 3
    assert run("export", str(old), "--format", "markdown") == 2
    capsys.readouterr()
    assert run("changes", str(old), str(new), "--json") == 1
    changed, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (changed["kind"], changed["url"]) == ("changed", f"{base}/b")
    assert summary == {"summary": {"new": 0, "changed": 1, "moved": 0, "gone": 0, "unchanged": 2}}
    assert run("changes", str(old), str(new)) == 1
    assert "[-Soon to be-] {+Now it has+} changed." in capsys.readouterr().out
    assert run("changes", str(old), str(new), "--html", "-o", str(tmp_path / "c.html")) == 1
    assert "<ins>" in (tmp_path / "c.html").read_text()
    assert run("changes", str(new), str(new)) == 2
    assert run("changes", str(old), f"{old}/../old") == 2
