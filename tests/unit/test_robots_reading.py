"""Odd robots.txt files, delays, sitemaps, and which line it was."""

import pytest

from skitter.robots import MAX_SIZE, RobotsRules, robots_rules


def rules(*lines: str) -> RobotsRules:
    """Rules for everybody."""
    return robots_rules("\n".join(["User-agent: *", *lines]).encode(), "skitter")


# ------------------------------------------------------------------------------------------------ reading

PLAIN = "User-agent: *\nDisallow: /secret\nAllow: /secret/not\n"


@pytest.mark.parametrize(
    "body",
    [
        PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace("\n", "\r").encode(),
        PLAIN.replace("\n", "\n\r").encode(),
        PLAIN.encode("utf-8-sig"),
        b"\xef\xbb" + PLAIN.encode(),
        b"\xef" + PLAIN.encode(),
        PLAIN.encode("utf-16"),
        b"\xfe\xff" + PLAIN.encode("utf-16-be"),
        b"\xff\xfe" + PLAIN.encode(),
        PLAIN.replace(": ", ":").encode(),
        PLAIN.replace(": ", " ").encode(),
        PLAIN.replace(": ", "\t \t").encode(),
        PLAIN.replace(": ", "\t:\t ").replace("\n", " \t\n").encode(),
        PLAIN.upper().replace("/SECRET", "/secret").replace("NOT", "not").encode(),
        PLAIN.replace("\n", " # a comment: with a colon\n").encode(),
        PLAIN.replace("Disallow", "Dissalow").replace("User-agent", "useragent").encode(),
        PLAIN.replace("Disallow", "disallow-please").replace("User-agent", "User agent").encode(),
        PLAIN.replace("*", "* for everybody").encode(),
        PLAIN.replace("\n", "\0\0 rubbish\n").encode(),
        b"<html><body>\n" + PLAIN.encode() + b"\x80\xff garbage\nno such: directive\n:\n\n</html>",
        PLAIN.encode() + b"User-agent other\nDisallow /secret too many words\n",
    ],
)
def test_odd_files_are_read_all_the_same(body: bytes) -> None:
    found = robots_rules(body, "skitter")
    assert [found.allows(path) for path in ("/", "/secret", "/secret/not")] == [True, False, True]


def test_only_the_first_500_kib_are_read_and_no_line_is_read_by_half() -> None:
    rule = b"Disallow: /late\n"
    noise = b"#" * (MAX_SIZE - len(b"User-agent: *\n\n") - len(rule)) + b"\n"
    fits = b"User-agent: *\n" + noise + rule
    assert len(fits) == MAX_SIZE
    assert not robots_rules(fits, "skitter").allows("/late")
    assert not robots_rules(fits + b"Disallow: /", "skitter").allows("/late")
    assert robots_rules(fits + b"Disallow: /", "skitter").allows("/x")
    pushed = fits.replace(b"\n#", b"\n######", 1)
    assert pushed[:MAX_SIZE].endswith(b"\nDisallow: /")
    assert robots_rules(pushed, "skitter").allows("/x"), "`Disallow: /` is no rule of theirs"


def test_a_line_is_read_as_far_as_google_reads_it() -> None:
    rule = b"Disallow: /" + b"a" * (2083 * 8)
    path = "/" + "a" * (2083 * 8 - 1 - len(b"Disallow: /"))
    long = robots_rules(b"User-agent: *\n" + rule, "skitter")
    assert not long.allows(path)
    assert long.allows(path[:-1])


# ------------------------------------------------------------------------------------------------ delays, sitemaps


@pytest.mark.parametrize(
    ("line", "delay"),
    [
        ("Crawl-delay: 10", 10),
        ("crawldelay: .5", 0.5),
        ("Crawl-Delay: 1.50 # slowly", 1.5),
        ("Crawl-delay 7", 7),
        ("Crawl-delay: 0", 0),
        ("Crawl-delay: 2\nCrawl-delay: 30\nCrawl-delay: 4", 30),
        ("Crawl-delay: 10<BR>", 10),
        ("Crawl-delay: " + "9" * 400, 1e9),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: inf", None),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: 1e3", None),
        ("Crawl-delay: ten", None),
        ("Crawl-delay: \u0661\u0660", None),
        ("Crawl-delay:", None),
    ],
)
def test_crawl_delay_is_a_number_of_seconds(line: str, delay: float | None) -> None:
    assert rules(line).crawl_delay == delay


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("Request-rate: 1/20", 20),
        ("Request-rate: 1/5m", 300),
        ("Request-rate: 30/1M", 2),
        ("Request-rate: 4/1h", 900),
        ("Request-rate: 2  /\t1 d", 43200),
        ("Request-rate: 1/10s 1820-1940", 10),
        ("Request-rate: 5/1m 0200-2259\nRequest-rate: 20/1m 2300-0159", 12),
        ("Request-rate: 0/10", None),
        ("Request-rate: 1", None),
        ("Request-rate: 1/x", None),
        ("Request-rate: 1/" + "9" * 5000, None),
    ],
)
def test_request_rate_is_read_as_seconds_per_request(line: str, rate: float | None) -> None:
    assert rules(line).request_rate == rate


def test_the_longer_of_both_delays_is_owed() -> None:
    assert rules("Crawl-delay: 5", "Request-rate: 1/20").delay == 20
    assert rules("Crawl-delay: 50", "Request-rate: 1/20").delay == 50
    assert rules("Request-rate: 1/20").delay == 20
    assert rules("Crawl-delay: 0").delay == 0
    assert rules().delay is None


@pytest.mark.parametrize(
    ("line", "window"),
    [
        ("Visit-time: 0200-0630", (120, 390)),
        ("Visit-time: 2300 0145", (1380, 105)),
        ("Visit-time: 0000 - 2400", (0, 1440)),
        ("Visit-time: 2500-0600", None),
        ("Visit-time: 0260-0600", None),
        ("Visit-time: night", None),
    ],
)
def test_visit_time_is_minutes_of_the_day(line: str, window: tuple[int, int] | None) -> None:
    assert rules(line).visit_time == window


def test_a_delay_applies_to_the_agent_before_it_and_rules_to_the_whole_list() -> None:
    body = b"User-agent: skitter\nCrawl-delay: 10\nUser-agent: cousin\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 3"
    skitter, cousin, other = (robots_rules(body, agent) for agent in ("skitter", "cousin", "other"))
    assert (skitter.crawl_delay, cousin.crawl_delay, other.crawl_delay) == (10, None, 3)
    assert not skitter.allows("/x")
    assert not cousin.allows("/x")
    assert other.allows("/x")
    in_turn = b"User-agent: skitter\nCrawl-delay: 1\nUser-agent: cousin\nCrawl-delay: 20"
    assert robots_rules(in_turn, "skitter").crawl_delay == 1


def test_sitemaps_are_listed_once_each_in_order_wherever_they_stand() -> None:
    body = "Site-map: /a.xml\nUser-agent: other\nSitemap : /b?x=1#c\nsitemap:/a.xml\nhttps://example.org/sitemap.xml\nSitemap: /ü.xml"
    found = robots_rules(body.encode(), "skitter").sitemaps
    assert found == ("/a.xml", "/b?x=1", "https://example.org/sitemap.xml", "/ü.xml")


# ------------------------------------------------------------------------------------------------ which line it was


def test_the_deciding_line_is_named_by_number_and_text() -> None:
    found = robots_rules(
        b"# ours\r\nUser-agent: *\r\n\r\nDisallow: /a # why\r\nAllow: /a/b\r\ndisalow: /*.x$", "skitter"
    )
    assert [(line.number, line.text) for path in ("/a", "/a/b", "/q.x") if (line := found.line(path))] == [
        (4, "Disallow: /a # why"),
        (5, "Allow: /a/b"),
        (6, "disalow: /*.x$"),
    ]
    assert found.line("/elsewhere") is None
    assert found.line("/robots.txt") is None


def test_of_equal_rules_the_first_line_is_named() -> None:
    line = rules("Disallow: /a", "Disallow: /%61", "Disallow: /a").line("/a")
    assert line is not None
    assert line.number == 2


def test_an_empty_disallow_is_named_too() -> None:
    line = rules("Disallow:").line("/a")
    assert line is not None
    assert (line.number, line.text) == (2, "Disallow:")


def test_a_long_line_is_shown_shortened() -> None:
    line = rules("Disallow: /" + "é" * 5000).line("/" + "é" * 5000)
    assert line is not None
    assert len(line.text) == 200
