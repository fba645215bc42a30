"""From Python without asyncio: `for page in skitter.crawl(...)`, also where an event loop is running, as in Jupyter."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import skitter
from skitter.testing.web import Features, SyntheticWeb, serve
from tests.crawl.harness import HASTY, keys, read_back
from tests.crawl.sites import small_site

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server():
    web = SyntheticWeb(seed=22, hosts=1, pages_per_host=40, features=Features(links_per_page=8))
    with serve(web) as running:
        yield running


@pytest.fixture
def options(server):
    resolve = tuple(f"{host}:{address}" for host, address in server.web.resolve_map().items())
    return HASTY | {"fetch.resolve": resolve, "per_host": 8, "contact": "somebody@example.org"}


def no_thread_is_left():
    return not [thread for thread in threading.enumerate() if thread.name == "skitter"]


def assert_the_rest_is_found(server, options, path):
    run = skitter.crawl(directory=path, **options)
    for _page in run:
        pass
    assert asyncio.run(read_back(path, run.report, [])).keys == keys(server.truth().pages)
    assert run.report.counts.lost == 0


def test_every_page_comes_once_and_the_report_is_there_at_the_end(server, options):
    run = skitter.crawl(server.seeds()[0], **options)
    pages = list(run)
    assert {page.key for page in pages} == keys(server.truth().pages)
    assert run.report.outcome == "done"
    assert run.report.counts.pages == len(pages)
    assert no_thread_is_left()


def test_it_works_where_an_event_loop_is_running(server, options):
    async def cell():
        return [page.key for page in skitter.crawl(server.seeds()[0], max_pages=5, **options)]

    assert len(asyncio.run(cell())) == 5


def test_break_waits_until_everything_is_saved_and_the_crawl_can_go_on(server, options, tmp_path):
    run = skitter.crawl(server.seeds()[0], directory=tmp_path / "c", **options)
    for _page in run:
        break
    assert run.report.outcome == "interrupted"
    assert run.report.counts.leased == 0
    assert no_thread_is_left()
    assert_the_rest_is_found(server, options, tmp_path / "c")


def test_an_exception_in_the_loop_stops_the_crawl_and_is_the_callers_own(server, options):
    run = skitter.crawl(server.seeds()[0], **options)

    def read():
        for _page in run:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()
    assert run.report.counts.leased == 0
    assert no_thread_is_left()


def test_an_error_that_stops_the_crawl_is_raised_in_the_loop(options, tmp_path):
    (tmp_path / "somebody.elses").touch()
    with pytest.raises(skitter.StateError, match="not empty"):
        list(skitter.crawl("http://127.0.0.1:1/", directory=tmp_path, **options))
    assert no_thread_is_left()


def test_close_ends_a_run_whose_iterator_is_still_held(server, options):
    with skitter.crawl(server.seeds()[0], **options) as run:
        held = iter(run)
        next(held)
    assert run.report.counts.leased == 0
    assert list(held) == []


# ------------------------------------------------------------------------------------------------ whole programs

PROGRAM = """
import sys, skitter
seen = 0
run = skitter.crawl({seed!r}, directory={path!r}, **{options!r})
try:
    for page in run:
        seen += 1
        print(page.url, flush=True)
        {body}
except KeyboardInterrupt:
    print("interrupted", run.report.outcome, run.report.counts.leased)
"""


def program(server, options, path, body):
    source = PROGRAM.format(
        seed=server.seeds()[0], path=str(path), options=options | {"politeness.delay": "50ms"}, body=body
    )
    return subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def test_ctrl_c_stops_drains_and_saves(server, options, tmp_path):
    with program(server, options | {"per_host": 1}, tmp_path / "c", "pass") as child:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        said, complained = child.communicate(timeout=120)
    assert said.splitlines()[-1] == "interrupted interrupted 0"
    assert "Traceback" not in complained
    assert_the_rest_is_found(server, options, tmp_path / "c")


def test_a_second_ctrl_c_does_not_wait_for_answers_and_loses_nothing(tmp_path):
    released = threading.Event()
    pages = {
        "/": (200, "text/html", b"<a href=/slow>slow</a>"),
        "/slow": (200, "text/html", b"<title>Slow</title>"),
    }
    with small_site(pages, waits=released) as base:
        source = (
            f"import skitter\nfor page in skitter.crawl({base + '/'!r}, directory={str(tmp_path / 'c')!r}, **{HASTY!r}):\n"
            "    print('page', flush=True)\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        with child:
            child.stdout.readline()
            while child.poll() is None:  # until it is heard: what is in flight is never answered
                child.send_signal(signal.SIGINT)
                time.sleep(0.5)
        assert not released.is_set()
        released.set()
        run = skitter.crawl(directory=tmp_path / "c", **HASTY)
        assert [page.title for page in run] == ["Slow"]


def test_a_program_may_end_with_the_iterator_in_its_hand(server, options, tmp_path):
    with program(
        server, options, tmp_path / "c", "held = iter(skitter.crawl('http://127.0.0.1:1/')); sys.exit(7)"
    ) as child:
        _said, complained = child.communicate(timeout=120)
    assert (child.returncode, complained) == (7, "")
    assert_the_rest_is_found(server, options, tmp_path / "c")


def test_a_program_that_forgets_its_iterator_ends_by_itself(server, options, tmp_path):
    source = f"import skitter\nheld = iter(skitter.crawl({server.seeds()[0]!r}, directory={str(tmp_path / 'c')!r}, **{options!r}))\nnext(held)"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert_the_rest_is_found(server, options, tmp_path / "c")
