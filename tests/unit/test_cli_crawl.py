"""`skitter crawl` and `resume` as people run them: a process, a real server on loopback, signals, exit codes."""

import argparse
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.cli import main
from skitter.cli.crawl import default_directory
from skitter.cli.options import FLAGS, resolve
from skitter.cli.usage import UsageError
from skitter.crawl.directory import directory_name
from skitter.reporting.progress import Rate
from skitter.settings.file import load
from skitter.settings.keywords import SHORT
from skitter.testing.web import Features, Server, SyntheticWeb, serve

PATIENCE = 120  # seconds: only a hang fails by it


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(SyntheticWeb(seed=3, hosts=2, pages_per_host=12, features=Features.plain())) as running:
        yield running


def words(server: Server, *more: str) -> list[str]:
    """A command that may visit the server, in a hurry."""
    pairs = [f"{host}:{address}" for host, address in server.web.resolve_map().items()]
    flags = [word for pair in pairs for word in ("--resolve", pair)]
    return [
        sys.executable,
        "-m",
        "skitter",
        *more,
        *flags,
        "--allow-private",
        "127.0.0.0/8",
        "--set",
        "crawl.min_free_disk=1MiB",
    ]


def skitter(cwd: Path, command: list[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


# ---------------------------------------------------------------------------------------------- whole crawls


def test_a_crawl_ends_with_a_report_and_a_directory_named_after_the_host(server, tmp_path):
    run = skitter(
        tmp_path, words(server, "crawl", server.seeds()[0], "--delay", "0", "--contact", "me@example.net")
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Crawl finished: nothing is left to do")
    (made,) = tmp_path.iterdir()
    assert made.name == f"skitter-{server.web.names[0]}-{server.port}"
    assert load(made / "crawl.toml", {}, {}).fetch.contact == "me@example.net"
    assert run.stderr == ""


def test_json_is_all_there_is_on_standard_output(server, tmp_path):
    command = words(server, "crawl", server.seeds()[0], "--delay", "0", "-o", "d", "--json", "-v")
    run = skitter(tmp_path, command)
    report = json.loads(run.stdout)
    assert report["outcome"] == "done"
    assert report["counts"]["pages"] == len(server.truth(seeds=1).pages)
    assert "no contact is set" in run.stderr
    assert f"page 200 {server.seeds()[0]}" in run.stderr


def test_every_export_of_a_real_crawl_has_its_pages(server, tmp_path):
    run = skitter(tmp_path, words(server, "crawl", server.seeds()[0], "--delay", "0", "-o", "d", "--json"))
    fetched = json.loads(run.stdout)["counts"]["pages"]
    assert fetched == len(server.truth(seeds=1).pages) > 1
    made = {}
    for name in ("jsonl", "csv", "urls", "links", "cdxj"):
        export = skitter(
            tmp_path, [sys.executable, "-m", "skitter", "export", "d", "--format", name, "-o", name]
        )
        assert export.returncode == 0, export.stderr
        made[name] = (tmp_path / name).read_text(encoding="utf-8").splitlines()
    pages = [json.loads(line) for line in made["jsonl"]]
    urls = {page["url"] for page in pages if page["status"] == 200}
    assert len(urls) == fetched
    assert all(page["text"] for page in pages if page["status"] == 200)
    assert {line.partition(",")[0] for line in made["csv"][1:]} >= urls
    assert {json.loads(line)["url"] for line in made["urls"]} >= urls
    assert {line.partition(",")[0] for line in made["links"][1:]} <= urls
    assert {json.loads(line.split(" ", 2)[2])["url"] for line in made["cdxj"]} >= urls
    assert made["cdxj"] == sorted(made["cdxj"])


def test_quiet_says_nothing(server, tmp_path):
    run = skitter(tmp_path, words(server, "crawl", server.seeds()[0], "--delay", "0", "-o", "d", "-q"))
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_limit_is_exit_code_3_and_resume_continues(server, tmp_path):
    first = skitter(
        tmp_path,
        words(server, "crawl", server.seeds()[0], "--delay", "0", "-o", "d", "--max-pages", "3", "--json"),
    )
    assert first.returncode == 3
    assert json.loads(first.stdout)["counts"]["pages"] == 3
    still = skitter(tmp_path, words(server, "resume", "d", "--json"))
    assert still.returncode == 3
    rest = skitter(tmp_path, words(server, "resume", "d", "--max-pages", "none", "--json"))
    assert rest.returncode == 0, rest.stderr
    assert json.loads(rest.stdout)["counts"]["pages"] == len(server.truth(seeds=1).pages)


@pytest.mark.parametrize(
    ("limit", "flag"),
    [(("--max-pages", "3"), "--max-pages 6"), (("--max-bytes", "1KiB"), "--max-bytes "), (("--max-time", "1s"), "--max-time 2s")],
)  # fmt: skip
def test_the_report_names_the_limit_and_the_command_to_continue(server, tmp_path, limit, flag):
    name = "a crawl"  # the command has to be written as a shell reads it
    command = words(server, "crawl", server.seeds()[0], "--delay", "500ms", "-o", name, *limit)
    first = skitter(tmp_path, command)
    assert first.returncode == 3, first.stderr
    told = first.stdout.splitlines()[-1]
    assert told.startswith(
        f"The limit is crawl.{limit[0][2:].replace('-', '_')}. Continue with: skitter resume "
    )
    assert flag in told
    advised = shlex.split(told.partition("Continue with: ")[2])
    had = json.loads(skitter(tmp_path, [sys.executable, "-m", "skitter", "status", name, "--json"]).stdout)
    again = skitter(tmp_path, [sys.executable, "-m", *advised, "--json"])
    assert again.returncode in {0, 3}, again.stderr
    pages = json.loads(again.stdout)["counts"]["pages"]
    # How many pages come in two seconds is for the machine to say.
    assert pages >= had["counts"]["pages"] + (limit[0] != "--max-time")


@pytest.mark.parametrize("word", ["status", "pages", "search", "export"])
def test_the_commands_that_a_report_names_work(crawled, word):
    (told,) = [line for line in crawled[1].splitlines() if line.startswith(f"  skitter {word} ")]
    run = skitter(crawled[0], [sys.executable, "-m", *shlex.split(told)])
    assert run.returncode in {0, 1} if word == "search" else run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def crawled(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where a crawl was made, and its report."""
    folder = tmp_path_factory.mktemp("crawled")
    command = words(server, "crawl", server.seeds()[0], "--delay", "0", "--max-pages", "3", "-o", "my crawl")
    return folder, skitter(folder, command).stdout


def test_seeds_come_from_standard_input_and_reach_the_page_record(server, tmp_path):
    lines = f'# mine\n{{"url": "{server.seeds()[1]}", "meta": {{"shelf": 7}}}}\nftp://bad.example/\n'
    run = skitter(
        tmp_path, words(server, "crawl", "--seeds", "-", "--scope", "page", "--delay", "0"), stdin=lines
    )
    assert run.returncode == 0, run.stderr
    assert "ftp://bad.example/" in run.stderr
    (made,) = tmp_path.iterdir()
    assert made.name == f"skitter-{server.web.names[1]}-{server.port}"
    listed = skitter(tmp_path, [sys.executable, "-m", "skitter", "pages", made.name, "--json"])
    assert [json.loads(line)["meta"] for line in listed.stdout.splitlines()] == [{"shelf": 7}]


def test_crawling_into_an_existing_directory_keeps_its_settings_and_adds_the_seeds(server, tmp_path):
    command = words(
        server, "crawl", server.seeds()[0], "--scope", "page", "--delay", "0", "-o", "d", "--json"
    )
    assert skitter(tmp_path, command).returncode == 0
    more = skitter(tmp_path, words(server, "crawl", server.seeds()[1], "-o", "d", "--json"))
    assert more.returncode == 0
    assert json.loads(more.stdout)["counts"]["pages"] == 2
    changed = skitter(
        tmp_path, words(server, "crawl", server.seeds()[1], "-o", "d", "--set", "urls.fold_www=true")
    )
    assert changed.returncode == 2
    assert "[urls]" in changed.stderr


def test_not_one_page_is_exit_code_1_and_why_knows_the_reason(server, tmp_path):
    url = f"http://127.0.0.1:{server.port}/"  # loopback, and nobody allowed it
    run = skitter(
        tmp_path, [sys.executable, "-m", "skitter", "crawl", url, "-o", "d", "--set", "robots.retry_after=[]"]
    )
    assert run.returncode == 1, run.stderr
    why = skitter(tmp_path, [sys.executable, "-m", "skitter", "why", "d", url])
    assert why.returncode == 0
    assert "not a public address: loopback" in why.stdout
    assert run.stdout.startswith("Crawl stopped: no host has answered")
    assert "127.0.0.1 is a loopback address\n  Allow it with --allow-private 127.0.0.0/8" in run.stdout
    named = skitter(tmp_path, [sys.executable, "-m", "skitter", "crawl", url, "-o", "d", "-q"])
    assert (named.returncode, named.stdout) == (1, "")
    assert named.stderr.startswith("skitter: stopped: no host has answered. http://127.0.0.1:")
    quiet = skitter(tmp_path, [sys.executable, "-m", "skitter", "resume", "d", "-q"])
    assert (quiet.returncode, quiet.stdout) == (1, "")
    assert quiet.stderr.startswith(
        "skitter: finished: no page could be fetched. Find out why with: skitter why d URL"
    )


def test_credentials_in_a_url_are_dropped_with_a_warning_without_the_password(server, tmp_path):
    url = server.seeds()[0].replace("//", "//me:s3cret@")
    flags = ("--scope", "page", "--delay", "0", "-o", "d")
    run = skitter(tmp_path, words(server, "crawl", url, "ftp://me:s3cret@x.example/", "me:s3cret@y", *flags))
    assert run.returncode == 0, run.stderr
    assert f"{server.seeds()[0]} is crawled without the user name and password in its URL" in run.stderr
    assert "ftp://x.example/" in run.stderr
    assert "s3cret" not in run.stderr + run.stdout
    assert not [
        path for path in (tmp_path / "d").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()
    ]


def test_credentials_in_a_seed_file_are_dropped_with_a_warning(server, tmp_path):
    url = server.seeds()[0].replace("//", "//me:s3cret@")
    (tmp_path / "seeds.txt").write_text(
        f'{url}\n{{"url": "{url}?x"}}\n{server.seeds()[0]}?email=me@x.example\n'
    )
    flags = ("--seeds", "seeds.txt", "--scope", "page", "--delay", "0", "-o", "d")
    run = skitter(tmp_path, words(server, "crawl", *flags))
    assert run.returncode == 0, run.stderr
    assert "2 seeds of seeds.txt are crawled without the user name and password in the URL" in run.stderr
    assert "s3cret" not in run.stderr + run.stdout
    kept = [path for path in (tmp_path / "d").rglob("*") if path.is_file()]
    assert not [path for path in kept if b"s3cret" in path.read_bytes()]


def test_bad_lines_before_the_first_good_seed_are_reported(server, tmp_path):
    (tmp_path / "seeds.txt").write_text(f"ftp://bad.example/\n{server.seeds()[0]}\nftp://worse.example/\n")
    command = words(
        server, "crawl", "--seeds", "seeds.txt", "--scope", "page", "--delay", "0", "-o", "d", "--json"
    )
    run = skitter(tmp_path, command)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["counts"]["pages"] == 1
    assert "ftp://bad.example/" in run.stderr
    assert "ftp://worse.example/" in run.stderr


# ---------------------------------------------------------------------------------------------- stopping


def slowly(server: Server, cwd: Path) -> "subprocess.Popen[str]":
    """A crawl that will still be at work when it is looked at: it has fetched its first page and waits politely."""
    command = words(server, "crawl", server.seeds()[0], "-o", "d", "--delay", "300s", "-v")
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if " robots " in line:
            return process
    raise AssertionError(f"it ended with {process.wait()}")


def test_an_interrupt_is_exit_code_130_and_says_how_to_go_on(server, tmp_path):
    process = slowly(server, tmp_path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "finishing and saving requests in flight" in err
    assert "Crawl interrupted; the state is safe" in out
    assert "Continue with: skitter resume d" in out


def test_a_second_interrupt_stops_at_once_and_loses_nothing(tmp_path):
    web = SyntheticWeb(seed=3, hosts=1, pages_per_host=3, features=Features.plain())
    with serve(web, latency=25.0) as late:
        command = words(late, "crawl", late.seeds()[0], "-o", "d", "-v")
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stderr.readline()  # no contact is set: the crawl is at work
            time.sleep(
                0.5
            )  # nothing says that a request is on its way; without one this is an ordinary interrupt
            process.send_signal(signal.SIGINT)
            assert "interrupt again" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            report = process.stdout.read()
            assert process.wait(PATIENCE) == 130
    assert report.startswith("Crawl interrupted; the state is safe")
    assert report.endswith("Continue with: skitter resume d\n")
    records = skitter(
        tmp_path, [sys.executable, "-m", "skitter", "export", "d", "--format", "urls"]
    ).stdout.splitlines()
    assert [json.loads(record)["state"] for record in records] == ["queued"]


def test_a_crawl_under_nohup_outlives_its_terminal(server, tmp_path):
    ignoring = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({sys.executable!r}, {words(server, 'crawl', server.seeds()[0], '-o', 'd', '--delay', '300s', '-v')!r})"
    with subprocess.Popen(
        [sys.executable, "-c", ignoring],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any(" robots " in line for line in process.stderr)
        process.send_signal(signal.SIGHUP)
        assert skitter(tmp_path, words(server, "resume", "d")).returncode == 4, "it is still at work"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def test_a_directory_in_use_is_exit_code_4_and_readers_do_not_mind(server, tmp_path):
    process = slowly(server, tmp_path)
    try:
        second = skitter(tmp_path, words(server, "resume", "d"))
        assert second.returncode == 4
        assert "d is in use by process" in second.stderr
        status = skitter(tmp_path, [sys.executable, "-m", "skitter", "status", "d", "--json"])
        assert status.returncode == 0, status.stderr
        assert json.loads(status.stdout)["counts"]["added"] == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def test_a_terminal_gets_live_progress(server, tmp_path):
    parent, child = pty.openpty()
    command = words(server, "crawl", server.seeds()[0], "-o", "d", "--delay", "0", "--json")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=child, text=True) as process:
        os.close(child)
        shown = b""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                shown += os.read(parent, 4096)
            except OSError:  # the other end is closed
                break
        os.close(parent)
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["outcome"] == "done"
    assert b" waiting " in shown
    assert b"\x1b[J" in shown
    assert shown.endswith(b"\x1b[J"), "the block is taken away at the end"


# ---------------------------------------------------------------------------------------------- what is wanted


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("example.org", "skitter-example.org"),
        ("example.org:8080", "skitter-example.org-8080"),
        ("[::1]", "skitter-1"),
        ("[::1]:81", "skitter-1-81"),
        ("xn--bcher-kva.example", "skitter-xn--bcher-kva.example"),
        ("a" * 253, "skitter-" + "a" * 200),
        ("..", "skitter-"),
    ],
)
def test_a_directory_name_is_a_safe_file_name(host, expected):
    assert directory_name(f"https://{host}") == expected


def test_two_ports_of_a_host_get_two_directories():
    assert default_directory(["http://a.example:8080/x"], []) == Path("skitter-a.example-8080")
    assert default_directory(["http://a.example:80/x"], []) == Path("skitter-a.example")


BAD_SETTINGS = [
    ("fetch.ca_file=/nonexistent/ca.pem", "fetch.ca_file"),
    ("fetch.ca_file=no.pem", "fetch.ca_file"),
    ("fetch.ca_file=.", "fetch.ca_file"),
    ("fetch.accept_language=(en)", "fetch.accept_language"),
    ("fetch.accept_language=en\r\nX: y", "fetch.accept_language"),
    ("fetch.user_agent=Bot/1.0\nX: y", "fetch.user_agent"),
    ("fetch.user_agent=Bot/1.0 ", "fetch.user_agent"),
    ("fetch.contact=me@example.org\x00", "fetch.contact"),
    ("fetch.contact= ", "fetch.contact"),
    ("fetch.resolve=exa mple.org:127.0.0.1", "fetch.resolve"),
    ("fetch.resolve=a..example^:127.0.0.1", "fetch.resolve"),
    ("fetch.allow_private=10.0.0.1/8", "fetch.allow_private"),
    ("scope.include=(", "scope.include"),
    ("schedule.number_pattern=page", "schedule.number_pattern"),
    ("crawl.sync_interval=0", "crawl.sync_interval"),
    ("crawl.concurrency=0", "crawl.concurrency"),
]


@pytest.mark.parametrize(("assignment", "name"), BAD_SETTINGS)
def test_unusable_settings_are_reported_in_one_line_before_anything_is_created(
    tmp_path, monkeypatch, capsys, assignment, name
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "no.pem").write_text("hello")
    assert main(["crawl", "http://127.0.0.1:9/", "-o", "d", "--set", assignment]) == 2
    complaint = capsys.readouterr().err
    assert name in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "d").exists()


def test_an_international_name_can_be_resolved_by_hand(server, tmp_path):
    command = words(
        server, "crawl", f"http://bücher.example:{server.port}/", "--resolve", "bücher.example:127.0.0.1"
    )
    run = skitter(tmp_path, [*command, "-o", "d", "--delay", "0", "--json"])
    assert json.loads(run.stdout)["counts"]["bytes"] > 0, run.stderr


def test_the_default_directory_is_named_by_the_first_usable_seed(tmp_path):
    assert default_directory(["ftp://x", "b.example/page"], []) == Path("skitter-b.example")
    seeds = tmp_path / "seeds.txt"
    seeds.write_bytes(b"# mine\nmailto:x\nhttps://c.example/\nd.example\n")
    with seeds.open("rb") as file:
        assert default_directory([], [("seeds.txt", file)]) == Path("skitter-c.example")
        assert file.read() == seeds.read_bytes(), "nothing of the file is used up"
    with pytest.raises(UsageError, match="nothing to crawl: argument 1: ftp://x: not an http"):
        default_directory(["ftp://x"], [])
    seeds.write_bytes(b"mailto:x\n")
    with (
        seeds.open("rb") as file,
        pytest.raises(UsageError, match=r"directory after \(s:1: mailto:x: .*name one with -o"),
    ):
        default_directory([], [("s", file)])


def test_flags_are_settings():
    given: dict[str, object] = {flag.key: None for flag in FLAGS.values()}
    given |= {
        "scope.kind": "domain",
        "scope.include": ["[0-9]+", "/docs/"],
        "crawl.max_bytes": "1GiB",
        "crawl.max_pages": "none",
    }
    settings = resolve(argparse.Namespace(**given, set=["fetch.deadline=10s", "scope.kind=page"]), None)
    assert settings.scope.kind == "domain", "a flag of its own wins over --set"
    assert settings.scope.include == ("[0-9]+", "/docs/")
    assert settings.crawl.max_bytes == 2**30
    assert settings.fetch.deadline == 10.0


def test_python_and_the_command_line_name_settings_alike():
    # From Python a crawl runs in the caller's process, and `with` is a word of the language: crawl_plugins.
    flags = {name: flag for name, flag in FLAGS.items() if name not in {"--workers", "--with"}}
    assert {name.removeprefix("--").replace("-", "_"): flag.key for name, flag in flags.items()} == SHORT


def test_the_rate_is_that_of_the_last_seconds():
    rate = Rate()
    assert rate.of(0, 0.0) == 0.0
    assert rate.of(50, 5.0) == 10.0
    for second in range(6, 40):
        rate.of(50, float(second))
    assert rate.of(50, 40.0) == 0.0


def test_a_terminal_shows_requests_in_flight_and_why_a_host_pauses(tmp_path):
    web = SyntheticWeb(
        seed=3, hosts=1, pages_per_host=3, features=Features.plain(crawl_delay=30), robots=("crawl-delay",)
    )
    with serve(web) as slow:
        shown = shown_until(words(slow, "crawl", slow.seeds()[0], "-o", "d"), tmp_path, b"Crawl-delay")
    assert b"waiting for " in shown


def shown_until(command: list[str], cwd: Path, wanted: bytes) -> bytes:
    """What a crawl draws on a terminal until it shows this; then it is stopped."""
    parent, child = pty.openpty()
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=child) as process:
        os.close(child)
        shown = b""
        deadline = time.monotonic() + PATIENCE
        while wanted not in shown and time.monotonic() < deadline:
            try:
                shown += os.read(parent, 4096)
            except OSError:  # the other end is closed
                break
        os.close(parent)
        process.terminate()
    return shown


def test_the_rate_after_a_resume_is_that_of_the_run(server, tmp_path):
    first = words(server, "crawl", server.seeds()[0], "-o", "d", "--delay", "0", "--max-pages", "10", "-q")
    assert skitter(tmp_path, first).returncode == 3
    resumed = words(server, "resume", "d", "--delay", "300s", "--max-pages", "none")
    shown = shown_until(resumed, tmp_path, b"waiting for")
    drawn = re.findall(r"(\d+) pages? · ([\d.]+)/s", shown.decode())
    assert int(drawn[-1][0]) >= 10
    # At most one page is fetched in this run, and the rate is one of at least a quarter of a second.
    assert max(float(rate) for _, rate in drawn) <= 5.0, drawn
