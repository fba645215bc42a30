"""What is sent: targets, identity, conditional fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import skitter
from skitter.fetch.request import conditions, fields, identity, user_agent
from skitter.fetch.transfer import BAD_PORTS, Target, head, target
from skitter.model import Page, Reason
from skitter.settings import FetchSettings, SettingsError
from skitter.testing.contracts.store import a_page


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example/", Target("http", "a.example", 80, "a.example", "/")),
        ("https://a.example/b?c=d&e", Target("https", "a.example", 443, "a.example", "/b?c=d&e")),
        ("http://a.example:8080/", Target("http", "a.example", 8080, "a.example:8080", "/")),
        ("http://a.example:80/", Target("http", "a.example", 80, "a.example", "/")),
        ("http://a.example/?", Target("http", "a.example", 80, "a.example", "/?")),
        ("http://a.example?b", Target("http", "a.example", 80, "a.example", "/?b")),
        ("http://a.example/b#c", Target("http", "a.example", 80, "a.example", "/b")),
        ("http://a.example/a|b^c%7e//", Target("http", "a.example", 80, "a.example", "/a|b^c%7e//")),
        ("http://a_b.example./", Target("http", "a_b.example", 80, "a_b.example", "/")),
        ("https://a.example.:81/", Target("https", "a.example", 81, "a.example:81", "/")),
        ("http://[2001:DB8::1]:81/", Target("http", "2001:db8::1", 81, "[2001:db8::1]:81", "/")),
        ("http://0x7f.1/", Target("http", "127.0.0.1", 80, "127.0.0.1", "/")),
        ("http://①②⑦.0.0.1/", Target("http", "127.0.0.1", 80, "127.0.0.1", "/")),
        ("HTTP://ÄB.example/é", Target("http", "xn--b-zfa.example", 80, "xn--b-zfa.example", "/%C3%A9")),
        ("http://user:secret@a.example/", Target("http", "a.example", 80, "a.example", "/")),
    ],
)
def test_a_url_is_cut_as_it_will_be_sent(url: str, expected: Target):
    assert target(url) == expected


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://a.example/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("//a.example/", "scheme"),
        ("", "scheme"),
        ("http://", "scheme"),
        ("http://a b/", "scheme"),
        ("http://a!b.example/", "url"),
        ("http://a'b.example/", "url"),
        ("http://a..example/", "url"),
        ("http://a.example../", "url"),
        ("http://a.example:0/", "port"),
        ("http://a.example:22/", "port"),
        ("https://a.example:25/", "port"),
        ("http://a.example:6667/", "port"),
    ],
)
def test_an_unsendable_url_is_refused_with_the_reason(url: str, code: str):
    refused = target(url)
    assert isinstance(refused, Reason)
    assert refused.code == code


def test_the_ports_of_the_web_are_not_refused():
    for port in (80, 443, 8000, 8080, 8443, 3000, 65535):
        assert port not in BAD_PORTS
        assert isinstance(target(f"http://a.example:{port}/"), Target)


@given(st.text(max_size=60))
def test_no_url_can_smuggle_anything_into_the_request_head(text: str):
    for url in (text, "http://a.example/" + text, "http://a.example:" + text, "http://" + text):
        where = target(url)
        if isinstance(where, Target):
            sent = head(where, ())
            assert sent.count(b"\r\n") == 3
            assert sent.count(b"\n") == 3
            assert sent.split(b"\r\n")[0].count(b" ") == 2
            assert all(32 <= octet < 127 or octet in b"\r\n" for octet in sent)


def test_the_user_agent_names_the_program_and_the_contact():
    version = skitter.__version__
    assert (
        user_agent(FetchSettings(contact="https://a.example/bot"))
        == f"Skitter/{version} (+https://a.example/bot)"
    )
    assert user_agent(FetchSettings(contact="me@a.example")) == f"Skitter/{version} (me@a.example)"
    assert (
        user_agent(FetchSettings(user_agent="ExampleBot/1.0 (+x)"))
        == f"ExampleBot/1.0 (+x) Skitter/{skitter.__version__}"
    )


def test_without_a_contact_the_user_agent_says_so():
    assert "no contact" in user_agent(FetchSettings())
    assert user_agent(FetchSettings()).startswith(f"Skitter/{skitter.__version__} ")


@pytest.mark.parametrize(
    "settings",
    [
        FetchSettings(user_agent="a\r\nX-Injected: 1"),
        FetchSettings(user_agent="a\nHost: evil"),
        FetchSettings(user_agent="a\0b"),
        FetchSettings(user_agent=" leading"),
        FetchSettings(user_agent="trailing "),
        FetchSettings(user_agent="Bötchen/1"),
        FetchSettings(contact="x\r\nX-Injected: 1"),
        FetchSettings(accept_language="en\r\nX-Injected: 1"),
    ],
)
def test_settings_that_would_break_the_head_are_settings_errors(settings: FetchSettings):
    with pytest.raises(SettingsError, match=r"fetch\."):
        identity(settings)


def test_every_request_names_the_client_and_accepted_codings():
    lines = identity(FetchSettings(contact="me@a.example", accept_language="en, de;q=0.5"))
    assert [line.partition(":")[0] for line in lines] == [
        "User-Agent",
        "From",
        "Accept",
        "Accept-Language",
        "Accept-Encoding",
    ]
    assert lines[1] == "From: me@a.example"
    assert lines[4] == "Accept-Encoding: gzip, deflate, br, zstd"


def test_validators_become_fields_and_invalid_ones_are_dropped():
    assert fields(
        [
            ("If-None-Match", '"abc"'),
            ("If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("If-None-Match", "x\r\nX-Injected: 1"),
            ("If-None-Match", "x\nHost: evil"),
            ("If-None-Match", ""),
            ("If-None-Match", " padded "),
            ("If-None-Match", '"é"'),
            ("Bad Name", "x"),
            ("Bad:Name", "x"),
        ]
    ) == ('If-None-Match: "abc"', "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT")


# ------------------------------------------------------------------------------------------------ conditions

MAY = "Wed, 01 May 2024 12:00:00 GMT"


def stored(etag: str = "", last_modified: str = "") -> Page:
    return replace(a_page(1).page, etag=etag, last_modified=last_modified)


@pytest.mark.parametrize("tag", ['"x"', 'W/"x"', '""', '"a,b/c-%41"'])
def test_a_stored_page_is_asked_for_by_its_entity_tag_and_its_date(tag):
    assert conditions(stored(tag, MAY)) == (("If-None-Match", tag), ("If-Modified-Since", MAY))
    assert conditions(stored(tag)) == (("If-None-Match", tag),)
    assert conditions(stored("", MAY)) == (("If-Modified-Since", MAY),)
    assert conditions(stored()) == ()


@pytest.mark.parametrize(
    "tag",
    [
        "x",
        '"x',
        'x"',
        'w/"x"',
        '"a"b"',
        '"a b"',
        '"\u00e9"',
        '"a"\r\nX-Evil: 1',
        '"a\x00"',
        '"a"\n',
        "*",
        '"a", "b"',
        " ",
    ],
)
def test_a_tag_that_is_none_is_never_sent(tag):
    assert conditions(stored(tag)) == ()


@pytest.mark.parametrize(
    "date",
    [
        "yesterday",
        "0",
        "-1",
        "2024-05-01",
        "Wed, 32 May 2024 12:00:00 GMT",
        f"{MAY}\r\nX-Evil: 1",
        f"{MAY}; length=5",
    ],
)
def test_a_date_that_is_none_is_never_sent(date):
    assert conditions(stored("", date)) == ()


@given(st.text(), st.text())
def test_whatever_a_server_said_every_condition_is_one_line(etag, last_modified):
    asked = conditions(stored(etag, last_modified))
    assert len(fields(asked)) == len(asked)
    assert all(line.isprintable() and line.isascii() for line in fields(asked))
