"""What finished visits add to the metrics, and challenges that are told from ordinary refusals."""

import pytest
from msgspec.structs import replace

from skitter import reasons
from skitter.model import Exchange, Link, Reason, Settlement, State, Verdict, Visit
from skitter.reporting.measuring import VENDORS, Measuring, challenge

HEAD = b"HTTP/1.1 403 Forbidden\r\nServer: x\r\n%s\r\n\r\n"


def settled(
    started: float, *, free: float, leased: float, host_free: float = 0.0, host: str = "h.test"
) -> Settlement:
    """A visit to a host that was free at `host_free` when it was leased, and is free again at `free`."""
    link = Link(url=f"http://{host}/", key=f"http://{host}/", host=host)
    exchange = Exchange(link.url, "192.0.2.1", started, started + 0.5, b"", b"HTTP/1.1 200 OK\r\n\r\n", b"x")
    verdict = Verdict(state=State.CRAWLED, host_free=free)
    return Settlement(
        visit=Visit(link, 1, leased, host_free=host_free), verdict=verdict, exchange=exchange, status=200
    )


def violations(*visits: Settlement) -> int:
    measuring = Measuring()
    for visit in visits:
        assert visit.exchange is not None
        measuring.visited(visit, None, visit.exchange.ended)
    return measuring.politeness.violations


def test_a_request_before_its_host_was_free_is_a_violation():
    first = settled(100, free=110, leased=100)
    assert violations(first, settled(110, free=120, leased=110, host_free=110)) == 0
    assert violations(settled(109, free=120, leased=109, host_free=110)) == 1, (
        "by the clock that it was leased under"
    )
    assert violations(first, settled(109, free=120, leased=109)) == 1, "by what its host was owed before"
    assert violations(first, settled(109, free=120, leased=109, host="other.test")) == 0


def test_visits_that_overlap_by_permission_are_none():
    first = settled(100, free=110, leased=100)
    assert violations(first, settled(100.2, free=110.2, leased=100.2)) == 0


def test_hosts_are_forgotten_before_there_are_too_many():
    measuring = Measuring()
    for number in range(50_000):
        measuring.visited(settled(100, free=110, leased=100, host=f"h{number}.test"), None, 100.5)
    assert len(measuring._owed) <= 20_000
    assert measuring.politeness.violations == 0


@pytest.mark.parametrize(
    ("status", "head", "body", "vendor"),
    [
        (403, b"cf-mitigated: challenge", b"", "cloudflare"),
        (503, b"CF-Mitigated:challenge", b"", "cloudflare"),
        (403, b"cf-ray: 8f00", b"forbidden", ""),
        (202, b"x-amzn-waf-action: challenge", b"", "aws"),
        (405, b"x-amzn-waf-action: captcha", b"", "aws"),
        (403, b"x-datadome: protected", b"", "datadome"),
        (403, b"Server: AkamaiGHost", b"<h1>Access Denied</h1> Reference&#32;&#35;18.2", "akamai"),
        (403, b"Server: AkamaiGHost", b"no", ""),
        (503, b"Server: AkamaiGHost", b"Reference&#32;&#35;18.2", ""),
        (200, b"x: y", b'<script src="/_Incapsula_Resource?x">', "imperva"),
        (403, b"x: y", b'<div id="px-captcha">', "human"),
        (200, b"x: y", b'<link href="/.within.website/x/xess/xess.css">', "anubis"),
        (200, b"x: y", b'<link href="/.within.website/x/xess/xess.css">' + b" " * 20_000, ""),
        (404, b"cf-mitigated: challenge", b"", ""),
        (200, b"x: y", b"about px-capt chas", ""),
    ],
)
def test_a_challenge_is_known_by_the_mark_of_its_vendor(status, head, body, vendor):
    assert challenge(status, HEAD % head, body) == vendor
    assert vendor in ("", *VENDORS)


def test_what_was_not_sent_is_counted_by_its_reason():
    measuring = Measuring()
    visit = replace(settled(100, free=110, leased=100), exchange=None, status=0)
    for code, attempted in (
        (reasons.ROBOTS, True),
        ("dns", True),
        ("dns", False),
        (reasons.BUDGET_HOST, True),
    ):
        verdict = Verdict(state=State.REFUSED, reason=Reason(code), attempted=attempted)
        measuring.visited(replace(visit, verdict=verdict), None, 0)
    assert measuring.robots.denied == 1
    assert measuring.requests.failures == {"dns": 1}
    assert measuring.requests.seconds.number == 0
