"""WACZ files of strangers: cut short, lying, or made to hurt; each is refused in one line, and nothing is served from it."""

import gzip
import hashlib
import io
import json
import re
import zipfile
from pathlib import Path

import pytest

from skitter.backends.warc.reading import DamagedRecordError
from skitter.backends.warc.wacz import Wacz
from skitter.cli import main
from skitter.model import Place
from skitter.ports import StateError

BLOCK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello"
RECORD = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n" % (len(BLOCK), BLOCK)
WARC = gzip.compress(RECORD)
LINE = {
    "url": "http://a.test/",
    "mime": "text/plain",
    "status": "200",
    "length": str(len(WARC)),
    "offset": "0",
    "filename": "a.warc.gz",
}
FILES = {
    "archive/a.warc.gz": WARC,
    "indexes/index.cdx": f"test,a)/ 20260101000000 {json.dumps(LINE)}\n".encode(),
    "pages/pages.jsonl": b'{"format": "json-pages-1.0"}\n{"url": "http://a.test/", "title": "A"}\nnot json\n',
}


def made(path: Path, files=FILES, *, lies=(), compress=(), unlisted=(), digest=True, about=None) -> Path:
    stated = {
        name: hashlib.sha256(octets + (b"x" if name in lies else b"")).hexdigest()
        for name, octets in files.items()
    }
    resources = [
        {"name": name, "path": name, "hash": f"sha256:{stated[name]}", "bytes": len(files[name])}
        for name in files
        if name not in unlisted
    ]
    written = json.dumps(
        {"profile": "data-package", "resources": resources} if about is None else about
    ).encode()
    with zipfile.ZipFile(path, "w") as package:
        for name, octets in files.items():
            package.writestr(name, octets, zipfile.ZIP_DEFLATED if name in compress else zipfile.ZIP_STORED)
        package.writestr("datapackage.json", written)
        if digest:
            of = written + (b"x" if "datapackage.json" in lies else b"")
            package.writestr(
                "datapackage-digest.json", json.dumps({"hash": f"sha256:{hashlib.sha256(of).hexdigest()}"})
            )
    return path


def refusal(path: Path) -> str:
    with pytest.raises(StateError) as refused:
        Wacz(path).close()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_an_honest_one_is_read(tmp_path):
    package = Wacz(made(tmp_path / "x.wacz"))
    assert package.read(Place("a.warc.gz", 0, len(WARC))) == BLOCK
    assert [json.loads(line.split(" ", 2)[2])["url"] for line in package.index()] == ["http://a.test/"]
    assert list(package.pages()) == [("http://a.test/", "A")]
    for place in (
        Place("a.warc.gz", 1, 9),
        Place("a.warc.gz", 0, 10**9),
        Place("../x", 0, 1),
        Place("a.warc.gz", -5, 9),
    ):
        with pytest.raises(DamagedRecordError):
            package.read(place)
    package.close()


def test_a_packed_index_is_read(tmp_path):
    files = {name: octets for name, octets in FILES.items() if not name.startswith("indexes/")}
    block = gzip.compress(FILES["indexes/index.cdx"])
    package = Wacz(
        made(tmp_path / "x.wacz", files | {"indexes/index.cdx.gz": block * 2, "indexes/index.idx": b"!meta"})
    )
    assert len(list(package.index())) == 2
    package.close()


@pytest.mark.parametrize("part", [*FILES, "datapackage.json"])
def test_one_that_lies_about_a_digest_is_refused(tmp_path, part):
    assert "whose digest it states" in refusal(made(tmp_path / "x.wacz", lies=(part,)))


def test_one_that_is_cut_short_is_refused_wherever_it_is_cut(tmp_path):
    whole = made(tmp_path / "x.wacz").read_bytes()
    for size in (0, 1, 30, len(whole) // 3, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        (tmp_path / "x.wacz").write_bytes(whole[:size])
        assert "x.wacz" in refusal(tmp_path / "x.wacz")


def test_flipped_bits_are_noticed_or_harmless(tmp_path):
    whole = bytearray(made(tmp_path / "x.wacz").read_bytes())
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 1 << at % 8
        (tmp_path / "x.wacz").write_bytes(changed)
        try:
            package = Wacz(tmp_path / "x.wacz")
        except StateError:
            continue
        assert package.read(Place("a.warc.gz", 0, len(WARC))) == BLOCK
        package.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"compress": ("archive/a.warc.gz",)}, "compressed once more"),
        ({"unlisted": ("archive/a.warc.gz",)}, "not listed"),
        ({"files": {name: octets for name, octets in FILES.items() if "archive" not in name}}, "no archive"),
        ({"about": {}, "digest": False}, "missing"),
        ({"about": [1], "digest": False}, "no whole WACZ"),
        ({"about": {"resources": [{"path": "gone", "hash": "sha256:x"}]}, "digest": False}, "not listed"),
        ({"files": FILES | {"pages/x": b"\0" * 10_000_000}, "compress": ("pages/x",)}, "far more"),
        (
            {"about": {"resources": [{"path": name, "hash": "crc:1"} for name in FILES]}, "digest": False},
            "unknown kind",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, options, told):
    assert told in refusal(made(tmp_path / "x.wacz", **options))


def test_a_record_that_inflates_to_more_than_memory_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr("skitter.backends.warc.wacz._MOST_RECORD", 1_000_000)
    bomb = gzip.compress(b"\0" * 50_000_000)
    package = Wacz(made(tmp_path / "x.wacz", FILES | {"archive/b.warc.gz": bomb}))
    with pytest.raises(DamagedRecordError):
        package.read(Place("b.warc.gz", 0, len(bomb)))
    package.close()


def test_the_command_says_it_in_one_line(tmp_path, capsys):
    assert main(["replay", str(made(tmp_path / "x.wacz", lies=("archive/a.warc.gz",)))]) == 4
    assert re.fullmatch(r"skitter: \S+ cannot be trusted: archive/a\.warc\.gz .*\n", capsys.readouterr().err)
    assert main(["replay", str(tmp_path / "missing.wacz")]) == 4
    (tmp_path / "text.wacz").write_text("no archive")
    assert main(["replay", str(tmp_path / "text.wacz")]) == 4
    assert main(["replay", str(tmp_path)]) == 4
    assert main(["replay", str(tmp_path), "--player", "."]) == 2
    assert io.StringIO(capsys.readouterr().err).readline()
