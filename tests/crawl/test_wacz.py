"""`export --format wacz`: valid, whole, with exactly what may be shown; judged by other programs."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from skitter.cli import main
from skitter.compose import open_reader
from skitter.export import wacz
from skitter.export.destination import destination
from skitter.export.formats import FORMATS
from skitter.urls import surt
from tests.conformance.cases import needs_cases, rows
from tests.crawl.virtual import ROCKSDB, Answer, crawl, html, moved, settings_with
from tests.unit.test_export_formats import Heard

A = "http://a.test"
SECRET, UNTRAINED = "a secret nobody may replay", "words that no model may learn"


def page(text: str, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(200, f"<title>{text}</title><p>{text}", {"content-type": "text/html"} | fields)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory) -> Path:
    """Pages, a copy, a redirect, a 404, one that asks for noarchive, and a copy of that."""
    hrefs = ["/one", "/two", "/old", "/gone", "/hidden", "/untrained", "/copy?of=hidden", "/ünï|code"]
    script = {
        f"{A}/": html(*hrefs),
        f"{A}/one": page("the same words " * 20),
        f"{A}/two": page("the same words " * 20),
        f"{A}/old": moved("/one"),
        f"{A}/hidden": page(SECRET * 20, x_robots_tag="noarchive"),
        f"{A}/copy?of=hidden": page(SECRET * 20),
        f"{A}/untrained": page(UNTRAINED * 20, content_usage="train-ai=n"),
        f"{A}/%C3%BCn%C3%AF|code": page("odd"),
    }
    return crawl(tmp_path_factory.mktemp("wacz"), [f"{A}/"], script, store=ROCKSDB).directory.path


def packed(directory: Path, file: Path, **export: object) -> Heard:
    settings = settings_with()
    source = open_reader(directory, replace(settings, export=replace(settings.export, **export)))
    heard = Heard()

    async def write() -> None:
        with destination(str(file)) as files:
            await FORMATS["wacz"].write(source, files, heard)
        await source.close()

    asyncio.run(write())
    return heard


@pytest.fixture(scope="module")
def file(crawled, tmp_path_factory) -> Path:
    made = Path(tmp_path_factory.mktemp("packed")) / "crawl.wacz"
    packed(crawled, made)
    return made


def validated(file: Path) -> bool:
    """What py-wacz says, in a process of its own: it leaves files open."""
    done = subprocess.run(
        [sys.executable, "-m", "wacz", "validate", "-f", file], check=False, capture_output=True, text=True
    )
    print(done.stdout, done.stderr)
    return done.returncode == 0


def answers(file: Path) -> list[tuple[str, str, bytes]]:
    """Type, URL and payload of all records, read by warcio."""
    found = []
    with zipfile.ZipFile(file) as package:
        for name in package.namelist():
            if name.startswith("archive/"):
                for record in ArchiveIterator(io.BytesIO(package.read(name)), check_digests="raise"):
                    url = record.rec_headers.get_header("WARC-Target-URI") or ""
                    found.append((record.rec_type, url, record.content_stream().read()))
    return found


def index(file: Path) -> list[tuple[str, dict[str, str]]]:
    """Key with time, and fields, of all lines of the index."""
    with zipfile.ZipFile(file) as package:
        names = [name for name in package.namelist() if re.fullmatch(r"indexes/index\.cdx(\.gz)?", name)]
        (octets,) = map(package.read, names)
    text = gzip.decompress(octets) if octets.startswith(b"\x1f\x8b") else octets
    lines = (line.split(" ", 2) for line in text.decode().splitlines())
    return [(f"{key} {stamp}", json.loads(about)) for key, stamp, about in lines]


def pages(file: Path) -> list[dict[str, object]]:
    with zipfile.ZipFile(file) as package:
        return [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]


# ------------------------------------------------------------------------------------------------ requirements


def _stored(package: zipfile.ZipFile) -> bool:
    return all(info.compress_type == zipfile.ZIP_STORED for info in package.infolist())


def _described(package: zipfile.ZipFile) -> bool:
    about = json.loads(package.read("datapackage.json"))
    return (about["profile"], about["wacz_version"]) == ("data-package", "1.1.1") and all(
        each["hash"] == f"sha256:{hashlib.sha256(package.read(each['path'])).hexdigest()}"
        and each["bytes"] == package.getinfo(each["path"]).file_size
        and each["name"]
        for each in about["resources"]
    )


def _listed(package: zipfile.ZipFile) -> bool:
    named = {each["path"] for each in json.loads(package.read("datapackage.json"))["resources"]}
    return named == set(package.namelist()) - {"datapackage.json", "datapackage-digest.json"}


def _paged(package: zipfile.ZipFile) -> bool:
    head, *lines = map(json.loads, package.read("pages/pages.jsonl").splitlines())
    moment = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    return head["format"] == "json-pages-1.0" and all(
        line["url"] and moment.fullmatch(line["ts"]) for line in lines
    )


REQUIRED = {
    "wacz-01": _stored,
    "wacz-02": _described,
    "wacz-03": lambda package: any(
        re.fullmatch(r"archive/[^/]+\.warc\.gz", name) for name in package.namelist()
    ),
    "wacz-04": lambda package: "indexes/index.cdx" in package.namelist(),
    "wacz-05": _paged,
    "wacz-06": lambda package: (
        json.loads(package.read("datapackage-digest.json"))["hash"]
        == f"sha256:{hashlib.sha256(package.read('datapackage.json')).hexdigest()}"
    ),
    "wacz-07": _listed,
    "wacz-08": lambda package: validated(Path(package.filename or "")),
    "wacz-09": lambda package: all(info.create_version >= 45 for info in package.infolist()[:-2]),
}


@needs_cases
def test_every_requirement_has_a_check():
    assert {row["id"] for row in rows("wacz_requirements.jsonl")} == set(REQUIRED)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_package_meets_the_requirement(name, file):
    with zipfile.ZipFile(file) as package:
        assert REQUIRED[name](package), name


# ------------------------------------------------------------------------------------------------ what is in it


def test_it_has_every_answer_and_the_index_finds_each(file):
    found = answers(file)
    assert {url for kind, url, _ in found if kind == "response"} >= {
        f"{A}/{name}"
        for name in ("robots.txt", "", "one", "old", "gone", "untrained", "%C3%BCn%C3%AF%7Ccode")
    }
    assert [url for kind, url, _ in found if kind == "revisit"] == [f"{A}/two"]
    lines = index(file)
    assert [key for key, _ in lines] == sorted(key for key, _ in lines)
    assert len(lines) == len([kind for kind, _, _ in found if kind in ("response", "revisit")])
    with zipfile.ZipFile(file) as package:
        for key, about in lines:
            octets = package.read(f"archive/{about['filename']}")
            start = int(about["offset"])
            (record,) = ArchiveIterator(io.BytesIO(octets[start : start + int(about["length"])]))
            assert record.rec_headers.get_header("WARC-Target-URI") == about["url"]
            assert key.split()[0] == surt(about["url"])


def test_its_pages_are_those_that_can_be_opened(file):
    listed = {line["url"]: line["title"] for line in pages(file)[1:]}
    assert set(listed) == {f"{A}/{name}" for name in ("", "one", "two", "untrained", "%C3%BCn%C3%AF|code")}
    with zipfile.ZipFile(file) as package:
        assert json.loads(package.read("datapackage.json"))["mainPageUrl"] == f"{A}/"


def test_what_asks_for_noarchive_is_nowhere_in_it(crawled, file, tmp_path):
    assert not any(SECRET.encode() in payload for _, _, payload in answers(file))
    assert not any("hidden" in url for _, url, _ in answers(file))
    assert "hidden" not in str(pages(file)) + str(index(file))
    why = "ask for noarchive (export.noarchive)"
    omitted = packed(crawled, tmp_path / "again.wacz").omitted
    assert sorted(omitted) == [f"they {why}", f"they repeat pages that {why}"]
    packed(crawled, tmp_path / "all.wacz", noarchive=True)
    assert any(SECRET.encode() in payload for _, _, payload in answers(tmp_path / "all.wacz"))


def test_what_says_no_to_a_use_is_nowhere_in_it(crawled, file, tmp_path):
    heard = packed(crawled, tmp_path / "respectful.wacz", respect_ai=("train-ai",))
    assert "they say no to train-ai (export.respect_ai)" in heard.omitted
    assert any(UNTRAINED.encode() in payload for _, _, payload in answers(file))
    assert not any(UNTRAINED.encode() in payload for _, _, payload in answers(tmp_path / "respectful.wacz"))


def test_players_find_where_content_begins(file):
    """ReplayWeb.page reads the head of a member only if the list at the end has extra fields for it."""
    octets = file.read_bytes()
    with zipfile.ZipFile(file) as package:
        for info in package.infolist():
            in_its_head = int.from_bytes(octets[info.header_offset + 28 : info.header_offset + 30], "little")
            assert bool(in_its_head) == bool(info.extra), info.filename


def test_a_large_index_is_in_blocks(crawled, file, tmp_path, monkeypatch):
    monkeypatch.setattr(wacz, "SMALL", 3)
    monkeypatch.setattr(wacz, "BLOCK", 2)
    large = tmp_path / "large.wacz"
    packed(crawled, large)
    assert validated(large)
    assert index(large) == index(file)
    with zipfile.ZipFile(large) as package:
        head, *blocks = package.read("indexes/index.idx").decode().splitlines()
        packed_lines = package.read("indexes/index.cdx.gz")
    assert json.loads(head.removeprefix("!meta 0 ")) == {
        "format": "cdxj-gzip-1.0",
        "filename": "index.cdx.gz",
    }
    for block in blocks:
        key, stamp, about = block.split(" ", 2)
        place = json.loads(about)
        member = packed_lines[place["offset"] : place["offset"] + place["length"]]
        assert gzip.decompress(member).decode().startswith(f"{key} {stamp} {{")


def test_a_package_of_more_than_4_gb_can_be_read(crawled, tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    packed(crawled, tmp_path / "huge.wacz")
    with zipfile.ZipFile(tmp_path / "huge.wacz") as package:
        assert package.testzip() is None
    assert validated(tmp_path / "huge.wacz")


def test_what_is_not_settled_is_not_in_it(crawled, file, tmp_path):
    (archive,) = (crawled / "archive").glob("*.warc.gz")
    size = archive.stat().st_size
    with zipfile.ZipFile(file) as package:
        last = max(index(file), key=lambda line: int(line[1]["offset"]))[1]
        member = package.read(f"archive/{archive.name}")[int(last["offset"]) :][: int(last["length"])]
    try:
        with archive.open("ab") as more:
            more.write(member)  # whole, and beyond the mark
        packed(crawled, tmp_path / "running.wacz")
    finally:
        os.truncate(archive, size)
    assert index(tmp_path / "running.wacz") == index(file)


# ------------------------------------------------------------------------------------------------ the command


def test_the_command_writes_it_and_says_what_is_left_out(crawled, tmp_path, capsys):
    assert main(["export", str(crawled), "--format", "wacz", "-o", str(tmp_path / "x.wacz")]) == 0
    said = capsys.readouterr().err
    assert "1 page left out: they ask for noarchive" in said
    assert "answers written to" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-o", "-"], "cannot go to standard output"),
        (["-o", "x.zip"], "ends with .wacz"),
        (["-o", "x.wacz", "--gzip"], "neither split nor compressed"),
    ],
)
def test_wrong_usage_is_said_in_one_line(crawled, capsys, words, told):
    assert main(["export", str(crawled), "--format", "wacz", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_full_disk_leaves_nothing_behind(crawled, tmp_path):
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    command = [sys.executable, "-m", "skitter", "export", str(crawled), "--format", "wacz", "-o", "x.wacz"]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, preexec_fn=limited, capture_output=True, text=True
    )
    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines()[-1] == "skitter: x.wacz: File too large"
    assert list(tmp_path.iterdir()) == []


def test_an_archive_without_an_answer_is_not_packed(tmp_path, capsys):
    empty = crawl(tmp_path / "c", [], {}, store=ROCKSDB).directory.path
    assert main(["export", str(empty), "--format", "wacz", "-o", str(tmp_path / "x.wacz")]) == 4
    assert "can be packed" in capsys.readouterr().err
    assert not (tmp_path / "x.wacz").exists()
