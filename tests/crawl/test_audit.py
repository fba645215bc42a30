"""`skitter audit`: finds what is wrong with doctored logs, and nothing wrong with real ones.

Each doctored log is a small edit of the log of a real crawl, which is clean.
"""

import copy
import gzip
import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from benchmarks import audit_scrapy

from skitter import urls
from skitter.cli import main
from skitter.cli.audit import parser
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.crash.test_kill import plan_for, run_until_it_ends, start
from tests.crawl.harness import crawl, crawl_with, settings_for

DELAY = 0.1
CRAWL_DELAY = 0.4
KINDS = ("missing", "allow", "disallow", "crawl-delay", "groups", "moved", "later", "allow")

Line = dict[str, Any]


def synthetic(seed: int = 5, **more: Any) -> SyntheticWeb:
    features = Features(
        robots=True, redirects=True, later=True, statuses=True, crawl_delay=CRAWL_DELAY, retry_after=1
    )
    return SyntheticWeb(seed=seed, hosts=8, pages_per_host=4, features=features, robots=KINDS, **more)


def polite(server, **more):
    settings = {"scope__kind": "any", "politeness__delay": f"{DELAY}s", "schedule__retries": 1}
    return settings_for(server, **(settings | more))


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> Path:
    path: Path = tmp_path_factory.mktemp("audited") / "c"
    with serve_process(synthetic()) as server:
        crawl(path, server.seeds(), polite(server))
    return path


@pytest.fixture(scope="module")
def lines(clean) -> list[Line]:
    return read(clean)


def read(path: Path) -> list[Line]:
    lines = (path / "log" / "requests-00.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def copied(path: Path, to: Path) -> Path:
    """A crawl whose log may be doctored."""
    return Path(shutil.copytree(path, to / "copy"))


def write(path: Path, lines: list[Line]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "log" / "requests-00.jsonl").write_text(text)


def audited(capsys, *words: object) -> tuple[int, dict[str, Any]]:
    """Exit code and result."""
    capsys.readouterr()
    code = main(["audit", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


# ------------------------------------------------------------------------------------------------ clean logs


def test_nothing_is_wrong_with_a_clean_log(clean, capsys):
    code, found = audited(capsys, clean)
    assert (code, found["kinds"], found["unproven"]) == (0, {}, [])
    assert found["requests"] > 60
    assert all(
        found["checks"][name]["checked"] for name in ("gap", "robots obeyed", "Retry-After", "in flight")
    )


@pytest.mark.parametrize(
    ("workers", "more"),
    [
        (2, {}),
        (0, {"politeness__per_host": 3}),
        (0, {"politeness__burst": 4}),
        (2, {"politeness__per_address": 2, "politeness__address_delay": "20ms"}),
        (2, {"politeness__per_domain": 1, "politeness__domain_delay": "50ms"}),
        (
            2,
            {
                "group": {
                    "some": {"hosts": ["h0001.*", "h0002.*", "h0004.*"], "in_flight": 1, "delay": "60ms"}
                }
            },
        ),
        (0, {"site": [{"match": "h0001.*", "politeness.delay": "300ms"}], "budget__host_pages": 3}),
        (0, {"budget__domain_requests_per_day": 6, "budget__host_bytes": "10kB", "crawl__max_time": "4s"}),
        (0, {"budget__bandwidth": "40kB", "budget__memory": "4GB"}),
        (2, {"budget__bandwidth": "40kB"}),
    ],
    ids=[
        "2 workers",
        "3 per host",
        "bursts",
        "few per address",
        "domains",
        "groups",
        "overlays",
        "budgets",
        "bandwidth",
        "bandwidth of 2 workers",
    ],
)
def test_nothing_is_wrong_with_the_logs_of_real_crawls(tmp_path, capsys, workers, more):
    with serve_process(synthetic(seed=9)) as server:
        settings = polite(server, **more)
        if workers:
            crawl_with(workers, tmp_path / "c", server.seeds(), settings)
        else:
            crawl(tmp_path / "c", server.seeds(), settings)
        asked = len(server.log())
    code, found = audited(capsys, tmp_path / "c")
    assert (code, found["kinds"]) == (0, {})
    assert found["requests"] == asked
    assert bool(found["checks"]["bandwidth"]["checked"]) == ("budget__bandwidth" in more)
    assert any("memory" in text for text in found["unproven"]) == ("budget__memory" in more)


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "2 workers"])
def test_nothing_is_wrong_with_a_crawl_that_was_killed_and_resumed(tmp_path, capsys, workers):
    with serve_process(synthetic(seed=11)) as server:
        overrides = {"politeness.delay": f"{DELAY}s", "schedule.retries": 1, "crawl.concurrency": 8}
        plan = plan_for(server, tmp_path / "c", workers=workers, overrides=overrides)
        for _ in range(3):
            kill_after_more_requests(plan, server)
        assert run_until_it_ends(plan) == 0
    code, found = audited(capsys, tmp_path / "c")
    assert (code, found["kinds"]) == (0, {})
    assert sum(map(runs_in, (tmp_path / "c" / "log").glob("requests-*"))) >= 4


def test_a_wish_to_wait_in_an_answer_that_a_crash_took_is_told_and_not_held_against_the_next_run(
    clean, tmp_path, capsys
):
    path = copied(clean, tmp_path)
    found = read(path)
    terms = next(line for line in found if line["type"] == "Terms")
    page = next(line for line in found if line["type"] == "Requested" and line["purpose"] == "page")
    end = max(line["end"] for line in found if line["type"] == "Requested") + 10
    url = page["url"] + "?busy"
    busy = dict(page, url=url, start=end, end=end + 0.01, status=429, retry_after="60")
    again = dict(page, url=url, start=end + 5, end=end + 5.01, attempt=2, purpose="retry")
    later = dict(terms, at=end + 1)
    lost = {"type": "Lost", "url": url, "host": page["host"], "leased_at": end}
    write(path, [*found, busy, later, lost, again])
    code, said = audited(capsys, path)
    assert (code, said["kinds"]) == (0, {})
    assert any("Retry-After" in why for why in said["excused"])
    write(path, [*found, busy, later, again])
    assert audited(capsys, path)[1]["kinds"] == {"retry after": 1}


def kill_after_more_requests(plan, server) -> None:
    """Kill the crawl in the middle: it has made some more requests, or has ended by then."""
    before = len(server.log())
    child = start(plan)
    while child.poll() is None and len(server.log()) < before + 6:
        time.sleep(0.01)
    if child.poll() is None:
        os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=60)


def runs_in(log: Path) -> int:
    return log.read_text().count('"Terms"')


def test_a_visit_that_a_run_broke_off_itself_says_nothing_about_requests_before_it(clean, tmp_path, capsys):
    path = copied(clean, tmp_path)
    found = read(path)
    last = max((line for line in found if line["type"] == "Requested"), key=lambda line: line["end"])
    lost = {"type": "Lost", "url": last["url"], "host": last["host"], "leased_at": last["end"] + 10}
    write(path, [*found, lost])
    assert audited(capsys, path)[0] == 0
    again = dict(
        last, start=lost["leased_at"] + DELAY / 2, end=lost["leased_at"] + DELAY, attempt=2, purpose="retry"
    )
    write(path, [*found, lost, again])
    code, said = audited(capsys, path)
    assert (code, said["kinds"]) == (1, {"gap host": 1})


# ------------------------------------------------------------------------------------------------ thirty doctored logs


class Log:
    """The lines of a clean log, to be changed."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = copy.deepcopy(lines)

    @property
    def terms(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.lines[0]["settings"]
        return settings

    def host(self, kind: str) -> list[Line]:
        """The requests to the host with this robots.txt, in order."""
        name = f"h{KINDS.index(kind):04}."
        return [line for line in self.lines if line.get("host", "").startswith(name)]

    def pages(self, kind: str = "allow") -> list[Line]:
        return [line for line in self.host(kind) if line["purpose"] == "page" and line["status"] == 200]

    def shift(self, line: Line, by: float) -> None:
        line["start"] += by
        line["end"] += by

    def close_up(self, kind: str, purpose: str, gap: float = 0.0) -> None:
        """Let the first request with a purpose begin right after the one before."""
        requests = self.host(kind)
        number = next(n for n, line in enumerate(requests) if line["purpose"] == purpose and n)
        self.shift(requests[number], requests[number - 1]["end"] + gap - requests[number]["start"])

    def again(self, line: Line, **changes: Any) -> Line:
        """The same request once more, at the end."""
        late = max(each.get("end", 0.0) for each in self.lines) + 10.0
        made = copy.deepcopy(line) | changes
        self.shift(made, late - made["start"])
        self.lines.append(made)
        return made


def gap_to_page(log: Log) -> None:
    log.close_up("allow", "page")


def gap_to_redirect(log: Log) -> None:
    for line in log.host("missing"):
        if line["purpose"] == "redirect":
            break
    requests = log.host("missing")
    before = requests[requests.index(line) - 1]
    log.shift(line, before["end"] + DELAY / 2 - line["start"])


def gap_to_retry(log: Log) -> None:
    retry = next(line for line in log.lines if line.get("purpose") == "retry")
    requests = [line for line in log.lines if line.get("host") == retry["host"]]
    before = requests[requests.index(retry) - 1]
    before.pop("retry_after", None)
    log.shift(retry, before["end"] + DELAY / 2 - retry["start"])


def crawl_delay(log: Log) -> None:
    log.close_up("crawl-delay", "page", gap=(DELAY + CRAWL_DELAY) / 2)


def overlay_delay(log: Log) -> None:
    host = log.pages()[0]["host"]
    log.terms["site"] = [{"match": host.replace(".", "*", 1), "values": {"politeness.delay": 5.0}}]


def overlay_path(log: Log) -> None:
    page = log.pages()[0]
    path = urlsplit(page["url"]).path
    log.terms["site"] = [
        {"match": "elsewhere.test", "values": {"politeness.delay": 9.0}},
        {"match": page["host"] + path[:2] + "*", "values": {"politeness.delay": 5.0}},
    ]


def group_delay(log: Log) -> None:
    log.terms["group"] = [{"name": "all", "hosts": ["*.test"], "delay": 3.0, "in_flight": 1}]


def group_turns(log: Log) -> None:
    log.terms["group"] = [{"name": "all", "hosts": ["*.test"], "delay": 3.0, "in_flight": 9}]


def address_delay(log: Log) -> None:
    log.terms["politeness"]["address_delay"] = 2.0


def in_flight_host(log: Log) -> None:
    first, second = log.pages()[:2]
    first["end"] = second["start"] + 0.05


def in_flight_address(log: Log) -> None:
    log.terms["politeness"]["per_address"] = 1


def in_flight_group(log: Log) -> None:
    log.terms["group"] = [{"name": "all", "hosts": ["*.test"], "in_flight": 1}]


def no_robots(log: Log) -> None:
    log.lines.remove(log.host("allow")[0])


def robots_late(log: Log) -> None:
    robots, *_, last = log.host("allow")
    log.shift(robots, last["end"] + 1.0 - robots["start"])


def robots_unanswered(log: Log) -> None:
    robots, page = log.host("allow")[:2]
    robots["end"] = page["start"] + 0.01


def robots_stale(log: Log) -> None:
    for line in log.host("allow")[1:]:
        log.shift(line, 2 * 86400.0)


def robots_moved(log: Log) -> None:
    hops = [line for line in log.lines if line.get("origin")]
    for hop in hops:
        log.lines.remove(hop)


def robots_moved_into(log: Log) -> None:
    """The rules that the moved file has are not obeyed."""
    hop = next(line for line in log.lines if line.get("origin"))
    page = next(line for line in log.host("moved") if line["purpose"] == "page")
    page["url"] = hop["origin"] + "/private/1.html"


def disobeyed(log: Log) -> None:
    page = log.pages("disallow")[1]
    page["url"] = urls.origin(page["url"]) + "/private/1.html"


def disobeyed_spelling(log: Log) -> None:
    page = log.pages("disallow")[1]
    page["url"] = urls.origin(page["url"]) + "/section/%7eown/3.html"


def another_agent(log: Log) -> None:
    log.lines[0]["agent"] = "otherbot"


def robots_failing(log: Log) -> None:
    log.host("allow")[0]["status"] = 503


def robots_timed_out(log: Log) -> None:
    log.host("allow")[0] |= {"status": 0, "fault": "timeout"}


def robots_twice(log: Log) -> None:
    log.again(log.host("allow")[0])


def retry_after(log: Log) -> None:
    number, line = next(
        (n, line) for n, line in enumerate(log.lines) if line.get("retry_after", "").isdigit()
    )
    following = next(other for other in log.lines[number + 1 :] if other["host"] == line["host"])
    log.shift(following, line["end"] + 0.5 - following["start"])


def retry_after_date(log: Log) -> None:
    page = log.pages()[0]
    until = datetime.fromtimestamp(page["end"], UTC) + timedelta(hours=1)
    page |= {"status": 503, "retry_after": format_datetime(until, usegmt=True)}


def retry_after_longest(log: Log) -> None:
    log.pages()[0] |= {"status": 429, "retry_after": "9" * 40}


def window(log: Log) -> None:
    now = datetime.fromtimestamp(log.lines[1]["start"], UTC)
    start, end = now + timedelta(hours=2), now + timedelta(hours=3)
    log.terms["politeness"]["window"] = f"{start:%H}:00-{end:%H}:00 UTC"


def window_of_a_group(log: Log) -> None:
    now = datetime.fromtimestamp(log.lines[1]["start"], UTC)
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    other = days[(now.weekday() + 3) % 7]
    log.terms["group"] = [
        {"name": "all", "hosts": ["h0001.*"], "window": f"{other} 00:00-12:00 Europe/Berlin"}
    ]


def host_pages(log: Log) -> None:
    log.terms["budget"]["host_pages"] = 2


def group_bytes(log: Log) -> None:
    log.terms["group"] = [{"name": "all", "hosts": ["*.test"], "bytes": 5000}]


def domain_seconds(log: Log) -> None:
    log.terms["budget"]["domain_seconds"] = 0.0001


def requests_per_day(log: Log) -> None:
    log.terms["budget"]["host_requests_per_day"] = 3


def bandwidth(log: Log) -> None:
    """As much as it is allowed in four times as long."""
    requests = [line for line in log.lines if line["type"] == "Requested"]
    took = max(line["end"] for line in requests) - min(line["start"] for line in requests)
    log.terms["budget"]["bandwidth"] = sum(line["bytes"] for line in requests) / took / 4


def bandwidth_of_large_answers(log: Log) -> None:
    """After the second of two, one after the other, nothing was due for a long time."""
    log.terms["budget"]["bandwidth"] = 1e6
    for page in log.pages()[:2]:
        page["bytes"] = 20_000_000


def twice(log: Log) -> None:
    log.again(log.pages()[0])


def not_found_twice(log: Log) -> None:
    page = log.pages()[0]
    page["status"] = 404
    log.again(page, purpose="retry", attempt=2)


def many_retries(log: Log) -> None:
    page = log.pages()[0]
    page["status"] = 500
    log.again(page, purpose="retry", attempt=2)
    log.again(page, purpose="retry", attempt=3)


def after_a_crash(log: Log) -> None:
    """A process died with a page in flight, and the next one does not wait."""
    page = log.pages()[-1]
    late = max(line.get("end", 0.0) for line in log.lines) + 60.0
    log.lines.append(log.lines[0] | {"at": late})
    log.lines.append({"type": "Lost", "url": page["url"], "host": page["host"], "leased_at": page["start"]})
    log.lines.append(page | {"start": late + 0.02, "end": late + 0.03, "attempt": 2, "purpose": "retry"})


def torn(log: Log) -> None:
    log.lines[7] = {"type": "Requested", "url": "http://h0001.site0000.test/"}


def backwards(log: Log) -> None:
    page = log.pages()[0]
    page["end"] = page["start"] - 1.0


def before_its_run(log: Log) -> None:
    log.shift(log.pages()[0], -3600.0)


PLANTED: dict[Callable[[Log], None], str] = {
    gap_to_page: "gap host",
    gap_to_redirect: "gap host",
    gap_to_retry: "gap host",
    crawl_delay: "gap host",
    overlay_delay: "gap host",
    overlay_path: "gap host",
    group_delay: "gap group",
    group_turns: "gap group",
    address_delay: "gap address",
    in_flight_host: "in flight host",
    in_flight_address: "in flight address",
    in_flight_group: "in flight group",
    no_robots: "robots first",
    robots_late: "robots first",
    robots_unanswered: "robots first",
    robots_stale: "robots stale",
    robots_moved: "robots moved",
    robots_moved_into: "robots disobeyed",
    disobeyed: "robots disobeyed",
    disobeyed_spelling: "robots disobeyed",
    another_agent: "robots disobeyed",
    robots_failing: "robots unreachable",
    robots_timed_out: "robots unreachable",
    robots_twice: "robots twice",
    retry_after: "retry after",
    retry_after_date: "retry after",
    retry_after_longest: "retry after",
    window: "window",
    window_of_a_group: "window",
    host_pages: "pages host",
    group_bytes: "bytes group",
    domain_seconds: "seconds domain",
    requests_per_day: "requests host",
    bandwidth: "bandwidth",
    bandwidth_of_large_answers: "bandwidth",
    twice: "twice",
    not_found_twice: "twice",
    many_retries: "retries",
    after_a_crash: "gap host",
    torn: "log",
    backwards: "log",
    before_its_run: "log",
}
# What goes with a planted violation of another kind.
ALONGSIDE = {
    "in_flight_host": {"gap host"},
    "group_delay": {"in flight group"},
    "robots_unanswered": {"gap host", "in flight host"},
    "before_its_run": {"robots first"},
    "robots_failing": {"gap host"},
    "retry_after": {"gap host"},
}


def doctored(clean: Path, lines: list[Line], edit: Callable[[Log], None], to: Path) -> Path:
    log = Log(lines)
    edit(log)
    (to / "log").mkdir(parents=True)
    (to / "archive").symlink_to(clean / "archive")
    shutil.copy(clean / "crawl.toml", to)
    text = "".join(json.dumps(line) + "\n" for line in log.lines)
    (to / "log" / "requests-00.jsonl").write_text(text)
    return to


@pytest.mark.parametrize("edit", PLANTED, ids=lambda edit: edit.__name__)
def test_a_planted_violation_is_found(clean, lines, edit, tmp_path, capsys):
    code, found = audited(capsys, doctored(clean, lines, edit, tmp_path / "d"))
    assert code == 1
    assert PLANTED[edit] in found["kinds"]
    assert set(found["kinds"]) <= {PLANTED[edit]} | ALONGSIDE.get(edit.__name__, set())


def test_there_are_thirty_of_them():
    assert len(PLANTED) >= 30


# ------------------------------------------------------------------------------------------------ for people


def test_every_example_works(clean, lines, tmp_path, monkeypatch, capsys):
    """Those of the help text, with files of these names in the current directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("skitter-example.org", "worker-1", "worker-2", "worker-3"):
        (tmp_path / name).symlink_to(clean)
    shutil.copy(next((clean / "archive").glob("*.gz")), tmp_path / "crawl.warc.gz")
    (tmp_path / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    (tmp_path / "access.log").write_text(
        '192.0.2.1 - - [17/Nov/2026:22:00:00 +0000] "GET /robots.txt HTTP/1.1" 200 5 "-" "Scrapy/2.19"\n'
    )
    for example in parser().examples:
        words = shlex.split(example.replace("/var/log/nginx/", ""))[1:]
        code = main(words)
        assert code in (0, 1), example
        assert capsys.readouterr().out


def test_one_screen_says_what_was_checked_and_where_it_was_broken(clean, lines, tmp_path, capsys):
    assert main(["audit", str(clean)]) == 0
    said = capsys.readouterr().out
    assert "kept every promise" in said
    assert len(said.splitlines()) <= 24
    broken = doctored(clean, lines, disobeyed, tmp_path / "d")
    assert main(["audit", str(broken)]) == 1
    said = capsys.readouterr().out
    assert len(said.splitlines()) <= 24
    assert "BROKEN 1     robots obeyed" in said
    assert "/private/1.html" in said
    assert "owed: robots.txt says Disallow: /private/; found: requested" in said
    number = next(
        n for n, line in enumerate(read(broken), start=1) if "/private/1.html" in line.get("url", "")
    )
    assert f"requests-00.jsonl:{number}" in said


# ------------------------------------------------------------------------------------------------ logs of others


def test_a_crawl_is_judged_the_same_by_the_log_of_its_server_and_by_its_archive(tmp_path, capsys):
    """By a server's log in whole seconds, at a delay that can be seen there; and by the WARC files alone."""
    web = SyntheticWeb(
        seed=2, hosts=1, pages_per_host=6, features=Features(robots=True), robots=("disallow",)
    )
    with serve_process(web) as server:
        crawl(tmp_path / "c", server.seeds(), polite(server, politeness__delay="0.2s"))
        log = server.log()
    host = log[0].host
    access = tmp_path / "access.log"
    access.write_text("".join(map(as_combined, log)))
    robots = tmp_path / "robots.txt"
    robots.write_text("User-agent: *\nDisallow: /private/\nAllow: /private/open/\n")
    flags = ["--agent", "skitter", "--host", host, "--robots", f"{host}={robots}"]
    code, found = audited(capsys, access, *flags, "--delay", "200ms")
    assert (code, found["kinds"], found["requests"]) == (0, {}, len(log))
    code, found = audited(capsys, access, *flags, "--delay", "2s")
    assert code == 1
    assert set(found["kinds"]) == {"gap host"}
    robots.write_text("User-agent: skitter\nDisallow: /\n")
    code, found = audited(capsys, access, *flags, "--delay", "200ms")
    assert (code, found["kinds"]) == (1, {"robots disobeyed": len(log) - 1})
    archive = next((tmp_path / "c" / "archive").glob("*.gz"))
    assert audited(capsys, archive, "--agent", "skitter", "--delay", "200ms")[1]["kinds"] == {}
    code, found = audited(capsys, archive, "--agent", "skitter", "--delay", "300ms")
    assert (code, set(found["kinds"])) == (1, {"gap host"})
    plain = tmp_path / "plain.warc"
    plain.write_bytes(gzip.decompress(archive.read_bytes()))
    assert audited(capsys, plain, "--agent", "skitter", "--delay", "300ms")[1]["kinds"] == found["kinds"]


@pytest.mark.skipif(not audit_scrapy.PEERS.exists(), reason="Scrapy is not installed; `make bench` does that")
def test_what_scrapy_does_wrong_is_said(tmp_path, capsys):
    """By the log of the server, against what the settings of both crawls ought to mean."""
    code, found = audited(capsys, *audit_scrapy.crawled(tmp_path, {}))
    assert code == 1
    assert {"robots first", "robots disobeyed", "gap host"} <= set(found["kinds"])
    (tmp_path / "polite").mkdir()
    code, found = audited(capsys, *audit_scrapy.crawled(tmp_path / "polite", audit_scrapy.POLITE))
    assert code == 1
    assert "robots disobeyed" not in found["kinds"]
    assert "robots first" not in found["kinds"]
    asked = [each for each in found["violations"] if each["kind"] == "gap host"]
    assert any("2 s between two requests (robots.txt)" in each["owed"] for each in asked)  # Crawl-delay


def as_combined(request) -> str:
    at = datetime.fromtimestamp(request.start, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'192.0.2.1 - - [{at}] "GET {request.path} HTTP/1.1" {request.status} 100 "-" "Skitter/0.2 (+x)"\n'
