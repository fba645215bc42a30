"""Every key of a request, with who asks for its delay."""

import pytest

from skitter.model import HostRecord, Pace
from skitter.politeness.keys import delay_of, keys_of
from skitter.robots import robots_rules
from skitter.settings import GroupSettings, PolitenessSettings, Seconds, Settings, SiteSettings
from skitter.settings.sites import Sites

URL = "https://www.a.test/docs/x"
SITE_OF_OTHERS = SiteSettings(
    "*.a.test/slow/*", {"politeness.delay": Seconds(9.0)}
)  # what was asked for last
SITE = SiteSettings("*.a.test/docs/*", {"politeness.delay": Seconds(7.0)})


def test_every_key_with_a_limit_is_named():
    settings = Settings(
        politeness=PolitenessSettings(per_domain=2, domain_delay=Seconds(3.0)),
        group=(
            GroupSettings("cdn", hosts=("*.a.test",), delay=Seconds(5.0)),
            GroupSettings("other", hosts=("b.test",)),
        ),
    )
    keys = keys_of(URL, None, Sites(settings), None, 100.0)
    assert [(key.kind, key.name, key.delay, key.in_flight) for key in keys] == [
        ("host", "www.a.test", 1.0, 1),
        ("domain", "a.test", 3.0, 2),
        ("group", "cdn", 5.0, None),
        ("address", "", 0.0, 8),
    ]
    assert keys[1].rate == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("robots", "learnt", "site", "delay", "who"),
    [
        ("", 0.0, (), 1.0, "politeness.delay"),
        ("", 0.0, (SITE,), 7.0, "politeness.delay of [[site]] 1 (*.a.test/docs/*)"),
        ("Crawl-delay: 20", 0.0, (SITE,), 20.0, "Crawl-delay in its robots.txt"),
        ("Request-rate: 1/9", 0.0, (), 9.0, "Request-rate in its robots.txt"),
        ("", 0.0, (SITE_OF_OTHERS,), 1.0, "politeness.delay"),
        ("Crawl-delay: 0.1", 0.0, (), 1.0, "politeness.delay"),
        ("Crawl-delay: 20", 40.0, (), 40.0, "politeness.adaptive, for what was learnt of the host"),
    ],
)
def test_who_asks_for_a_delay(robots, learnt, site, delay, who):
    host = HostRecord(host="www.a.test", domain="a.test", delay=9.0, pace=Pace(wait=learnt))
    rules = robots_rules(f"User-agent: *\n{robots}\n".encode(), "skitter")
    assert delay_of(URL, host, Sites(Settings(site=site)), rules) == (delay, who)


@pytest.mark.parametrize(
    ("free_at", "burst", "in_flight", "tokens"),
    [(0.0, 1, 0, 1), (101.0, 1, 0, 0), (98.5, 3, 0, 2), (0.0, 3, 0, 3), (0.0, 3, 2, 1), (0.0, 3, 3, 0)],
)
def test_the_tokens_of_a_host(free_at, burst, in_flight, tokens):
    settings = Settings(politeness=PolitenessSettings(burst=burst, per_host=3))
    host = HostRecord(host="www.a.test", domain="a.test", free_at=free_at, delay=1.0, in_flight=in_flight)
    assert keys_of(URL, host, Sites(settings), None, 100.0)[0].tokens == tokens


def test_a_host_whose_pages_wait_for_a_window_or_the_next_day_has_no_tokens():
    host = HostRecord(host="www.a.test", domain="a.test", free_at=1.0, held=5000.0, delay=1.0)
    own = keys_of("http://www.a.test/", host, Sites(Settings()), None, 1000.0)[0]
    assert (own.tokens, own.free_at) == (0, 5000.0)
