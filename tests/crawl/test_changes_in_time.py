"""`skitter changes DIR --from TIME --to TIME`: a crawl that fetched its pages twice, compared with itself."""

import asyncio
import json
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace

from skitter import schedule
from skitter.cli import main
from skitter.model import Purpose, State
from skitter.reporting.format import moment
from tests.crawl.harness import crawl_on_this_loop, settings_for
from tests.fetching import Server, ok, run, serving

LATER = 4.0  # seconds until a page is fetched again: the archive has whole seconds


def page(title: str, text: str, *links: str) -> bytes:
    anchors = "".join(f"<p><a href='{link}'>to {link}</a>" for link in links)
    words = f"The content of {title}, which is long enough to be recognised wherever it is. {text}"
    return ok(
        f"<title>{title}</title><h1>{title}</h1><p>{words}{anchors}".encode(),
        b"Content-Type: text/html",
        b'ETag: "%s"' % title.encode(),
    )


GONE = ok(b"<title>gone</title>", status=b"410 Gone")
NOT_MODIFIED = b'HTTP/1.1 304 Not Modified\r\nETag: "same"\r\n\r\n'
ALL = ("/changed", "/asked", "/sent", "/gone")
ANSWERS = {
    "/": [page("start", "It stays.", *ALL)],
    "/changed": [page("changed", "It costs 5 euros."), page("changed", "It costs 7 euros.", "/new")],
    "/asked": [page("asked", "Nothing happens."), NOT_MODIFIED],
    "/sent": [page("sent", "Nothing happens here either.")],
    "/gone": [page("gone", "Soon it will be no more."), GONE],
    "/new": [page("new", "It was not there before.")],
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """A crawl that fetched everything twice; the time between is the last."""
    asked: dict[str, int] = defaultdict(int)
    between: list[float] = []

    async def talk(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await server.hear(reader):
            path = head.split()[1].decode()
            answers = ANSWERS.get(path, [ok(b"", status=b"404 Not Found")])
            if path in ALL and not asked[path]:
                between[:] = [time.time() + 1.5]
            writer.write(answers[min(asked[path], len(answers) - 1)])
            asked[path] += 1
            await writer.drain()

    real = schedule.verdict

    def verdict(visit, outcome, owed, settings, now, jitter):
        made = real(visit, outcome, owed, settings, now, jitter)
        again = made.state is State.CRAWLED and not visit.recrawl and visit.link.purpose is Purpose.PAGE
        return replace(made, due=now + LATER) if again and visit.link.url.endswith(ALL) else made

    path = tmp_path_factory.mktemp("twice") / "c"

    async def crawl() -> str:
        async with serving(talk) as server:
            for _ in range(2):  # a crawl does not wait for pages that are due again later
                await crawl_on_this_loop(path, [server.url()], settings_for())
                await asyncio.sleep(LATER)
            return server.url().rstrip("/")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "verdict", verdict)
        address = run(crawl())
    assert {path: asked[path] for path in (*ALL, "/new")} == dict.fromkeys(ALL, 2) | {"/new": 1}
    return path, address, between[0]


def told(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, list[str]], dict[str, int]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines[:-1]:
        found[line["kind"]].append(line["url"].rpartition("/")[2])
    return dict(found), lines[-1]["summary"]


def test_the_newest_answers_of_both_times_are_compared(
    crawled: tuple[Path, str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _, between = crawled
    assert main(["changes", str(path), "--from", moment(between), "--json", "--all"]) == 1
    found, summary = told(capsys)
    assert found == {
        "changed": ["changed"],
        "gone": ["gone"],
        "new": ["new"],
        "unchanged": ["", "asked", "sent"],
    }
    assert Counter(summary) == Counter(new=1, changed=1, gone=1, unchanged=3)
    assert main(["changes", str(path), "--from", moment(between), "--to", moment(time.time())]) == 1
    assert "[-5-] {+7+} euros" in capsys.readouterr().out


def test_times_between_which_nothing_was_fetched(
    crawled: tuple[Path, str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    path, _, between = crawled
    words = ["--from", moment(between), "--to", moment(between + 1)]
    assert main(["changes", str(path), *words]) == 0
    assert capsys.readouterr().out == "0 new, 0 changed, 0 moved, 0 gone, 5 unchanged\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name two crawls, or one and a time with --from"),
        (["--to", "1h"], "name two crawls, or one and a time with --from"),
        (["--from", "2020-01-01"], "nothing was archived by then; the first answer is of 20"),
        (["--from", "0s", "--to", "1h"], "--to is not after --from"),
        (["--from", "yesterday"], "'yesterday' is not a time; write 2026-05-01"),
        (["--from", "2026"], "'2026' is not a time"),
        (["other", "--from", "1h"], "--from and --to are times of one crawl"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    crawled: tuple[Path, str, float], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["changes", str(crawled[0]), *words]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
