"""`skitter why`: everything the crawl knows about a URL."""

import asyncio
import copy
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from skitter import reasons
from skitter.cli.why import story
from skitter.export.finding_fields import as_fields
from skitter.export.findings import Findings, NotAUrlError, find
from skitter.model import Hints, HostRecord, Level, Pace, Reason, State, UrlRecord
from skitter.settings import BudgetSettings, Bytes, GroupSettings
from tests.unit.crawled import ABOUT, COPY, NOW, ROOT, CrawledSource, crawled, link


@pytest.fixture
def source(tmp_path: Path) -> CrawledSource:
    return crawled(tmp_path)


def told(source: CrawledSource, url: str) -> str:
    return "\n".join(story(asyncio.run(find(url, source, NOW + 1000)), NOW + 1000))


def test_a_seed_that_was_fetched(source):
    text = told(source, "example.org")
    assert text.startswith("https://example.org/\n  was fetched")
    assert "is a seed" in text
    assert "with status 200" in text
    assert "title 'Home'" in text
    assert "is in 00-1.warc.gz at 0, 50 bytes" in text


def test_a_page_shows_where_it_was_found(source):
    text = told(source, ABOUT)
    assert "was found at depth 1" in text
    assert f"    {ROOT} (a seed)" in text
    assert "asks for noindex" in text


def test_any_spelling_finds_the_record(source):
    text = told(source, "HTTPS://Example.org:443/x/../about?utm_source=mail#top")
    assert text.startswith(f"{ABOUT}\n  was fetched")


def test_without_a_scheme_https_is_looked_up_and_then_http(source):
    plain = "http://example.org:8765/a"
    asyncio.run(source.frontier.add([link(plain)], [], NOW))
    assert told(source, "example.org:8765/a").startswith(f"{plain}\n  is waiting")
    assert told(source, "//example.org:8765/a").startswith(f"{plain}\n  is waiting")
    assert told(source, "example.org/about").startswith(f"{ABOUT}\n  was fetched")
    assert told(source, "example.org/unheard").startswith("https://example.org/unheard\n  was never found")
    assert told(source, "https://example.org:8765/a").startswith("https://example.org:8765/a\n  was never")


def test_a_robots_txt_that_was_read_is_known(source):
    text = told(source, "example.org/robots.txt")
    assert "was fetched as the robots.txt of its origin" in text
    assert "robots.txt of https://example.org: status 200, read 2023-11-14T22:13:20.000Z, used until" in text
    assert "never offered" not in text
    assert as_fields(asyncio.run(find("https://example.org/robots.txt", source, 0.0)))["known"] is True
    assert "was never found" in told(source, "https://foreign.example/robots.txt")


def test_an_exact_copy_names_its_twin(source):
    assert f"is identical to {ABOUT}" in told(source, COPY)


def test_a_robots_refusal_is_shown_with_the_line(source):
    text = told(source, "https://example.org/private/x")
    assert "was refused (robots): robots.txt line 2: Disallow: /private/" in text
    assert "forbids it, line 2: Disallow: /private/" in text


def test_a_scope_refusal_is_shown_with_the_rule(source):
    assert "was refused (scope.host): other.example is not the host of a seed" in told(
        source, "https://other.example/"
    )


def test_the_host_clock_is_shown(source):
    text = told(source, ABOUT)
    assert (
        "its host example.org: free now, 1 request may start, 1.0s between requests (politeness.delay)"
        in text
    )
    assert "its address: 8 in flight at most" in text
    assert "on example.org: 0 waiting" in text


def test_an_unknown_url_is_shown_with_what_would_happen_now(source):
    text = told(source, "https://example.org/unheard")
    assert "was never found by this crawl" in text
    assert "the scope would accept it now" in text
    assert "allows it: no line forbids it" in text
    text = told(source, "https://foreign.example/")
    assert "the scope would refuse it now (scope.host)" in text
    assert "robots.txt of its origin: not read yet" in text


def test_text_that_is_not_a_url_is_a_usage_error(source):
    with pytest.raises(NotAUrlError, match="not an http or https URL"):
        told(source, "mailto:me@example.org")


def test_nothing_in_a_story_drives_the_terminal(source):
    assert "\x1b" not in told(source, ABOUT)


def waiting(**fields: object) -> Findings:
    record = {"url": ABOUT, "key": ABOUT, "state": State.QUEUED, "parent": ROOT, "depth": 1}
    return Findings(
        url=ABOUT, key=ABOUT, host="example.org", record=UrlRecord(**(record | fields)), chain=[], page=None,  # type: ignore[arg-type]
        host_record=None, robots=None, robots_allow=None, robots_line=None, scope=None,
    )  # fmt: skip


def test_a_retry_is_shown_with_its_reason_and_time():
    found = waiting(
        reason=Reason("http.503", "the server answered 503"),
        attempts=2,
        next_crawl=NOW + 90,
        level=Level.HIGH,
    )
    text = "\n".join(story(found, NOW))
    assert "is waiting to be fetched (http.503): the server answered 503" in text
    assert "requests since its last answer: 2" in text
    assert "due 2023-11-14T22:14:50.000Z (in 1m 30s)" in text
    assert "waits at level high" in text


def refused_with(reason: Reason, aside: Reason | None = None) -> Findings:
    host = HostRecord(host="example.org", domain="example.org", aside=aside)
    return replace(waiting(state=State.REFUSED, reason=reason), host_record=host)


def test_a_reason_is_told_with_what_it_means_and_what_to_do():
    entry = reasons.TABLE[reasons.CRAWL_DELAY]
    lines = story(refused_with(Reason(entry.code, "600 s")), NOW)
    assert lines[1:4] == [
        "  was refused (crawl-delay): 600 s",
        f"    what it means: {entry.meaning}",
        f"    what to do: {entry.remedy}",
    ]


def test_why_a_host_is_set_aside_is_explained_once():
    aside = Reason(reasons.CRAWL_DELAY, "600 s")
    text = "\n".join(story(refused_with(aside, aside), NOW))
    assert "is set aside (crawl-delay): 600 s" in text
    assert text.count("what to do: ") == 1
    text = "\n".join(story(refused_with(Reason(reasons.ROBOTS, "line 2"), aside), NOW))
    assert f"      what it means: {reasons.TABLE[reasons.CRAWL_DELAY].meaning}\n" in text
    assert text.count("what to do: ") == 2


def test_what_a_host_taught_is_told_in_one_line():
    pace = Pace(wait=8.0, latency=0.4, baseline=0.1, samples=4, doubled=3, cause="429", failures=3)
    host = HostRecord(host="example.org", domain="example.org", delay=8.0, pace=pace)
    found = replace(waiting(), host_record=host)
    line = (
        "    delay 8.0s: doubled 3 times, last for a 429; 3 failures in a row; latency 0.4 s, baseline 0.1 s"
    )
    assert line in story(found, NOW)
    assert as_fields(found)["host_record"]["pace"]["wait"] == 8.0
    well = replace(host, pace=Pace(latency=0.1, baseline=0.1, samples=4))
    assert "latency" not in "\n".join(story(replace(found, host_record=well), NOW))


def test_what_the_scope_would_say_is_explained(source):
    assert reasons.TABLE[reasons.SCOPE_HOST].remedy in told(source, "https://foreign.example/")


def test_a_code_of_another_version_is_told_as_it_is():
    found = refused_with(Reason("moon.phase", "full"), Reason("moon.phase", "full"))
    text = "\n".join(story(found, NOW))
    assert "was refused (moon.phase): full\n" in text
    assert "what" not in text
    assert as_fields(found)["record"]["reason"] == {
        "code": "moon.phase", "detail": "full", "meaning": None, "remedy": None,
    }  # fmt: skip


def test_programs_get_what_a_reason_means_and_what_to_do():
    aside = Reason(reasons.RETRY_AFTER, "a week")
    fields = as_fields(refused_with(Reason(reasons.http(503), "busy"), aside))
    entry, host = reasons.TABLE["http.NNN"], reasons.TABLE[reasons.RETRY_AFTER]
    assert fields["record"]["reason"] == {
        "code": "http.503", "detail": "busy", "meaning": entry.meaning, "remedy": entry.remedy,
    }  # fmt: skip
    assert fields["host_record"]["set_aside"]["remedy"] == host.remedy


def test_crashes_are_shown():
    assert "was in flight in 2 crashes of" in "\n".join(story(waiting(crashes=2), NOW))
    assert "was in flight in 1 crash of" in "\n".join(story(waiting(crashes=1), NOW))


def test_programs_get_everything_as_one_object(source):
    fields = json.loads(json.dumps(as_fields(asyncio.run(find(COPY, source, 0.0)))))
    assert fields["known"] is True
    assert fields["record"]["state"] == "crawled"
    assert fields["record"]["status"] == 200
    assert fields["found_on"] == [ROOT]
    assert fields["page"]["duplicate_of"] == ABOUT
    assert "text" not in fields["page"]
    assert fields["robots"]["allowed"] is True
    assert fields["host_record"]["pages"] == 3
    unknown = as_fields(asyncio.run(find("https://foreign.example/", source, 0.0)))
    assert unknown["known"] is False
    assert unknown["scope"]["code"] == "scope.host"
    assert unknown["scope"]["meaning"] == reasons.TABLE[reasons.SCOPE_HOST].meaning
    assert unknown["record"] is unknown["page"] is unknown["robots"] is None


def test_what_was_said_about_a_url_where_it_was_found_is_shown(source):
    url = "https://example.org/page/2"
    hints = Hints(lastmod=1_714_521_600.0, priority=0.8, rel=("next",))
    asyncio.run(source.frontier.add([replace(link(url), hints=hints)], [], NOW))
    said = "last changed 2024-05-01T00:00:00.000Z, priority 0.8, rel=next"
    assert f"  what was said there about it: {said}" in told(source, url)
    record = as_fields(asyncio.run(find(url, source, 0.0)))["record"]
    assert record["hints"] == {
        "lastmod": "2024-05-01T00:00:00.000Z",
        "priority": 0.8,
        "rel": ["next"],
        "changefreq": None,
        "source": None,
    }
    assert "was said there" not in told(source, ABOUT)
    assert as_fields(asyncio.run(find(ABOUT, source, 0.0)))["record"]["hints"] is None


def test_budgets_are_shown_with_what_was_used(source):
    settings = replace(source.settings, budget=BudgetSettings(host_pages=10, domain_bytes=Bytes(2**20)))
    text = "\n".join(story(asyncio.run(find(ABOUT, replaced(source, settings), NOW)), NOW))
    assert "budget of its host: 3 of 10 pages" in text
    assert "budget of its domain: 0 B of 1.0 MiB" in text


def test_windows_that_never_meet_are_said(source):
    """For what waits, and for what was never seen."""
    window = replace(source.settings.politeness, window="12:00-14:00 UTC")
    group = GroupSettings(name="g", hosts=("example.org",), window="Sat 20:00-22:00 Europe/Berlin")
    settings = replace(source.settings, politeness=window, group=(group,))
    for url in (ABOUT, "https://example.org/never"):
        found = asyncio.run(find(url, replaced(source, settings), NOW))
        text = "\n".join(story(found, NOW))
        named = "12:00-14:00 UTC (politeness.window), Sat 20:00-22:00 Europe/Berlin ([group.g])"
        assert f"its windows are never open at the same time: {named}" in text
        assert as_fields(found)["windows_never_meet"]["code"] == "window.never"
    meeting = replace(settings, politeness=replace(window, window="12:00-20:30 UTC"))
    found = asyncio.run(find(ABOUT, replaced(source, meeting), NOW))
    assert "never open" not in "\n".join(story(found, NOW))
    assert as_fields(found)["windows_never_meet"] is None


def replaced(source, settings):
    other = copy.copy(source)
    other.settings = settings
    return other
