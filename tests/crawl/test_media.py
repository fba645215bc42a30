"""Documents of many kinds in one crawl, from a real server: what is read of them is in their page records."""

import json
import threading

import pytest

import skitter
from skitter.cli import main
from skitter.model import State
from skitter.parse.apart import read_apart
from skitter.runtime import extras
from skitter.settings import ParseSettings
from tests import documents
from tests.crawl.harness import HASTY, crawl, settings_for
from tests.hostile_documents import hostile_pdfs


@pytest.fixture
def server():
    running = documents.Server()
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def html(*hrefs):
    return "text/html", "".join(f'<p><a href="{href}">{href}</a>' for href in hrefs).encode()


def by_path(crawled, server):
    return {page.url.removeprefix(server.base): page for page in crawled.pages}


def test_links_to_a_pdf_are_followed_and_so_are_those_in_it(server, tmp_path):
    report = documents.pdf(
        [["The annual report", f"See {server.base}/written for more."], ["Page two"]],
        links=[f"{server.base}/clicked", "mailto:a@b.example"],
        info={"Title": "Annual report", "Author": "Ada", "CreationDate": "D:20240131120000+01'00'"},
    )
    server.bodies |= {
        "/": html("/report.pdf", "/film.mp4"),
        "/report.pdf": ("application/pdf", report),
        "/clicked": html(),
        "/written": html(),
    }
    pages = by_path(crawl(tmp_path / "c", [f"{server.base}/"], settings_for()), server)
    assert pages.keys() == {"/", "/report.pdf", "/clicked", "/written"}
    page = pages["/report.pdf"]
    assert (page.title, page.author, page.language) == ("Annual report", "Ada", "en-GB")
    assert page.media["pages"] == 2
    assert page.media["created"] == "2024-01-31T12:00:00+01:00"


def test_without_the_extra_a_pdf_is_skipped_and_the_reason_names_what_to_install(
    server, tmp_path, monkeypatch
):
    monkeypatch.setitem(extras.LIBRARIES, "pdf", ("no_such_library",))
    extras.is_there.cache_clear()
    server.bodies |= {"/": html("/report.pdf", "/named")}
    server.bodies["/named"] = ("application/pdf", documents.pdf())
    try:
        crawled = crawl(tmp_path / "c", [f"{server.base}/"], settings_for())
    finally:
        extras.is_there.cache_clear()
    assert "/report.pdf" not in server.asked
    refused = crawled.records[f"{server.base}/report.pdf"]
    assert refused.reason.code == "scope.extension"
    assert "the extra pdf would read it" in refused.reason.detail
    assert by_path(crawled, server)["/named"].media is None


def test_every_kind_of_document_lands_in_its_page_record(server, tmp_path, capsys):
    base = server.base
    server.bodies |= {
        "/": html(
            "/plan.docx",
            "/costs.xlsx",
            "/book.epub",
            "/photo.jpg",
            "/data.json",
            "/table.csv",
            "/feed.xml",
            "/old.zip",
        ),
        "/plan.docx": (documents.DOCX, documents.docx("The plan is simple", links=[f"{base}/from-docx"])),
        "/costs.xlsx": ("application/octet-stream", documents.xlsx([["Tea", 3]])),
        "/book.epub": (documents.EPUB, documents.epub(f"<p>Call me <a href='{base}/from-epub'>Ishmael</a>")),
        "/photo.jpg": ("image/jpeg", documents.photo()),
        "/data.json": ("application/json", json.dumps({"see": f"{base}/from-json"}).encode()),
        "/table.csv": ("text/csv", f"name,url\nx,{base}/from-csv\n".encode()),
        "/feed.xml": ("text/xml", f"<r><link>{base}/from-xml</link></r>".encode()),
    } | {f"/from-{kind}": html() for kind in ("docx", "epub", "json", "csv", "xml")}
    crawled = crawl(tmp_path / "c", [f"{base}/"], settings_for())
    pages = by_path(crawled, server)
    assert pages.keys() == set(server.bodies)
    assert main(["export", str(tmp_path / "c"), "--format", "jsonl", "-q"]) == 0
    told = {
        line["url"].removeprefix(base): line for line in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert {path: line["media"]["format"] for path, line in told.items() if line["media"]} == {
        "/plan.docx": "docx", "/costs.xlsx": "xlsx", "/book.epub": "epub", "/photo.jpg": "jpeg",
        "/data.json": "json", "/table.csv": "csv", "/feed.xml": "xml",
    }  # fmt: skip
    assert told["/plan.docx"]["text"] == "The plan is simple"
    assert told["/costs.xlsx"]["text"] == "Tea 3"
    assert told["/book.epub"]["text"] == "Call me Ishmael"
    assert "location" not in told["/photo.jpg"]["media"]


def test_a_hostile_pdf_costs_one_page_and_its_record_says_why(server, tmp_path):
    bomb = dict(hostile_pdfs())["forms that call themselves"]()
    server.bodies |= {
        "/": html("/bomb.pdf", "/after"),
        "/bomb.pdf": ("application/pdf", bomb),
        "/after": html(),
    }
    crawled = crawl(tmp_path / "c", [f"{server.base}/"], settings_for(schedule__retries=0))
    assert by_path(crawled, server).keys() == {"/", "/after"}
    failed = crawled.records[f"{server.base}/bomb.pdf"]
    assert (failed.state, failed.reason.code) == (State.FAILED, "parser")


API = """[{match = "http://127.0.0.1/*", parse.follow_json = "$.items[*].url", parse.next_json = "$.next", parse.next_param = "cursor", parse.items_json = "$.items[*]"}]"""


def test_a_paginated_api_is_crawled_to_its_end_and_its_items_are_exported(server, tmp_path, capsys):
    base, number = server.base, 25
    for page in range(number):
        items = [
            {"id": f"{page}-{n}", "url": f"/v1/item/{page}-{n}", "icon": f"{base}/icon"} for n in range(4)
        ]
        answer = {"items": items, "next": f"c{page + 1}" if page + 1 < number else None}
        path = f"/v1/items?size=4&cursor=c{page}" if page else "/v1/items?size=4"
        server.bodies[path] = ("application/json", json.dumps(answer).encode())
        server.bodies |= {item["url"]: ("application/json", b'{"name": "x"}') for item in items}
    site = API.replace("127.0.0.1", base.removeprefix("http://"))
    settings = settings_for(site=site, politeness__delay="10ms")
    crawl(tmp_path / "c", [f"{base}/v1/items?size=4"], settings)
    asked = [path for path in server.asked if path != "/robots.txt"]
    assert sorted(asked) == sorted(server.bodies)  # each once, and nothing that is no link
    assert main(["export", str(tmp_path / "c"), "--format", "items", "-q"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["item"]["id"] for line in told} == {
        f"{page}-{n}" for page in range(number) for n in range(4)
    }
    assert len(told) == 4 * number
    assert all(line["url"].startswith(f"{base}/v1/items?size=4") for line in told)


def test_a_list_may_name_its_next_part_in_a_header(server, tmp_path):
    server.bodies |= {
        "/list": ("application/json", b'["a"]', ("Link", '</list?page=2>; rel="next"')),
        "/list?page=2": ("application/json", b'["b"]'),
    }
    crawled = crawl(tmp_path / "c", [f"{server.base}/list"], settings_for())
    assert by_path(crawled, server).keys() == {"/list", "/list?page=2"}


def test_a_program_gets_the_links_of_a_pdf_from_a_process_of_its_own(server, monkeypatch):
    content = documents.pdf([["Hello"]], links=[f"{server.base}/other"])
    server.bodies |= {"/a.pdf": ("application/pdf", content)}
    (page,) = [
        page for page in skitter.crawl(f"{server.base}/a.pdf", **HASTY, scope="page") if page.status == 200
    ]
    monkeypatch.setattr("skitter.links.page.parse", None)  # not here
    assert (page.text, page.media["pages"]) == ("Hello", 1)
    assert [link.url for link in page.links] == [f"{server.base}/other"]
    bomb = dict(hostile_pdfs())["forms that call themselves"]()
    with pytest.raises(ValueError, match="cannot be read: the process that read it ended"):
        read_apart(page.url, page.headers, bomb, ParseSettings())


def test_images_have_the_alt_texts_of_who_shows_them_and_links_to_them(server, tmp_path, capsys):
    picture = documents.picture()
    long = "word " * 100
    server.bodies |= {
        "/": (
            "text/html",
            (
                b"<base href=/pics/><p><img alt=' A  cat &amp; a dog ' src=cat.png><img src=dog.png alt=''>"
                b"<a href=/large.png><img src=small.png alt='The house'></a> <a href=/1>1</a> <a href=/2>2</a>"
                b"<picture><source srcset='/wide.png 2x'><img src=narrow.png alt=Sea></picture>"
            ),
        ),
        "/1": ("text/html", f"<img src=/pics/cat.png alt='{long}'><a href=/3>3</a>".encode()),
        "/2": ("text/html", "<meta charset=utf-8><img data-src=/pics/cat.png alt='Größe'>".encode()),
        "/3": ("text/html", b"<img srcset='/pics/cat.png 1x, /else.png 2x' alt='A cat & a dog'>"),
        **{f"/pics/{name}.png": ("image/png", picture) for name in ("cat", "dog", "small", "narrow")},
        **{f"/{name}.png": ("image/png", picture) for name in ("large", "wide", "else")},
    }
    path = tmp_path / "c"
    crawl(path, [f"{server.base}/"], settings_for(archive__assets="all"))
    assert main(["export", str(path), "--format", "jsonl", "-q"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    said = {
        record["url"].removeprefix(server.base): sorted((record["media"] or {}).get("alts", []))
        for record in records
        if record["url"].endswith(".png")
    }
    assert said == {
        "/pics/cat.png": ["A cat & a dog", "Größe", long[:200].strip()],
        "/pics/dog.png": [],
        "/pics/small.png": ["The house"],
        "/large.png": ["The house"],
        "/pics/narrow.png": ["Sea"],
        "/wide.png": ["Sea"],
        "/else.png": ["A cat & a dog"],
    }
    assert main(["show", str(path), f"{server.base}/large.png"]) == 0
    assert "alts        The house\n" in capsys.readouterr().out
    assert main(["show", str(path), f"{server.base}/pics/cat.png", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["media"]["alts"] == ["A cat & a dog"]


def test_alt_texts_of_an_image_are_few(server, tmp_path, capsys):
    server.bodies |= {f"/{n}": ("text/html", f"<img src=/a.png alt=text{n}>".encode()) for n in range(12)}
    server.bodies["/"] = html(*(f"/{n}" for n in range(12)))
    server.bodies["/a.png"] = ("image/png", documents.picture())
    crawl(tmp_path / "c", [f"{server.base}/"], settings_for(archive__assets="all"))
    assert main(["export", str(tmp_path / "c"), "--format", "jsonl", "-q"]) == 0
    records = map(json.loads, capsys.readouterr().out.splitlines())
    (image,) = [record for record in records if record["url"].endswith("a.png")]
    assert len(set(image["media"]["alts"])) == len(image["media"]["alts"]) == 5


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("there", "told"),
    [
        ("no library", "[images]"),
        ("no program", "apt-get install tesseract-ocr"),
        (
            "no language",
            "no data for 'deu_latf' here, only for eng, osd; install it (Debian: apt-get install tesseract-ocr-deu-latf)",
        ),
    ],
)
def test_a_crawl_that_cannot_read_text_in_images_says_so_before_it_begins(
    workers, there, told, tmp_path, monkeypatch, capsys
):
    programs = tmp_path / "bin"
    programs.mkdir()
    if there != "no program":
        program = programs / "tesseract"
        program.write_text("#!/bin/sh\nprintf 'List of available languages (2):\\neng\\nosd\\n'\n")
        program.chmod(0o755)
    if there == "no library":
        monkeypatch.setitem(extras.LIBRARIES, "images", ("no_such_library",))
    extras.is_there.cache_clear()
    monkeypatch.setenv("PATH", str(programs))
    words = ["crawl", "http://127.0.0.1:9/", "--set", "parse.ocr=eng+deu_latf", "--workers", workers]
    try:
        assert main([*words, "-o", str(tmp_path / "c")]) == 2
    finally:
        extras.is_there.cache_clear()
    said = capsys.readouterr().err.splitlines()
    assert told in said[-1]
    assert not (tmp_path / "c").exists()
