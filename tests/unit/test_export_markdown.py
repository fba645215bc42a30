"""Exports of main content: a tree of Markdown files with front matter, and pieces for retrieval."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter.export.chunks import chunks
from skitter.export.destination import destination
from skitter.export.formats import FORMATS
from skitter.export.markdown import front_matter
from skitter.model import Statement
from skitter.robots import usage
from skitter.settings import Settings
from tests.unit.held import HeldCrawl
from tests.unit.test_export_formats import Heard

STORY = "".join(
    f"<p>Sentence {n} of a story, long enough to be one, and with a comma or two.</p>" for n in range(6)
)
NAV = "<nav><a href=/>Home</a></nav>"


def page(title: str, body: str) -> str:
    return f"<!doctype html><html lang=en><title>{title}</title>{NAV}<article><h1>{title}</h1>{body}</article></html>"


PAGES = {
    "https://example.org/": page("Start", STORY),
    "https://example.org/docs/a": page("A", f"{STORY}<h2>Code</h2><pre>x = 1</pre>"),
    "https://example.org/docs/A": page("Capital", STORY),
    "https://example.org/docs/a?q=1": page("Query", STORY),
}


def written(source: HeldCrawl, name: str, out: Path) -> Heard:
    heard = Heard()
    with destination(f"{out}/" if FORMATS[name].tree else str(out)) as files:
        asyncio.run(FORMATS[name].write(source, files, heard))  # type: ignore[arg-type]
    return heard


def matter(text: str) -> tuple[dict[str, object], str]:
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


# ------------------------------------------------------------------------------------------------ files


def test_each_page_is_a_file_with_front_matter_and_its_main_content(tmp_path):
    said = (
        Statement(usage.USAGE_HEADER, "train-ai=n", {"train-ai": "n"}),
        Statement(usage.LICENSE_PAGE, "/licence", {}),
    )
    heard = written(HeldCrawl(PAGES, statements=said), "markdown", tmp_path / "out")
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.md"))
    assert {"example.org/index.md", "example.org/docs/a.md"} < set(files)
    assert len({file.lower() for file in files}) == 4
    assert (heard.count, heard.remarks) == (4, [])
    head, body = matter((tmp_path / "out/example.org/docs/a.md").read_text())
    assert head == {
        "url": "https://example.org/docs/a",
        "title": "A",
        "language": "en",
        "fetched": "2023-11-14T22:13:20.000Z",
        "licence": ["https://example.org/licence"],
        "ai_use": {"train-ai": "n"},
    }
    assert body.startswith("\n# A\n\nSentence 0")
    assert "## Code\n\n```\nx = 1\n```" in body
    assert "Home" not in body


def test_pages_that_say_no_to_a_respected_use_are_left_out(tmp_path):
    settings = Settings()
    source = HeldCrawl(PAGES, replace(settings, export=replace(settings.export, respect_ai=("train-ai",))))
    no = (Statement(usage.USAGE_HEADER, "train-ai=n", {"train-ai": "n"}),)
    source.change("https://example.org/docs/a", statements=no)
    heard = written(source, "markdown", tmp_path / "out")
    assert heard.count == 3
    assert len(heard.omitted) == 1
    assert not (tmp_path / "out/example.org/docs/a.md").exists()


def test_a_lost_record_is_a_remark_and_error_pages_are_no_content(tmp_path):
    source = HeldCrawl(
        {**PAGES, "https://example.org/lost": None, "https://example.org/gone": page("Gone", STORY)}
    )
    source.change("https://example.org/gone", status=404)
    heard = written(source, "markdown", tmp_path / "out")
    assert heard.count == 4
    assert [remark.partition(": ")[0] for remark in heard.remarks] == ["https://example.org/lost"]


def test_a_page_that_takes_too_long_is_a_remark(tmp_path):
    settings = Settings()
    short = replace(settings, parse=replace(settings.parse, deadline=0.01, processes=1))
    heavy = "<p>" + "word, " * 700_000
    heard = written(
        HeldCrawl({"https://example.org/slow": heavy, **PAGES}, short), "chunks", tmp_path / "out"
    )
    assert any("parse.deadline" in remark and "/slow" in remark for remark in heard.remarks)


_HOSTILE = ["---\nurl: x", 'a"b', "{{x}}", "!!python/object", "a: b", "# c", "\u2028x\u202ey", "\x00\x1b[2J", "\ud800",
            "😀", "\\", "'", "%YAML", "&a *a", "\ufeffx", "\x85"]  # fmt: skip


@pytest.mark.parametrize("title", _HOSTILE)
def test_front_matter_says_what_the_page_says_and_nothing_else(title):
    head = front_matter({"url": "https://example.org/", "title": title, "ai_use": {title: "n"}})
    assert head.count("\n") == 5
    head.encode()
    said = yaml.safe_load(head.removeprefix("---\n").removesuffix("---\n"))
    shown = title.replace("\ud800", "\ufffd")
    assert said == {"url": "https://example.org/", "title": shown, "ai_use": {shown: "n"}}


# ------------------------------------------------------------------------------------------------ pieces


def test_pieces_know_their_headings_and_have_stable_ids(tmp_path):
    source = HeldCrawl(PAGES)
    source.change("https://example.org/docs/A", identical=True, duplicate_of="https://example.org/")
    heard = written(source, "chunks", tmp_path / "a")
    written(HeldCrawl(PAGES), "chunks", tmp_path / "b")
    records = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    assert heard.omitted == ["they repeat another page"]
    by_url = {record["url"]: record for record in records}
    assert len(by_url) == 3
    assert by_url["https://example.org/docs/a"]["headings"] == ["A"]
    assert by_url["https://example.org/docs/a"]["title"] == "A"
    again = {json.loads(line)["id"] for line in (tmp_path / "b").read_text().splitlines()}
    assert {record["id"] for record in records} <= again


def test_pieces_are_cut_at_headings_code_and_tables_stay_whole_in_each_part():
    rows = "\n".join(f"| {number} | value |" for number in range(100))
    code = "\n".join(f"line {number}" for number in range(100))
    text = f"# A\n\nintro\n\n## B\n\n| k | v |\n| --- | --- |\n{rows}\n\n## C\n\n```py\n{code}\n\n# no heading\n```\n\n### D\n\nend"
    made = list(chunks("https://example.org/", text, 300))
    assert max(len(chunk.text) for chunk in made) <= 300
    assert {chunk.headings for chunk in made} >= {("A",), ("A", "B"), ("A", "C")}
    tables = [chunk.text for chunk in made if "| value |" in chunk.text]
    assert all("| k | v |\n| --- | --- |\n" in each for each in tables)
    parts = [chunk.text for chunk in made if "line " in chunk.text]
    assert all(each.count("```") == 2 for each in parts)
    assert sum(each.count("value") for each in tables) == 100
    assert sum(each.count("line ") for each in parts) == 100


def test_headings_of_pieces_are_plain_text():
    (made,) = chunks("https://example.org/", "# 1\\. A \\*starred\\* C:\\\\x\n\nwords", 300)
    assert made.headings == ("1. A *starred* C:\\x",)
    assert made.text.startswith("# 1\\. A")


def test_a_change_leaves_the_ids_of_other_pieces():
    text = "\n\n".join(f"# H{number}\n\n{'word ' * 100}" for number in range(5))
    before = [chunk.id for chunk in chunks("https://example.org/", text, 600)]
    after = [chunk.id for chunk in chunks("https://example.org/", text.replace("# H2", "# X"), 600)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False, True, True]


@given(st.text(st.sampled_from("a #`|-\n"), max_size=400), st.integers(20, 60))
def test_pieces_are_never_too_long_and_lose_no_letter(text, most):
    made = list(chunks("u", text, most))
    assert all(len(chunk.text) <= most for chunk in made)
    assert sum(chunk.text.count("a") for chunk in made) >= text.count("a")
    assert len({chunk.id for chunk in made}) == len(made)
