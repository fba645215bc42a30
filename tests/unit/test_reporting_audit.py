"""The audit by itself: what it may know, how it reads logs, and how much memory it takes."""

import ast
import base64
import gzip
import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skitter.cli import main
from skitter.reporting.audit import robots
from skitter.reporting.audit.duties import windows
from skitter.reporting.audit.logs import is_access_log
from skitter.reporting.audit.ordering import in_order
from skitter.reporting.audit.values import Request
from skitter.robots import robots_rules
from skitter.settings import Settings
from tests.conformance.cases import needs_cases, rows

AT = 1_794_960_000.0  # 2026-11-18 00:00 UTC
FOLDER = Path(robots.__file__).parent
JUDGED = (
    "politeness",
    "schedule",
    "robots",
    "frontier",
    "visit",
    "fetch",
    "compose",
    "backends",
    "links",
    "runtime.windows",
)


# ------------------------------------------------------------------------------------------------ independent


def test_the_audit_uses_nothing_of_what_it_judges():
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                assert not name.startswith(tuple(f"skitter.{part}" for part in JUDGED)), (
                    f"{path.name}: {name}"
                )


def test_nothing_of_it_is_loaded_either():
    code = (
        "import sys, skitter.reporting.audit as audit\n"
        "assert audit.audit\n"
        "print(sorted(name for name in sys.modules if name.startswith('skitter.')))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for part in JUDGED[:-1]:  # the settings load the windows, to check how they are written
        assert f"'skitter.{part}" not in run.stdout


@needs_cases
def test_the_second_reader_of_robots_txt_passes_the_same_cases():
    rules = cache(robots.read)
    wrong = []
    for row in rows("robots_cases.jsonl"):
        other = row.get("expected_allowed_rfc", row.get("rfc_normalised_reference"))
        expected = row["expected_allowed"] if row["tier"] == "A" else other
        raw = row.get("robots_b64")
        body = base64.b64decode(raw) if raw else (row["robots"] or "").encode("utf-8", "surrogatepass")
        if (not rules(body, row["user_agent"] or "").refusal(row["url"])) is not expected:
            wrong.append(row["id"])
    assert wrong == []


def test_both_readers_agree_on_delays():
    """Of files made at random from the lines that matter."""
    dice = random.Random(14)
    lines = ["User-agent: *", "User-agent: skitter", "User-agent: other", "Crawl-delay: 2", "Crawl-delay: 7", "crawl-delay: x",
             "Request-rate: 1/5", "Request-rate: 2/1m", "Disallow: /a", "Allow: /a/b", "", "# x", "Sitemap: http://a.test/s"]  # fmt: skip
    for _ in range(3000):
        body = "\n".join(dice.choices(lines, k=dice.randint(1, 9))).encode()
        assert robots.read(body, "skitter").delay == (robots_rules(body, "skitter").delay or 0.0), body


@pytest.mark.parametrize(
    ("text", "moment", "is_open"),
    [
        ("22:00-06:00 UTC", "2026-11-18T23:00:00+00:00", True),
        ("22:00-06:00 UTC", "2026-11-18T06:00:00+00:00", False),
        ("22:00-06:00 Europe/Berlin", "2026-11-18T21:30:00+00:00", True),  # 22:30 in winter
        ("22:00-06:00 Europe/Berlin", "2026-07-18T19:59:00+00:00", False),  # 21:59 in summer
        ("22:00-06:00 Europe/Berlin", "2026-07-18T20:00:00+00:00", True),
        ("Mon-Fri 19:00-07:00 UTC", "2026-11-21T02:00:00+00:00", True),  # Friday's, on Saturday morning
        ("Mon-Fri 19:00-07:00 UTC", "2026-11-22T02:00:00+00:00", False),
        ("Sat-Mon 08:00-24:00 UTC", "2026-11-23T23:59:59+00:00", True),
        ("01:00-02:00 UTC, 03:00-04:00 UTC", "2026-11-18T03:30:00+00:00", True),
    ],
)
def test_windows_are_read_anew(text, moment, is_open):
    from datetime import datetime  # noqa: PLC0415

    at = datetime.fromisoformat(moment).timestamp()
    assert any(window.is_open(at) for window in windows(text)) is is_open


# ------------------------------------------------------------------------------------------------ logs


def terms(at: float = AT, **politeness: Any) -> dict[str, Any]:
    settings = {"politeness": {"delay": 1.0, "per_host": 1, "burst": 1, "per_address": 8} | politeness}
    return {"type": "Terms", "at": at, "agent": "skitter", "settings": settings}


def request(start: float, path: str, host: str = "a.test", took: float = 0.1, **more: Any) -> dict[str, Any]:
    made = {
        "type": "Requested", "url": f"http://{host}{path}", "host": host, "address": "192.0.2.1", "start": AT + start,
        "end": AT + start + took, "status": 404 if path == "/robots.txt" else 200, "bytes": 100,
        "purpose": "robots" if path == "/robots.txt" else "page", "attempt": 1, "fault": "",
    }  # fmt: skip
    return made | more


def written(folder: Path, *logs: list[dict[str, Any]]) -> Path:
    (folder / "log").mkdir(parents=True)
    for number, lines in enumerate(logs):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "log" / f"requests-{number:02}.jsonl").write_text(text)
    return folder


def kinds(capsys, *words: object) -> dict[str, int]:
    capsys.readouterr()
    code = main(["audit", *map(str, words), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == (1 if found["kinds"] else 0)
    return dict(found["kinds"])


FIRST = [request(1, "/robots.txt"), request(3, "/")]


def test_each_request_is_judged_by_the_settings_of_its_time(tmp_path, capsys):
    slow = [terms(delay=5.0), *FIRST]
    assert kinds(capsys, written(tmp_path / "a", slow)) == {"gap host": 1}
    quick = [terms(delay=1.5), *FIRST, terms(AT + 20, delay=10.0), request(30, "/1"), request(45, "/2")]
    assert kinds(capsys, written(tmp_path / "b", quick)) == {}
    assert kinds(capsys, written(tmp_path / "c", [*quick, request(50, "/3")])) == {"gap host": 1}


def test_a_clock_that_was_set_back_between_runs_is_no_violation(tmp_path, capsys):
    back = [terms(), *FIRST, request(500, "/1"), terms(AT + 400), request(402, "/2"), request(404, "/3")]
    assert kinds(capsys, written(tmp_path / "a", back)) == {}
    # Within a run the clock never goes back.
    assert set(kinds(capsys, written(tmp_path / "b", [*back, request(404.5, "/4")]))) == {"gap host"}
    assert "log" in kinds(capsys, written(tmp_path / "c", [*back, request(300, "/4")]))


def test_logs_of_several_workers_are_merged_by_time(tmp_path, capsys):
    """Each keeps its own hosts' delays, but they are all on one address."""
    shards = [[terms(per_address=2)] for _ in range(3)]
    for number, lines in enumerate(shards):
        host = f"h{number}.test"
        lines += [request(number * 10.0, "/robots.txt", host), request(100, "/", host, took=5.0)]
    assert kinds(capsys, written(tmp_path / "a", *shards)) == {"in flight address": 1}
    apart = [written(tmp_path / f"worker-{number}", lines) for number, lines in enumerate(shards)]
    assert kinds(capsys, *apart) == {"in flight address": 1}
    assert kinds(capsys, *apart[:2]) == {}


def test_a_torn_last_line_is_what_a_crash_leaves(tmp_path, capsys):
    path = written(tmp_path / "a", [terms(), *FIRST])
    with (path / "log" / "requests-00.jsonl").open("a") as log:
        log.write('{"type":"Reque')
    assert kinds(capsys, path) == {}
    with (path / "log" / "requests-00.jsonl").open("a") as log:
        log.write("\n")
    assert kinds(capsys, path) == {"log": 1}


def test_a_repetition_needs_a_reason(tmp_path, capsys):
    begin = [terms(), *FIRST]
    lost = {"type": "Lost", "url": "http://a.test/", "host": "a.test", "leased_at": AT + 3}
    again = request(100, "/")
    assert kinds(capsys, written(tmp_path / "a", [*begin, again])) == {"twice": 1}
    assert kinds(capsys, written(tmp_path / "b", [*begin, again | {"purpose": "recrawl"}])) == {}
    assert kinds(capsys, written(tmp_path / "c", [*begin, terms(AT + 90), lost, again])) == {}
    # A power loss may have taken the last results of a run, but not all.
    assert kinds(capsys, written(tmp_path / "d", [*begin, terms(AT + 90), again])) == {}
    later = [*begin, request(60, "/1"), terms(AT + 90), again]
    assert kinds(capsys, written(tmp_path / "e", later)) == {"twice": 1}


def test_after_the_retry_command_a_page_may_fail_as_often_again(tmp_path, capsys):
    tries = [
        request(100 * n, "/x", status=500, attempt=n, purpose="retry" if n > 1 else "page")
        for n in (1, 2, 3, 4)
    ]
    assert kinds(capsys, written(tmp_path / "a", [terms(), *FIRST, *tries])) == {}
    once_more = request(900, "/x", status=500, attempt=5, purpose="retry")
    assert kinds(capsys, written(tmp_path / "b", [terms(), *FIRST, *tries, once_more])) == {"retries": 1}
    commanded = once_more | {"attempt": 1, "purpose": "page"}
    assert kinds(capsys, written(tmp_path / "c", [terms(), *FIRST, *tries, commanded])) == {}


def test_a_robots_txt_without_an_archive_is_not_proven_and_said(tmp_path, capsys):
    lines = [terms(), request(1, "/robots.txt", status=200), request(3, "/")]
    assert main(["audit", str(written(tmp_path / "a", lines))]) == 0
    said = capsys.readouterr().out
    assert "no archive or --robots here has the robots.txt (http://a.test)" in said
    assert "not judged   robots obeyed" in said  # it is not called kept
    assert "not asked    budgets" in said


def test_the_window_of_a_group_counts_as_asked_for(tmp_path, capsys):
    opened = terms()
    opened["settings"]["group"] = [{"name": "all", "hosts": ["*.test"], "window": "00:00-24:00 UTC"}]
    assert main(["audit", str(written(tmp_path / "a", [opened, *FIRST]))]) == 0
    assert "kept         windows" in capsys.readouterr().out
    assert main(["audit", str(written(tmp_path / "b", [terms(), *FIRST]))]) == 0
    assert "not asked    windows" in capsys.readouterr().out


def test_a_log_that_names_no_host_says_how_to_name_it(tmp_path, capsys):
    log = tmp_path / "access.log"
    log.write_text(COMBINED.format(0, "/robots.txt", 200) + COMBINED.format(1, "/", 200))
    assert main(["audit", str(log), "--agent", "bot"]) == 0
    assert "name it with --host" in capsys.readouterr().out
    assert main(["audit", str(log), "--agent", "bot", "--host", "a.test"]) == 0
    assert "--host" not in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ logs of others

COMMON = '192.0.2.1 - bob [18/Nov/2026:01:00:{:02} +0100] "GET {} HTTP/1.1" {} 512\n'
COMBINED = '192.0.2.1 - - [18/Nov/2026:01:00:{:02} +0100] "GET {} HTTP/1.1" {} - "-" "Bot/1.0 (\\"x\\")"\n'
VHOST = 'b.test:8080 192.0.2.1 - - [18/Nov/2026:01:00:{:02} +0100] "GET {} HTTP/1.1" {} 5 "-" "Bot/1.0"\n'


@pytest.mark.parametrize("form", [COMMON, COMBINED, VHOST], ids=["common", "combined", "with the host"])
def test_access_logs_are_read_in_all_their_forms(tmp_path, capsys, form):
    log = tmp_path / "access.log"
    polite = [(0, "/robots.txt", 200), (1, "/", 200), (2, "/a?b=c", 200), (4, "/gone", 404)]
    log.write_text("".join(form.format(*line) for line in polite))
    assert is_access_log(log.read_text().splitlines()[0])
    assert kinds(capsys, log, "--agent", "bot") == {}
    assert kinds(capsys, log, "--agent", "bot", "--delay", "3s") == {"gap host": 2}
    rude = [(n // 5, f"/{n}", 200) for n in range(20)]
    log.write_text("".join(form.format(*line) for line in rude))
    assert set(kinds(capsys, log, "--agent", "bot")) == {"gap host", "robots first"}


def test_requests_of_other_agents_are_not_this_crawlers(tmp_path, capsys):
    log = tmp_path / "access.log"
    lines = [COMBINED.format(0, "/robots.txt", 200)]
    lines += [COMBINED.format(1, f"/{n}", 200).replace("Bot/1.0", "Mozilla/5.0") for n in range(50)]
    log.write_text("".join(lines))
    assert kinds(capsys, log, "--agent", "bot") == {}
    assert kinds(capsys, log, "--agent", "mozilla")["gap host"] > 20


def test_robots_txt_and_its_hours_are_held_against_others(tmp_path, capsys):
    log, text = tmp_path / "access.log", tmp_path / "robots.txt"
    log.write_text(COMBINED.format(0, "/robots.txt", 200) + COMBINED.format(9, "/private", 200))
    text.write_text("User-agent: bot\nDisallow: /private\n")
    assert kinds(capsys, log, "--agent", "bot", "--robots", text) == {"robots disobeyed": 1}
    text.write_text("User-agent: *\nVisit-time: 0600-0845\n")
    assert kinds(capsys, log, "--agent", "bot", "--robots", text) == {"visit time": 1}
    text.write_text("User-agent: *\nCrawl-delay: 30\n")
    assert kinds(capsys, log, "--agent", "bot", "--robots", text) == {"gap host": 1}


def test_a_torn_or_foreign_warc_file_is_read_as_far_as_it_goes(tmp_path, capsys):
    def record(url: str, second: int, http: bytes) -> bytes:
        head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <{url}>\r\nWARC-Date: 2026-11-18T00:00:{second:02}Z\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n%b\r\n\r\n" % (len(http), http)

    rules = b"User-agent: *\nDisallow: /private\n"
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(gzip.compress(rules)), gzip.compress(rules))
    text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" + chunked
    busy = b"HTTP/1.1 503 No\r\nRetry-After: 20\r\n\r\n"
    records = [
        record("http://a.test/robots.txt", 0, text),
        record("http://a.test/private/1", 3, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5_000_000),
        record("http://a.test/2", 6, busy),
        record("http://a.test/3", 9, b"HTTP/1.1 200 OK\r\n\r\nx"),
    ]
    for name, data in {
        "plain.warc": b"".join(records),
        "whole.warc.gz": gzip.compress(b"".join(records)),
        "each.warc.gz": b"".join(map(gzip.compress, records)),
        "torn.warc.gz": b"".join(map(gzip.compress, [*records, *records]))[:-40],
    }.items():
        (tmp_path / name).write_bytes(data)
        found = kinds(capsys, tmp_path / name, "--agent", "x")
        assert {"robots disobeyed", "retry after"} <= set(found), name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "missing does not exist"),
        (".", "has no request log"),
        ("noise.txt", "is no log that can be read"),
    ],
)
def test_without_a_log_the_exit_code_is_4(tmp_path, monkeypatch, capsys, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.txt").write_bytes(b"\x00\x01\x02 nothing")
    assert main(["audit", name]) == 4
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["access.log"], "say whose requests to judge, for example --agent Scrapy"),
        (["access.log", "--agent", "a", "--delay", "-1s"], "--delay"),
        (["access.log", "--agent", "a", "--delay", "soon"], "--delay"),
        (["access.log", "--agent", "a", "--per-host", "0"], "--per-host"),
        (["access.log", "--agent", "a", "--robots", "x=missing"], "--robots: missing"),
        ([], "required"),
    ],
)
def test_wrong_usage_is_refused(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "access.log").write_text(COMBINED.format(0, "/", 200))
    assert main(["audit", *words]) == 2
    assert message in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ many lines


def test_requests_are_sorted_in_parts():
    dice = random.Random(1)
    made = [Request(dice.randint(0, 1), dice.random(), 1.0, f"u{n}", "h", 0, n, 0) for n in range(1000)]
    assert list(in_order(iter(made), part=64)) == sorted(made, key=lambda each: (each.era, each.start))


@pytest.mark.soak
def test_a_million_lines_take_memory_for_their_hosts_only(tmp_path):
    """Measured in a process of its own."""
    (tmp_path / "log").mkdir()
    with (tmp_path / "log" / "requests-00.jsonl").open("w") as log:
        log.write(json.dumps(terms()) + "\n")
        for number in range(1_000_000):
            host = f"h{number % 1000}.test"
            path = "/robots.txt" if number < 1000 else f"/{number}"
            log.write(json.dumps(request(number * 0.002, path, host, took=0.01)) + "\n")
    code = (
        "import resource, sys; from skitter.cli import main; code = main(['audit', sys.argv[1]]);"
        "print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    code, megabytes = map(int, run.stdout.splitlines()[-1].split())
    assert code == 0, run.stdout
    assert megabytes < 300


def test_the_defaults_are_those_of_the_crawler():
    assert (
        Settings().politeness.delay == 1.0
    )  # what `skitter audit --delay` demands of others unless told otherwise
