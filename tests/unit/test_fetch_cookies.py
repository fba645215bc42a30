"""Cookies of a file and cookies that hosts set: what is sent where (RFC 6265), and what is refused."""

import pytest

from skitter.fetch.cookies import Jar, read
from skitter.fetch.transfer import Target, target
from skitter.settings import SettingsError
from tests.servers import private

NOW = 1_800_000_000.0


def where(url: str) -> Target:
    found = target(url)
    assert isinstance(found, Target)
    return found


def row(*fields: str) -> str:
    return "\t".join(fields) + "\n"


FILE = (
    "# Netscape HTTP Cookie File\n\n"
    + row("www.a.test", "FALSE", "/", "FALSE", "0", "host", "1")
    + row(".a.test", "TRUE", "/deep", "FALSE", "0", "domain", "2")
    + "#HttpOnly_"
    + row("www.a.test", "FALSE", "/", "TRUE", "0", "safe", "3")
    + row("www.a.test", "FALSE", "/", "FALSE", "1700000000", "old", "4")
)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://www.a.test/", "host=1"),
        ("https://www.a.test/", "host=1; safe=3"),
        ("http://www.a.test/deep/x?y", "domain=2; host=1"),
        ("http://www.a.test/deeper", "host=1"),
        ("http://other.a.test/deep", "domain=2"),
        ("http://a.test/deep", "domain=2"),
        ("http://evila.test/deep", ""),
        ("http://a.test.evil.test/deep", ""),
    ],
)
def test_which_cookies_of_a_file_are_sent(tmp_path, url, line):
    assert Jar(read(str(private(tmp_path / "c.txt", FILE)))).line(where(url), NOW) == line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.test\tFALSE\t/\n", "c.txt:1: not a cookie; a line has seven fields with a tab between"),
        (row("a.test", "FALSE", "/", "FALSE", "soon", "n", "geheim"), "c.txt:1: no host name, or no expiry in seconds"),
        (row("a.test", "FALSE", "/", "FALSE", "--5", "n", "geheim"), "c.txt:1: no host name, or no expiry in seconds"),
        (row("a.test", "FALSE", "/", "FALSE", "\u00b2", "n", "geheim"), "c.txt:1: no host name, or no expiry in seconds"),
        (row("a.test", "FALSE", "/", "FALSE", "9" * 5000, "n", "geheim"), "c.txt:1: no host name, or no expiry in seconds"),
        (row("a.test", "FALSE", "/", "FALSE", "0", "n", "ge;heim"), "c.txt:1: not a cookie"),
        (row(".co.uk", "TRUE", "/", "FALSE", "0", "n", "geheim"), "co.uk is not one site; a cookie belongs to a host or a domain"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_cookie_is_refused_with_its_place(tmp_path, text, expected):
    with pytest.raises(SettingsError) as caught:
        read(str(private(tmp_path / "c.txt", text)))
    assert expected in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "url", "line"),
    [
        ("n=1", "http://www.a.test/x", "n=1"),
        ("n=1", "http://a.test/", ""),
        ("n=1; Path=/deep", "http://www.a.test/x", ""),
        ("n=1; Domain=a.test", "http://other.a.test/", "n=1"),
        ("n=1; Domain=.a.test", "http://a.test/", "n=1"),
        ("n=1; Domain=other.a.test", "http://other.a.test/", ""),  # not above the host
        ("n=1; Domain=test", "http://b.test/", ""),  # a public suffix
        ("n=1; Path=/" + "x" * 2000, "http://www.a.test/", "n=1"),  # too long to be kept
        ("n=1; Max-Age=10", "http://www.a.test/", "n=1"),
        ("n=1; Max-Age=0", "http://www.a.test/", ""),
        ("n=1; Max-Age=-5", "http://www.a.test/", ""),
        ("n=1; Max-Age=99999999999999999999", "http://www.a.test/", "n=1"),
        ("n=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "http://www.a.test/", ""),
        ("n=1; Secure", "https://www.a.test/", ""),  # a plain answer must not set what is secure
        ("n", "http://www.a.test/", ""),
        ("=1", "http://www.a.test/", ""),
        ("n=" + "x" * 5000, "http://www.a.test/", ""),
        ("n=\x01", "http://www.a.test/", ""),
    ],
)
def test_which_cookies_that_a_host_sets_are_sent_back(said, url, line):
    jar = Jar(())
    jar.keep(where("http://www.a.test/"), [("set-cookie", said), ("x", "y=2")], NOW)
    assert jar.line(where(url), NOW) == line


@pytest.mark.parametrize("suffix", ["github.io", "co.uk"])
def test_a_public_suffix_sets_cookies_for_itself_alone(suffix):
    """RFC 6265 5.3, 5: the sites below it belong to others."""
    jar = Jar(())
    jar.keep(where(f"http://{suffix}/"), [("set-cookie", f"n=1; Domain={suffix}")], NOW)
    assert jar.line(where(f"http://{suffix}/"), NOW) == "n=1"
    assert jar.line(where(f"http://somebody.{suffix}/"), NOW) == ""


def test_what_a_host_sets_replaces_what_was_given(tmp_path):
    jar = Jar(read(str(private(tmp_path / "c.txt", row("a.test", "FALSE", "/", "FALSE", "0", "s", "old")))))
    jar.keep(where("http://a.test/"), [("set-cookie", "s=new; Path=/")], NOW)
    assert jar.line(where("http://a.test/"), NOW) == "s=new"
    jar.keep(where("http://a.test/"), [("set-cookie", "s=; Path=/; Max-Age=0")], NOW)
    assert jar.line(where("http://a.test/"), NOW) == ""


def test_a_jar_is_bounded(monkeypatch):
    monkeypatch.setattr("skitter.fetch.cookies._MAX_HOSTS", 3)
    jar = Jar(())
    for number in range(100):
        jar.keep(where("http://a0.test/"), [("set-cookie", f"n{number}=1")], NOW)
    assert jar.line(where("http://a0.test/"), NOW).count("=") == 50
    for number in range(5):
        jar.keep(where(f"http://a{number}.test/"), [("set-cookie", "n=1")], NOW)
    assert jar.line(where("http://a0.test/"), NOW) == ""
    assert jar.line(where("http://a4.test/"), NOW) == "n=1"
