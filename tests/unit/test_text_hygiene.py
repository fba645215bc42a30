"""Untrusted text: nothing that a terminal obeys or a reader cannot see is output raw, anywhere."""

import csv
import io
import json
import unicodedata

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from skitter.cli import main
from skitter.events import Requested
from skitter.export.formats import row
from skitter.frontier.rows import PageRow
from skitter.parse import parse
from skitter.parse.html import TITLE, TOLD
from skitter.reporting.format import as_json, escaped, printable
from skitter.reporting.log import RequestLog
from skitter.settings import Settings
from tests.unit.crawled import ABOUT, crawled

EVIL = (
    "\x1b]0;owned\x07\x9b31m\x85",  # OSC, C1 CSI, NEL
    "\u202egpj.exe\u2066\u200f\u061c",  # bidirectional overrides, isolates, marks
    "\u200b\u200d\ufeff\u2060\u00ad",  # no width
    "\u3164\u115f\u2800\u034f\ufe00\U000e0101",  # letters and marks that nobody sees
    "\ud800\ue000\U000e0041\u2028\u2029\x7f",  # a lone surrogate, private use, tags, separators of lines
)
SEEN = "Zürich 東京 ☃ ❤\ufe0f नमस्ते é"


def unseen(text: str) -> set[str]:
    return {
        letter
        for letter in text
        if (unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} and letter not in "\r\n")
        or letter in "\u3164\u115f\u1160\u2800\u034f\ufe00\U000e0101"
    }  # fmt: skip


@pytest.mark.parametrize("evil", EVIL)
def test_a_terminal_gets_nothing_invisible(evil):
    assert unseen(printable(f"a{evil}b")) == set()
    assert "\n" not in printable(f"a{evil}\r\nb")


@pytest.mark.parametrize("evil", EVIL)
def test_json_says_the_same_with_escapes(evil):
    shown = as_json({"title": evil, "seen": SEEN})
    assert unseen(shown) == set()
    assert json.loads(shown) == {"title": evil, "seen": SEEN}
    assert SEEN in shown


def test_text_that_everybody_sees_stays_as_it_is():
    assert printable(SEEN) == SEEN
    assert escaped(f'"{SEEN}\u00a0\u3000"') == f'"{SEEN}\u00a0\u3000"'


@pytest.mark.parametrize("evil", EVIL)
def test_a_spreadsheet_gets_nothing_invisible(evil):
    line = row([evil, SEEN])
    assert unseen(line) == set()
    assert next(csv.reader(io.StringIO(line)))[1] == SEEN


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r\n=1", "＝1", "＠x"])
def test_a_spreadsheet_does_not_calculate_page_text(formula):
    (cell,) = next(csv.reader(io.StringIO(row([formula]))))
    assert cell.startswith("'")


def test_a_number_is_not_a_formula():
    assert row([-1, 2.5]) == "-1,2.5\n"


def test_a_request_log_contains_nothing_invisible(tmp_path):
    log = RequestLog(tmp_path / "requests.jsonl")
    events = [
        Requested(
            f"https://example.org/{evil!a}", "example.org", "192.0.2.1", 1.0, 2.0, 0, 0, "page", 1, evil
        )
        for evil in EVIL
        if "\ud800" not in evil
    ]
    for event in events:
        log(event)
    log.close()
    text = (tmp_path / "requests.jsonl").read_text(encoding="utf-8")
    assert unseen(text) == set()
    assert [json.loads(line)["fault"] for line in text.splitlines()] == [event.fault for event in events]


@pytest.mark.parametrize(
    "words",
    [["pages", "DIR"], ["pages", "DIR", "--json"], ["why", "DIR", ABOUT], ["why", "DIR", ABOUT, "--json"], ["export", "DIR", "--format", "csv"], ["export", "DIR", "--format", "jsonl", "-q"], ["export", "DIR", "--format", "urls"]],
)  # fmt: skip
def test_no_command_prints_anything_invisible(words, tmp_path, capsys, monkeypatch):
    source = crawled(tmp_path)
    stored = source.frontier._store.rows.pages
    for key, packed in list(stored.items()):
        evil, row = "".join(EVIL).replace("\ud800", ""), msgpack.decode(packed, type=PageRow)
        row.page = replace(row.page, title=f"x{evil}", description=evil, author=evil)
        stored[key] = msgpack.encode(row)

    async def opened(*_arguments, **_more):
        return source

    async def close():
        return None

    source.close = close
    monkeypatch.setattr("skitter.compose.open_source", opened)
    main([str(tmp_path) if word == "DIR" else word for word in words])
    said = capsys.readouterr()
    assert said.out
    assert unseen(said.out + said.err) == set()


# ---------------------------------------------------------------------------------------------- lengths


def document(html: str):
    headers = [("content-type", "text/html; charset=utf-8")]
    return parse("https://example.org/", headers, html.encode(), Settings().parse)


def test_a_title_is_cut_between_characters():
    letter = "e\u0301"  # e with an accent of its own
    found = document(f"<title>{letter * TITLE}</title><meta name=description content='{'x' * 2 * TOLD}'>")
    assert len(found.title) <= TITLE
    assert set(found.title) == {"e", "\u0301"}
    assert len(found.description) == TOLD
    assert document("<title>short</title>").title == "short"
    # One more in front, and the cut would be between a letter and its accent: both go.
    assert document(f"<title>x{letter * TITLE}</title>").title == "x" + letter * (TITLE // 2 - 1)
