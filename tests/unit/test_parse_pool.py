"""The pool of parser processes: each does its documents like the loop would, and whatever happens to one costs one page."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter.dedup.simhash import simhash
from skitter.model import Document
from skitter.parse import PARSERS, Parser, is_slow, parse, pool
from skitter.parse.frames import Read, Trouble
from skitter.parse.pool import COMMAND, ParserPool
from skitter.settings import Bytes, DedupSettings, FetchSettings, ParseSettings, Seconds, Settings
from tests import bad_parsers
from tests.conformance.cases import FOLDER, rows
from tests.fetching import LOOPS, run
from tests.unit.test_parse import FENCED, MARKED

HTML = [("content-type", "text/html; charset=utf-8")]
SITE = "http://site.example/"
MINUTES = Seconds(300.0)  # longer than any test


def settings_with(deadline: Seconds = MINUTES, **fields: Any) -> Settings:
    return Settings(parse=ParseSettings(deadline=deadline, **fields))


def children() -> set[str]:
    """The processes we started and have not waited for."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found.update((task / "children").read_text().split())
    return found


def with_pool(
    work: Callable[[ParserPool], Awaitable[Any]],
    wanted: Settings | None = None,
    command: Any = bad_parsers.COMMAND,
    loop: str = "uvloop",
) -> Any:
    """What is done with a pool; afterwards no process is left."""
    before = children()

    async def main() -> Any:
        parsers = ParserPool(wanted or settings_with(), command)
        try:
            return await work(parsers)
        finally:
            await parsers.close()
            assert children() == before

    return run(main(), loop)


def read(
    parsers: ParserPool, name: str, content: bytes = b"<title>Read</title>"
) -> Awaitable[Read | Trouble]:
    return parsers.read(SITE + name, HTML, content)


def title(answer: Read | Trouble) -> str:
    assert isinstance(answer, Read), answer
    return answer.document.title


# ------------------------------------------------------------------------------------------------ the same Document

PAGES: list[tuple[list[tuple[str, str]], bytes]] = [
    ([("content-type", "text/plain")], "Grüße, Welt\n".encode()),
    ([("content-type", "text/markdown")], b"# Title"),
    ([("content-type", "application/pdf"), ("x-robots-tag", "noai, noindex")], b"%PDF-1.7"),
    ([], b""),
    ([("content-type", "text/html"), ("content-language", "fr")], b""),
    ([("content-type", "text/html"), ("x-robots-tag", "noai")], b"<a href=/x rel=nofollow>x</a><a href=y>y"),
    ([("content-type", "text/html; charset=gbk")], "<title>中文</title><a href='?q=文'>".encode("gbk")),
    (
        [("content-type", "text/html; charset=utf-16le")],
        "\ud83d<p>\ud800".encode("utf-16le", "surrogatepass"),
    ),
    (HTML, FENCED.encode()),
    (HTML, b"<div>" * 20_000 + b"deep"),
    (HTML, b"<p>&#xd800; &#55357; \xed\xa0\x80 \xff \x00 text"),
    (HTML, b"".join(b"<p><a href=/%d>word %d</a>" % (n, n) for n in range(12_000))),
]
PAGES += [
    (HTML, row["html"].encode("utf-8", "surrogatepass"))
    for name in ("html_base_url", "html_links_from_treetests", "html_links_scrapy", "html_links_heritrix")
    for row in rows(f"{name}.jsonl")
    if isinstance(row.get("html"), str)
]


@pytest.mark.parametrize("wanted", [ParseSettings(deadline=MINUTES), replace(MARKED, deadline=MINUTES)])
def test_a_process_finds_in_a_document_exactly_what_is_found_here(wanted: ParseSettings) -> None:
    near = Settings(parse=wanted)

    async def both(parsers: ParserPool) -> None:
        for headers, content in PAGES:
            here = parse(SITE, headers, content, wanted)
            expected = Read(here, simhash(here.text, near.dedup.min_words))
            answer = await parsers.read(SITE, headers, content)
            assert answer == expected
            assert isinstance(answer, Read)
            assert type(answer.document.links) is type(here.links)
        assert parsers.started == 1

    with_pool(both, near, COMMAND)
    assert len(PAGES) > (60 if FOLDER.is_dir() else 10)


MARKUP = st.text(st.sampled_from("<>/=\"' ab&;#\x00é中\n-!")) | st.lists(
    st.sampled_from(
        [
            "<a href=",
            "x>",
            "</a>",
            "<p>",
            "<table>",
            "<b>",
            "<!--",
            "-->",
            "<script>",
            "</script>",
            "&amp",
            "w ",
        ]
    )
).map("".join)


def test_and_so_it_does_for_any_markup() -> None:
    """One process for all examples: what a document leaves behind must not change the next one."""
    loop = asyncio.new_event_loop()
    parsers = ParserPool(settings_with())

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MARKUP)
    def same(markup: str) -> None:
        content = markup.encode()
        answer = loop.run_until_complete(parsers.read(SITE, HTML, content))
        assert isinstance(answer, Read)
        assert answer.document == parse(SITE, HTML, content, ParseSettings())

    try:
        same()
    finally:
        loop.run_until_complete(parsers.close())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_only_the_allowed_part_of_a_document_is_read_and_no_simhash_made_that_nobody_wants() -> None:
    wanted = replace(settings_with(max_input=Bytes(100)), dedup=DedupSettings(near=False))
    content = b"<p>" + b"word " * 100

    async def one(parsers: ParserPool) -> Read | Trouble:
        return await read(parsers, "long", content)

    answer = with_pool(one, wanted, COMMAND)
    assert answer == Read(parse(SITE + "long", HTML, content, wanted.parse))
    assert len(answer.document.text) < 100


# ------------------------------------------------------------------------------------------------ what goes there


def test_only_large_documents_with_a_parser_go_to_the_pool() -> None:
    wanted = ParseSettings(pool_above=Bytes(100))
    large = b"<p>" + b"x" * 100
    assert is_slow(SITE, HTML, large, wanted)
    assert is_slow(SITE, [("content-type", "text/plain")], large, wanted)
    assert not is_slow(SITE, HTML, large[:100], wanted)
    assert not is_slow(SITE, [("content-type", "video/mp4")], b"\x89PNG\r\n\x1a\n" + large, wanted)


def test_a_parser_that_the_table_calls_slow_gets_documents_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All that another parser needs is its module and its line in the table."""
    monkeypatch.setitem(PARSERS, "application/pdf", Parser("tests.bad_parsers", slow=True))
    assert is_slow(SITE, [("content-type", "application/pdf")], b"%PDF-1.7", ParseSettings())
    assert is_slow(SITE, HTML, b"%PDF-1.7", ParseSettings())
    assert not is_slow(SITE, HTML, b"<p>small", ParseSettings())
    document = parse(SITE, [("content-type", "application/pdf")], b"%PDF-1.7", ParseSettings())
    assert isinstance(document, Document)
    assert document.text == "%PDF-1.7"


# ------------------------------------------------------------------------------------------------ one page each


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("crashes", "crashed: signal 11 (SIGSEGV)"),
        ("eats", "needs more than 300 MiB to be parsed (parse.max_memory)"),
        ("exits", "ended: exit code 3"),
        ("raises", "ValueError: no such element"),
        ("surprises", "an answer of 4294967295 bytes"),
        ("babbles", "no usable answer"),
    ],
)
@pytest.mark.parametrize("loop", LOOPS)
def test_a_parser_that_breaks_costs_one_page_and_the_next_is_read(name: str, told: str, loop: str) -> None:
    async def three(parsers: ParserPool) -> list[Read | Trouble]:
        return [await read(parsers, each) for each in ("first", name, "last")]

    first, broken, last = with_pool(three, settings_with(max_memory=Bytes(300 * 2**20)), loop=loop)
    assert (title(first), title(last)) == ("Read", "Read")
    assert isinstance(broken, Trouble)
    assert told in broken.detail


@pytest.mark.parametrize("name", ["spins", "sleeps"])
def test_a_parser_that_hangs_is_killed_at_the_deadline_and_the_next_page_is_read(name: str) -> None:
    async def three(parsers: ParserPool) -> tuple[Read | Trouble, Read | Trouble]:
        await read(parsers, "first")  # a process may need longer to start than this one may hang
        patient = parsers._settings
        parsers._settings = replace(patient, deadline=Seconds(0.5))
        hung = await read(parsers, name)
        parsers._settings = patient
        return hung, await read(parsers, "next")

    hung, after = with_pool(three)
    assert hung == Trouble("the page takes longer than 0.5 s to parse (parse.deadline)")
    assert title(after) == "Read"


async def killed(folder: Path, number: int) -> int:
    """Kill the process that waits for it; returns which it was."""
    file = folder / f"{number}.pid"
    while not file.exists():
        await asyncio.sleep(0.01)
    pid = int(file.read_text())
    os.kill(pid, signal.SIGKILL)
    return pid


@pytest.mark.parametrize(("times", "result"), [(1, "Read"), (2, "killed from outside, twice")])
def test_a_document_whose_process_was_killed_from_outside_is_tried_once_more(
    tmp_path: Path, times: int, result: str
) -> None:
    content = b"<title>Read</title><!--\n%b\n-->" % bytes(tmp_path)

    async def main(parsers: ParserPool) -> tuple[Read | Trouble, Read | Trouble]:
        reading = asyncio.ensure_future(read(parsers, f"waits{times}", content))
        pids = [await killed(tmp_path, number) for number in range(times)]
        answer = await reading
        assert len(set(pids)) == times
        return answer, await read(parsers, "next")

    answer, after = with_pool(main)
    assert result in (answer.detail if isinstance(answer, Trouble) else answer.document.title)
    assert title(after) == "Read"


def test_an_idle_process_that_was_killed_costs_nothing() -> None:
    async def main(parsers: ParserPool) -> str:
        await read(parsers, "first")
        (pid,) = children()
        os.kill(int(pid), signal.SIGKILL)
        return title(await read(parsers, "second"))

    assert with_pool(main) == "Read"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_for_the_crawl_do_not_end_a_process(number: signal.Signals) -> None:
    async def main(parsers: ParserPool) -> int:
        await read(parsers, "first")
        (pid,) = children()
        os.kill(int(pid), number)
        assert title(await read(parsers, "second")) == "Read"
        return parsers.started

    assert with_pool(main) == 1


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/nowhere/python"], "No such file or directory"),
        ([sys.executable, "-c", "raise SystemExit(7)"], "exit code 7"),
        ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "signal 9 (SIGKILL)"),
    ],
)
def test_if_no_process_can_be_started_the_page_fails_and_one_message_says_why(
    command: list[str], why: str
) -> None:
    told: list[str] = []

    async def two(parsers: ParserPool) -> list[Read | Trouble]:
        parsers.complain = told.append
        return [await read(parsers, "first"), await read(parsers, "second")]

    answers = with_pool(two, command=command)
    assert all(isinstance(each, Trouble) and why in each.detail for each in answers)
    assert len(told) == 1
    assert why in told[0]


# ------------------------------------------------------------------------------------------------ many at once


def test_more_documents_than_processes_wait_for_their_turn() -> None:
    async def main(parsers: ParserPool) -> list[str]:
        contents = [b"<title>%d</title>" % number for number in range(9)]
        answers = await asyncio.gather(*(read(parsers, "x", content) for content in contents))
        assert parsers.started == 2
        return [title(answer) for answer in answers]

    assert with_pool(main, settings_with(processes=2)) == [str(number) for number in range(9)]


def test_while_one_process_hangs_another_reads() -> None:
    async def main(parsers: ParserPool) -> str:
        hanging = asyncio.ensure_future(read(parsers, "spins"))
        answers = [title(await read(parsers, "x")) for _ in range(3)]
        assert not hanging.done()
        hanging.cancel()
        await asyncio.wait([hanging])
        return answers[-1]

    assert with_pool(main, settings_with(processes=2)) == "Read"


def test_the_pool_says_when_too_much_is_waiting() -> None:
    wanted = replace(settings_with(), fetch=FetchSettings(max_in_flight=Bytes(2_000_000)))

    async def main(parsers: ParserPool) -> tuple[bool, bool, bool]:
        reading = [asyncio.ensure_future(read(parsers, "x", b"<p>" * 200_000)) for _ in range(3)]
        await asyncio.sleep(0)
        before = parsers.full
        await parsers.room()
        after, one_is_read = parsers.full, any(each.done() for each in reading)
        await asyncio.wait(reading)
        return before, after, one_is_read

    assert with_pool(main, wanted) == (True, False, True)


# ------------------------------------------------------------------------------------------------ the end


@pytest.mark.parametrize("name", ["spins", "sleeps"])
def test_cancelling_leaves_no_process_behind_and_the_pool_goes_on(name: str) -> None:
    async def main(parsers: ParserPool) -> str:
        for _ in range(2):
            waiting = [asyncio.ensure_future(read(parsers, name)) for _ in range(2)]
            while not children() - before:
                await asyncio.sleep(0.01)
            for each in waiting:
                each.cancel()
            await asyncio.wait(waiting)
        return title(await read(parsers, "x"))

    before = children()
    assert with_pool(main) == "Read"


def test_a_pool_that_is_not_used_starts_no_process_and_one_without_work_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "_IDLE", 0.01)

    async def main(parsers: ParserPool) -> int:
        before = children()
        await asyncio.sleep(0.05)
        assert children() == before
        assert title(await read(parsers, "x")) == "Read"
        while children() != before:
            await asyncio.sleep(0.01)
        assert title(await read(parsers, "x")) == "Read"
        return parsers.started

    assert with_pool(main) == 2


def test_a_process_ends_when_its_pool_is_gone() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([*COMMAND, str(theirs.fileno())], pass_fds=[theirs.fileno()])
    ours.close()
    assert process.wait() == 0
