"""A scorer of the user's own in whole crawls: real workers, real files, real command lines."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import skitter
from skitter.compose import open_reader
from skitter.events import Warned
from skitter.plugins import FoundLink, PluginError
from skitter.runtime.process import run as run_loop
from skitter.settings.file import load
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crawl.harness import HASTY, crawl, crawl_with, keys, settings_for
from tests.crawl.sites import small_site

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120  # seconds: only a hang fails by it


@pytest.fixture(scope="module")
def server():
    features = Features.plain()
    with serve_process(SyntheticWeb(seed=31, hosts=6, pages_per_host=8, features=features)) as running:
        yield running


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def told(server, folder: Path, *words: str, **environ: str):
    """`skitter` as a person starts it, in a folder."""
    pairs = [f"{host}:{address}" for host, address in server.web.resolve_map().items()]
    flags = [word for pair in pairs for word in ("--resolve", pair)]
    flags += ["--allow-private", "127.0.0.0/8", "--set", "crawl.min_free_disk=1MiB", "--delay", "0"]
    return subprocess.run(
        [sys.executable, "-m", "skitter", *words, *(flags if words[0] in {"crawl", "resume"} else ())],
        cwd=folder,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_scorer_runs_in_each_of_two_workers_and_orders_the_visits(server, tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    file = written(
        tmp_path,
        "by_pid.py",
        f"""
        import os, pathlib
        def score(link):
            pathlib.Path({str(pids)!r}, str(os.getpid())).touch()
            return -1000.0 if link.seed else float(len(link.url))
        """,
    )
    chosen = settings_for(
        server, scope__kind="any", schedule__strategy="by_pid:score", crawl__plugins=[str(file)]
    )
    found = crawl_with(2, tmp_path / "c", server.seeds(), chosen)
    assert found.keys == keys(server.truth("any").pages)
    assert len(list(pids.iterdir())) == 2
    assert {int(pid.name) for pid in pids.iterdir()}.isdisjoint({os.getpid()})
    assert found.report.warnings == []
    for record in found.records.values():
        if record.parent and record.reason is None:
            assert record.score == len(record.url)


PAGES = {
    "/": "".join(f"<a href=/{name}>{name}</a>" for name in ("b7", "a3", "c9", "d1")),
    "/c9": "<a href=/e8>e</a>",
    **dict.fromkeys(("/a3", "/b7", "/d1", "/e8"), ""),
}


def test_links_are_fetched_in_the_order_of_their_scores(tmp_path):
    file = written(tmp_path, "by_digit.py", "def score(link): return 99 if link.seed else int(link.url[-1])")
    with small_site({path: (200, "text/html", body.encode()) for path, body in PAGES.items()}) as base:
        run = skitter.crawl(
            f"{base}/", crawl_plugins=[str(file)], strategy="by_digit:score", concurrency=1, **HASTY
        )
        order = [page.url.rpartition("/")[2] for page in run]
    assert order == ["", "c9", "e8", "b7", "a3", "d1"]


def test_a_scorer_sees_the_page_and_the_number_of_links(tmp_path):
    file = written(
        tmp_path,
        "seen_links.py",
        """
        SEEN = []
        def score(link):
            SEEN.append(link)
            return link.parent_score + 1
        """,
    )
    pages = {
        "/": "<a href=/a>a</a> <a href=/b>b</a>",
        "/a": "<a href=/b>b</a><a href=/c>c</a>",
        "/b": "",
        "/c": "",
    }
    with small_site({path: (200, "text/html", body.encode()) for path, body in pages.items()}) as base:
        chosen = load(
            None,
            {},
            HASTY
            | {"schedule.strategy": "seen_links:score", "crawl.plugins": [str(file)], "crawl.concurrency": 1},
        )
        crawl(tmp_path / "c", [f"{base}/"], chosen)
        links = [(link.url.removeprefix(base), link) for link in sys.modules["seen_links"].SEEN]
    assert links[0][0] == "/"
    assert links[0][1].seed
    assert [url for url, _ in links[1:]] == ["/a", "/b", "/b", "/c"]
    assert [link.in_links for _, link in links[1:]] == [1, 1, 2, 1]
    assert [link.parent.removeprefix(base) for _, link in links] == ["", "/", "/", "/a", "/a"]
    assert [link.parent_score for _, link in links] == [0, 1, 1, 2, 2]
    assert [link.depth for _, link in links] == [0, 1, 1, 2, 2]


def test_a_scorer_that_fails_costs_scores_but_no_page_and_why_tells(server, tmp_path):
    written(
        tmp_path,
        "failing.py",
        """
        def score(link):
            if link.depth == 1:
                return 1 / 0
            return None if link.depth == 2 else 5
        """,
    )
    done = told(
        server, tmp_path, "crawl", *server.seeds(), "--scope", "any", "--workers", "2", "-o", "c", "--json",
        "--with", "failing.py", "--strategy", "failing:score", "--contact", "me@example.net",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["counts"]["pages"] == len(server.truth("any").pages)
    place = tmp_path / "failing.py"
    once = [text for text in report["warnings"] if f"{place}:4: your scorer failed" in text]
    assert len(once) == 1
    assert "ZeroDivisionError" in once[0]
    assert len([text for text in report["warnings"] if f"{place}:2: your scorer failed" in text]) == 1
    failures = report["metrics"]["links"]["unscored"]
    assert failures > 2
    assert f"your scorer failed {failures:,} times" in report["warnings"][-1].replace("\u202f", ",")
    reader = open_reader(tmp_path / "c")

    async def one() -> str:
        try:
            first: str
            first, *_ = [r.url async for r in reader.frontier.urls() if r.depth == 1 and r.score == 0]
            return str(first)
        finally:
            await reader.close()

    url = run_loop(one())
    story = told(server, tmp_path, "why", "c", url).stdout
    assert "your scorer failed when it was found on http" in story
    assert f"{place}:4: ZeroDivisionError: division by zero" in story
    fields = json.loads(told(server, tmp_path, "why", "c", url, "--json").stdout)
    assert fields["unscored"]["problem"] == "ZeroDivisionError: division by zero"


def test_a_crawl_is_resumed_from_elsewhere_and_a_moved_plugin_is_named(server, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    file = written(tmp_path / "here", "steady.py", "def score(link): return len(link.url)")
    begun = told(
        server, tmp_path / "here", "crawl", server.seeds()[0], "--max-pages", "2", "-o", "c",
        "--with", "steady.py", "--strategy", "steady:score",
    )  # fmt: skip
    assert begun.returncode == 3, begun.stderr
    assert load(tmp_path / "here" / "c" / "crawl.toml", {}, {}).crawl.plugins == (str(file),)
    resumed = told(server, tmp_path / "there", "resume", "../here/c", "--max-pages", "4")
    assert resumed.returncode == 3, resumed.stderr

    moved = tmp_path / "there" / "steady.py"
    file.rename(moved)
    before = (tmp_path / "here" / "c" / "crawl.toml").read_bytes()
    refused = told(server, tmp_path, "resume", "here/c", "--max-pages", "none")
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"skitter: {file}: the plug-in is not there;")
    assert refused.stderr.count("\n") == 1
    assert (tmp_path / "here" / "c" / "crawl.toml").read_bytes() == before
    done = told(server, tmp_path, "resume", "here/c", "--max-pages", "none", "--with", "there/steady.py")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "here" / "c" / "crawl.toml", {}, {}).crawl.plugins == (str(moved),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def score(link):\n  return (", ":2: SyntaxError"),
        ("1 / 0", ":1: ZeroDivisionError"),
        ("", ": has no function score"),
    ],
)
def test_a_bad_plugin_ends_the_command_before_anything_is_fetched_or_made(server, tmp_path, text, said):
    file = written(tmp_path, "bad.py", text)
    before = len(server.log())
    for words in (
        ["crawl", server.seeds()[0], "-o", "c"],
        ["crawl", server.seeds()[0], "-o", "c", "--workers", "1"],
    ):
        done = told(server, tmp_path, *words, "--with", "bad.py", "--strategy", "bad:score")
        assert done.returncode == 2
        assert done.stderr.startswith(f"skitter: {file}{said}"), done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["bad.py"]
    assert len(server.log()) == before
    chosen = settings_for(server, crawl__plugins=[str(file)], schedule__strategy="bad:score")
    with pytest.raises(PluginError, match=re.escape(str(file))):
        crawl(tmp_path / "c", server.seeds(), chosen)
    assert not (tmp_path / "c").exists()


# The first import is that of the check, which passes; those of the workers do not.
LATER = """
import pathlib, time, os, signal
first = pathlib.Path({mark!r})
if not first.exists():
    first.touch()
else:
    {then}
def score(link): return 1
"""


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("raise RuntimeError('not here')", r"later\.py:7: RuntimeError: not here"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"later\.py: .* ended \(SIGKILL\)"),
        ("time.sleep(600)", r"later\.py: .* ended \(exit code 1, as after 10 s\)"),
    ],
)
def test_a_plugin_that_fails_in_a_worker_alone_ends_the_crawl_with_the_same_line(
    server, tmp_path, then, said
):
    written(tmp_path, "later.py", LATER.format(mark=str(tmp_path / "mark"), then=then))
    done = told(
        server, tmp_path, "crawl", server.seeds()[0], "-o", "c", "--with", "later.py", "--workers", "2"
    )
    assert done.returncode == 2, done.stderr
    assert re.search(said, done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_that_was_killed_scores_again(server, tmp_path):
    pids = tmp_path / "pids"
    pids.mkdir()
    file = written(
        tmp_path,
        "mortal.py",
        f"""
        import os, pathlib, signal
        HERE = pathlib.Path({str(pids)!r})
        def score(link):
            (HERE / str(os.getpid())).touch()
            if link.depth == 2 and len(list(HERE.iterdir())) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return 1.0
        """,
    )
    chosen = settings_for(server, schedule__strategy="mortal:score", crawl__plugins=[str(file)])
    found = crawl_with(1, tmp_path / "c", server.seeds()[:1], chosen)
    assert found.keys == keys(server.truth(seeds=1).pages)
    assert len(list(pids.iterdir())) == 2
    assert any(isinstance(event, Warned) and "SIGKILL" in event.text for event in found.events)


def test_an_entry_point_is_loaded_by_the_command_and_its_workers(server, tmp_path):
    info = tmp_path / "site" / "house_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-rules\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[skitter]\nhouse = house_rules\n")
    written(
        tmp_path / "site",
        "house_rules.py",
        f"""
        import os
        with open({str(tmp_path / "log")!r}, "a") as log:
            log.write(f"{{os.getpid()}}\\n")
        def score(link): return 2
        """,
    )
    done = told(
        server, tmp_path, "crawl", server.seeds()[0], "-o", "c", "--workers", "2", "--strategy", "house:score",
        PYTHONPATH=f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(set((tmp_path / "log").read_text().split())) == 3  # the check and two workers


def test_the_example_in_the_docs_runs(tmp_path):
    text = (ROOT / "docs" / "plugins.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "scorer.py").write_text(code)
    pages = {
        "/": "<a href=/about>a</a> <a href=/article/1>1</a> <a href=/article/2>2</a> <a href=/deep>d</a>",
        "/about": "<a href=/deep>d</a>",
        "/article/1": "<a href=/deep>d</a>",
        "/article/2": "<a href=/deep>d</a>",
        "/deep": "",
    }
    with small_site({path: (200, "text/html", body.encode()) for path, body in pages.items()}) as base:
        run = skitter.crawl(
            f"{base}/",
            crawl_plugins=[str(tmp_path / "scorer.py")],
            strategy="scorer:score",
            concurrency=1,
            **HASTY,
        )
        order = [page.url.removeprefix(base) for page in run]
    assert order == ["/", "/article/1", "/article/2", "/deep", "/about"]
    assert run.report.warnings == [text for text in run.report.warnings if "contact" in text]


def test_every_field_of_a_link_is_in_the_docs():
    text = (ROOT / "docs" / "plugins.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(FoundLink.__struct_fields__)
