"""The secrets file: to which origin a secret is sent, and that nothing wrong with the file is passed over or quoted."""

import base64

import pytest

from skitter.fetch import secrets
from skitter.fetch.transfer import Target, target
from skitter.settings import SettingsError
from tests.servers import private

BASIC = f"Authorization: Basic {base64.b64encode(b'anna:pw').decode()}"


def where(url: str) -> Target:
    found = target(url)
    assert isinstance(found, Target)
    return found


def lines(tmp_path, text: str, url: str) -> tuple[str, ...]:
    return secrets.read(str(private(tmp_path / "s.toml", text))).of(where(url))[0]


@pytest.mark.parametrize(
    ("match", "url", "is_sent"),
    [
        ("a.test", "https://a.test/x", True),
        ("a.test", "http://a.test/x", False),  # in clear only if that is written
        ("http://a.test", "http://a.test/x", True),
        ("http://a.test", "https://a.test/x", False),
        ("a.test", "https://a.test:8443/x", False),  # another port is another origin
        ("a.test:8443", "https://a.test:8443/x", True),
        ("a.test", "https://b.a.test/", False),
        ("*.a.test", "https://b.a.test/", True),
        ("*.a.test", "https://evil-a.test/", False),
        ("*.a.test", "https://a.test.evil.test/", False),
        ("a.test/in/*", "https://a.test/in/x", True),
        ("a.test/in/*", "https://a.test/out", False),
        ("[2001:db8::1]", "https://[2001:db8::1]/", True),
    ],
)
def test_a_secret_is_sent_to_the_origin_that_it_names_and_nowhere_else(tmp_path, match, url, is_sent):
    text = f'[[site]]\nmatch = "{match}"\nuser = "anna"\npassword = "pw"\n'
    assert lines(tmp_path, text, url) == ((BASIC,) if is_sent else ())


def test_the_first_match_wins_for_each_kind_of_secret(tmp_path):
    text = """
[[site]]
match = "a.test/x/*"
bearer = "narrow"
[[site]]
match = "a.test"
bearer = "wide"
headers = {X-Api-Key = "k"}
"""
    assert lines(tmp_path, text, "https://a.test/x/1") == ("Authorization: Bearer narrow", "X-Api-Key: k")
    assert lines(tmp_path, text, "https://a.test/y") == ("Authorization: Bearer wide", "X-Api-Key: k")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[site]]\nbearer = "geheim"\n', "s.toml:1: site 1: match: it names no site; write"),
        ('[[site]]\nmatch = "*"\nbearer = "geheim"\n', "s.toml:2: site 1: match: * is too wide for a secret; name a host"),
        ('[[site]]\nmatch = "*.org"\nbearer = "geheim"\n', "*.org is too wide for a secret"),
        ('[[site]]\nmatch = "*.co.uk"\nbearer = "geheim"\n', "*.co.uk is too wide for a secret"),
        ('[[site]]\nmatch = "a.*"\nbearer = "geheim"\n', "a.* is too wide for a secret"),
        ('[[site]]\nmatch = "*a.test"\nbearer = "geheim"\n', "*a.test is too wide for a secret"),
        ('[[site]]\nmatch = "a.test"\n', "s.toml:1: site 1: it has no secret; write user and password, bearer,"),
        ('[[site]]\nmatch = "a.test"\nuser = "anna"\n', "site 1: password: user and password belong together"),
        ('[[site]]\nmatch = "a.test"\nbearer = "geheim"\nuser = "x"\npassword = "geheim"\n', "s.toml:3: site 1: bearer: a site has one login"),
        ('[[site]]\nmatch = "a.test"\nbearer = "geheim geheim"\n', "s.toml:3: site 1: bearer: it is not a token"),
        ('[[site]]\nmatch = "a.test"\nuser = "a:b"\npassword = "geheim"\n', "s.toml:3: site 1: user: a user name has no colon"),
        ('[[site]]\nmatch = "a.test"\npassword = "geheim\\n"\nuser = "a"\n', "s.toml:3: site 1: password: it is not a line of text"),
        ('[[site]]\nmatch = "a.test"\nheaders = {Host = "geheim"}\n', "s.toml:3: site 1: headers: Host is set by the crawler itself"),
        ('[[site]]\nmatch = "a.test"\nheaders = {X-A = "geheim\\r\\nX-B: c"}\n', "headers: the value of X-A is empty or not printable"),
        ('[[site]]\nmatch = "a.test"\npasswort = "geheim"\n', "s.toml:3: site 1: passwort: unknown key; an entry has match, user"),
        ('[[site]]\nmatch = "a.test"\ncertificate = "geheim.pem"\n', "geheim.pem: No such file or directory; name a readable file"),
        ('[[site]]\nmatch = "a.test"\nkey = "x.pem"\n', "site 1: key: a key needs its certificate"),
        ('[site]\nmatch = "a.test"\n', "write [[site]], with two brackets"),
        ('[login]\nuser = "geheim"\n', "s.toml:1: unknown section; a secrets file has [[site]] and [proxy]"),
        ('[proxy]\nuser = "geheim"\n', "s.toml: [proxy]: write user and password of the proxy, and nothing else"),
        ('[[site]]\nmatch = "a.test"\nbearer = geheim\n', "s.toml is not TOML, (at line 3, column 10)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place_and_never_quoted(tmp_path, text, expected):
    with pytest.raises(SettingsError) as caught:
        lines(tmp_path, text, "https://a.test/")
    assert expected in str(caught.value)
    assert "geheim" not in str(caught.value).replace("geheim.pem", "")


def test_a_line_break_around_a_value_is_not_sent(tmp_path):
    """As a pasted text in triple quotes has one: it would end the header block."""
    text = '[[site]]\nmatch = "a.test"\nheaders = {X-Key = """abc\r\n\n"""}\n'
    assert lines(tmp_path, text, "https://a.test/") == ("X-Key: abc",)


def test_no_text_of_a_value_shows_a_secret(tmp_path):
    file = private(
        tmp_path / "s.toml",
        '[[site]]\nmatch = "a.test"\nbearer = "geheim"\n[proxy]\nuser = "x"\npassword = "geheim"\n',
    )
    assert "geheim" not in repr(secrets.read(str(file)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("missing.toml", "No such file or directory; name a readable file"),
        (".", "is not a file; name a file"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, name, expected):
    with pytest.raises(SettingsError, match=expected):
        secrets.read(str(tmp_path / name))
