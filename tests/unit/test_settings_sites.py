"""Settings of single sites and groups: what is read, what holds for a URL, who decided, and what is refused and where."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.cluster.agreement import agreed, changed, shared, unusual
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.settings import Settings, SettingsError, SiteSettings
from skitter.settings.file import dump, from_toml, load
from skitter.settings.globs import glob, site_pattern
from skitter.settings.sites import Sites, judging_settings, sites_of

SITES = """
[politeness]
delay = "2s"

[[site]]
match = "docs.example.org/old/*"
politeness.delay = "10s"

[[site]]  # nested tables are the same
match = "*.example.org"
[site.politeness]
delay = "5s"
[site.scope]
exclude = ["/private/"]
max_depth = 3

[group.cdn]
hosts = ["*.cdn.example", "cdn.example"]
delay = "3s"
in_flight = 2
bytes = "10MiB"
"""


def loaded(folder: Path, text: str) -> Settings:
    path = folder / "my.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {}, {})


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(folder, text)
    return str(caught.value).replace(str(folder) + "/", "")


# ---------------------------------------------------------------------------------------------- what holds


@pytest.mark.parametrize(
    ("url", "delay", "exclude", "speaker"),
    [
        ("https://docs.example.org/old/x", 10, ("/private/",), "[[site]] 1 (docs.example.org/old/*)"),
        ("https://docs.example.org/new/x", 5, ("/private/",), "[[site]] 2 (*.example.org)"),
        ("http://www.example.org:8080/", 5, ("/private/",), "[[site]] 2 (*.example.org)"),
        ("https://example.org/old/x", 2, (), "None"),
        ("https://other.test/", 2, (), "None"),
    ],
)
def test_the_first_overlay_that_names_a_setting_decides_about_it(tmp_path, url, delay, exclude, speaker):
    sites = Sites(loaded(tmp_path, SITES))
    for _ in range(2):  # the second answer is remembered
        assert sites.of(url).politeness.delay == delay
        assert sites.of(url).scope.exclude == exclude
    assert str(sites.speaker(url, "politeness.delay")) == speaker


def test_without_overlays_the_settings_are_the_crawls_own():
    settings = Settings()
    assert sites_of(settings) is None
    assert Sites(settings).of("https://example.org/") is settings


def test_a_host_may_get_the_longest_delay_that_any_of_its_urls_asks_for(tmp_path):
    sites = Sites(loaded(tmp_path, SITES))
    assert sites.values_for_host("docs.example.org", "politeness.delay") == [10, 5]  # never the crawl's own
    assert sites.values_for_host("other.test", "politeness.delay") == [2]


def test_groups_are_found_by_host(tmp_path):
    sites = Sites(loaded(tmp_path, SITES))
    (group,) = sites.groups("a.cdn.example")
    assert (group.name, group.delay, group.in_flight, group.bytes, group.pages) == (
        "cdn",
        3,
        2,
        10 * 2**20,
        None,
    )
    assert sites.groups("cdn.example") == (group,)
    assert sites.groups("example.org") == ()


def test_more_sites_than_are_remembered_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("skitter.settings.sites._REMEMBERED", 3)
    sites = Sites(loaded(tmp_path, SITES))
    for number in range(20):
        assert sites.of(f"https://h{number}.example.org/").politeness.delay == 5
        assert sites.groups(f"h{number}.cdn.example")


# ---------------------------------------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("pattern", "url", "matches"),
    [
        ("example.org", "https://example.org/any?x", True),
        ("example.org", "https://www.example.org/", False),
        ("Example.ORG.", "http://example.org:81/", True),
        ("*.example.org/docs/*", "https://www.example.org/docs/a", True),
        ("*.example.org/docs/*", "https://www.example.org/docs", False),
        ("*.example.org/docs/*", "https://www.example.org/x/docs/a", False),
        ("example.org/*.pdf", "https://example.org/a/b.pdf", True),
        ("example.org/*.pdf", "https://example.org/a/b.pdf?x", False),
        ("example.org/a?b=*", "https://example.org/a?b=1", True),
        ("https://example.org", "http://example.org/", False),
        ("example.org:8080", "http://example.org/", False),
        ("example.org:443", "https://example.org/", True),
        ("bücher.example", "https://xn--bcher-kva.example/", True),
        ("[2001:db8::1]", "http://[2001:db8::1]:80/", True),
        ("*", "https://anything.test/", True),
        ("a*b*c", "https://aXbYc/", True),
        ("a*b*b", "https://ab/", False),
    ],
)
def test_what_a_pattern_matches(pattern, url, matches):
    sites = Sites(Settings(site=(SiteSettings(pattern, {"politeness.delay": 5.0}),)))
    assert (sites.of(url).politeness.delay == 5) is matches


def test_no_pattern_explodes():
    """What takes a backtracking matcher longer than the age of the universe."""
    pattern = glob("*a" * 500 + "*b")
    began = time.process_time()
    assert not pattern.matches("a" * 2000)
    assert time.process_time() - began < 5


short = st.text("ab*", max_size=6)


@given(short, short, st.text("ab", max_size=8))
def test_a_glob_that_covers_another_matches_all_it_matches(one, other, text):
    if glob(one).covers(glob(other)) and glob(other).matches(text):
        assert glob(one).matches(text)


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        ("*.example.org", "www.example.org/a/*", True),
        ("www.example.org/a/*", "*.example.org", False),
        ("example.org/*", "example.org", True),
        ("example.org", "https://example.org:8443/x", True),
        ("https://example.org", "example.org", False),
        ("example.org/a", "example.org", False),
        ("example.org/a*", "example.org/a*b", True),
    ],
)
def test_which_pattern_covers_which(one, other, covers):
    assert site_pattern(one).covers(site_pattern(other)) is covers


# ---------------------------------------------------------------------------------------------- kept


def test_overlays_and_groups_survive_crawl_toml(tmp_path):
    settings = loaded(tmp_path, SITES)
    assert loaded(tmp_path, dump(settings)) == settings
    assert len(settings.site) == 2


def test_a_limit_taken_away_for_a_site_stays_away(tmp_path):
    text = '[scope]\nmax_depth = 1\n[[site]]\nmatch = "a.test"\nscope.max_depth = "none"\n'
    settings = loaded(tmp_path, text)
    assert Sites(settings).of("http://a.test/").scope.max_depth is None
    assert loaded(tmp_path, dump(settings)) == settings


def test_a_flag_a_variable_and_python_give_the_same(tmp_path):
    text = '[{match = "*.example.org", politeness.delay = "5s"}]'
    by_flag = load(None, {}, {"site": text})
    assert by_flag == load(None, {"SKITTER_SITE": text}, {})
    assert by_flag == load(None, {}, {"site": [{"match": "*.example.org", "politeness.delay": 5}]})
    assert Sites(by_flag).of("https://www.example.org/").politeness.delay == 5
    assert load(None, {}, {"group": '{cdn = {hosts = ["*.cdn.example"]}}'}).group[0].name == "cdn"
    with pytest.raises(SettingsError, match=r"--set: site: not TOML .*; write for example"):
        load(None, {}, {"site": "[{match ="})


def test_all_workers_of_a_cluster_share_overlays_and_groups(tmp_path):
    settings = loaded(tmp_path, SITES)
    words = shared(settings)
    assert agreed({}, words).site == settings.site
    assert agreed({}, words).group == settings.group
    assert from_toml(words)["site"] == settings.site
    both = (
        'docs.example.org/old/* (politeness.delay = "10s"); '
        '*.example.org (politeness.delay = "5s", scope.exclude = ["/private/"], scope.max_depth = 3)'
    )
    assert unusual(settings)["site"] == both
    with pytest.raises(
        SettingsError, match=r"site is not set here and docs\.example\.org/old/\* .* in the crawl"
    ):
        agreed({"site": ()}, words)
    new, said = changed(words, {"site": '[{match = "a.test", politeness.delay = "9s"}]'})
    assert said == [f'site = a.test (politeness.delay = "9s"), was {both}']
    assert agreed({}, new).site == (SiteSettings("a.test", {"politeness.delay": 9.0}),)


def test_waiting_urls_are_judged_again_when_the_scope_of_a_site_changes(tmp_path):
    plain = Settings()
    slower = load(None, {}, {"site": '[{match = "a.test", politeness.delay = "9s"}]'})
    narrower = load(None, {}, {"site": '[{match = "a.test", scope.exclude = ["x"]}]'})
    elsewhere = load(None, {}, {"site": '[{match = "b.test", scope.exclude = ["x"]}]'})
    assert judging_settings(plain) == judging_settings(slower)
    assert len({judging_settings(each) for each in (plain, narrower, elsewhere)}) == 3
    assert (
        LinkJudge(narrower, Scope(narrower.scope)).judged_by != LinkJudge(plain, Scope(plain.scope)).judged_by
    )


# ---------------------------------------------------------------------------------------------- scope


def test_the_scope_of_a_site_is_its_own_within_the_same_roots(tmp_path):
    settings = loaded(tmp_path, '[scope]\nkind = "host"\n' + SITES)
    scope = Scope(settings.scope, ["https://www.example.org/"], sites=sites_of(settings))
    refusal = scope.refusal("https://www.example.org/private/x", 1)
    assert refusal is not None
    assert refusal.detail == "matches '/private/' of scope.exclude, set by [[site]] 2 (*.example.org)"
    assert scope.refusal("https://www.example.org/public", 3) is None
    assert scope.refusal("https://www.example.org/public", 4) is not None
    outside = scope.refusal("https://docs.example.org/", 1)
    assert outside is not None
    assert "[[site]]" not in outside.detail  # scope.kind is the crawl's
    scope.widen("https://docs.example.org/")
    assert scope.refusal("https://docs.example.org/", 1) is None
    assert scope.seed_refusal("https://docs.example.org/private/") is not None


# ---------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[[site]]\nmatch = "*.a.test"\npoliteness.delay = "1s"\n\n[[site]]\nmatch = "b.a.test"\npoliteness.delay = "2s"\n',
            'my.toml:7: site 2: politeness.delay: b.a.test can never have "2s": site 1 (*.a.test) matches all of that before it and says "1s"; put b.a.test first',
        ),
        (
            '[[site]]\nmatch = "a.test"\nscope.max_depth = 1\n[[site]]\nmatch = "A.test"\n[site.scope]\nmax_depth = 2\n',
            "my.toml:7: site 2: scope.max_depth: A.test can never have 2: site 1 (a.test) matches the same before it and says 1; remove one of them",
        ),
        ('[[site]]\npoliteness.delay = "1s"\n', 'my.toml:1: site 1: it names no sites; write for example match = "*.example.org"'),
        ('[[site]]\nmatch = "a b"\nscope.max_depth = 1', "my.toml:2: site 1: match: 'a b' is not a pattern of sites; write"),
        ('[[site]]\nmatch = "a.test:70000"\nscope.max_depth = 1', "my.toml:2: site 1: match: 'a.test:70000' is not"),
        ('[[site]]\nmatch = "a.test"\n', "my.toml:1: site 1: it sets nothing for a.test; write for example"),
        (
            '[[site]]\nmatch = "a.test"\npoliteness.delay = "-1s"\n',
            "my.toml:3: site 1: politeness.delay: '-1s' is not a duration",
        ),
        (
            '[[site]]\nmatch = "a.test"\npolitness.delay = "1s"\n',
            "my.toml:3: site 1: politness.delay: unknown key; did you mean politeness.delay?",
        ),
        (
            '[[site]]\nmatch = "a.test"\n[site.crawl]\nmax_pages = 5\n',
            "my.toml:4: site 1: crawl.max_pages: this setting is for the whole crawl; a site may have its own scope.include",
        ),
        ('[site]\nmatch = "a.test"\n', "my.toml:1: site 1: there may be several sites; write [[site]], with two brackets"),
        ('[group]\nhosts = ["a.test"]\n', "group hosts: a group is a table; write [group.hosts]"),
        ('[group.cdn]\ndelay = "1s"\n', 'my.toml:1: group cdn: it names no hosts; write for example hosts = ["*.cdn.example"]'),
        ('[group.cdn]\nhosts = ["a.test"]\nin_fligth = 1\n', "my.toml:3: group cdn: in_fligth: unknown key; did you mean in_flight?"),
        ('[group.cdn]\nhosts = ["a.test"]\npages = 0\n', "my.toml:3: group cdn: pages: 0 is too small; write 1 or more"),
        ('[group.cdn]\nhosts = ["http://a.test/"]\n', "my.toml:2: group cdn: hosts: 'http://a.test/' is not a host pattern"),
        ('[group."a b"]\nhosts = ["a.test"]\n', "group a b: 'a b' is not a name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place_and_what_to_write(tmp_path, text, expected):
    assert expected in complaint(tmp_path, text)


def test_the_same_value_twice_is_no_contradiction(tmp_path):
    text = '[[site]]\nmatch = "*.a.test"\nscope.max_depth = 1\n[[site]]\nmatch = "b.a.test"\nscope.max_depth = 1\npoliteness.delay = "3s"\n'
    assert Sites(loaded(tmp_path, text)).of("http://b.a.test/").politeness.delay == 3


# ---------------------------------------------------------------------------------------------- what requests carry


def test_header_fields_are_a_table_or_lines(tmp_path):
    table = loaded(tmp_path, '[fetch.headers]\nX-Project = "archive"\n')
    assert table.fetch.headers == ("X-Project: archive",)
    assert table == loaded(tmp_path, '[fetch]\nheaders = ["X-Project: archive"]\n')
    assert table.fetch == load(None, {}, {"fetch.headers": '{X-Project = "archive"}'}).fetch
    assert loaded(tmp_path, dump(table)) == table
    overlay = loaded(tmp_path, '[[site]]\nmatch = "a.test"\n[site.fetch.headers]\nX-Project = "b"\n')
    assert Sites(overlay).of("http://a.test/").fetch.headers == ("X-Project: b",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("X-Project", "'X-Project' is not NAME: VALUE; write for example X-Project: archive"),
        ("X Project: a", "'X Project' is not NAME: VALUE"),
        ("Authorization Basic geheim", "'Authorization' is not NAME: VALUE"),
        ("X-A: b\\r\\nHost: evil", "the value of X-A is empty or not printable ASCII"),
        ("X-A:", "the value of X-A is empty"),
        ("Host: evil", "Host is set by the crawler itself"),
        ("User-Agent: me", "User-Agent is set by the crawler itself; set fetch.user_agent"),
        ("If-None-Match: x", "If-None-Match is set by the crawler itself"),
        (
            "Authorization: Basic geheim",
            "Authorization looks like a secret, and settings are kept in files and records",
        ),
        ("X-Api-Key: geheim", "write it into the secrets file (fetch.secrets)"),
        ("Cookie: geheim=1", "write it into a cookie file (fetch.cookies)"),
    ],
)
def test_a_header_field_that_cannot_be_sent_or_is_a_secret_is_refused(tmp_path, line, expected):
    text = complaint(tmp_path, f'[fetch]\nheaders = ["{line}"]\n')
    assert text.startswith("my.toml:2: fetch.headers: ")
    assert expected in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    "proxy",
    [
        "proxy.test:3128",
        "ftp://a:1",
        "http://user:geheim@a:1",
        "socks5://a",
        "https://a:1",
        "http://a:0",
        "http://a:65536",
    ],
)
def test_a_proxy_is_an_address_without_a_login(tmp_path, proxy):
    text = complaint(tmp_path, f'[fetch]\nproxy = "{proxy}"\n')
    assert "is not a proxy; write http://HOST:PORT or socks5://HOST:PORT, and its login into [proxy]" in text
    assert "geheim" not in text


def test_files_are_named_relative_to_the_settings_file(tmp_path):
    text = '[fetch]\nsecrets = "s.toml"\n[[site]]\nmatch = "a.test"\nfetch.cookies = "c.txt"\n'
    settings = loaded(tmp_path, text)
    assert settings.fetch.secrets == str(tmp_path / "s.toml")
    assert settings.site[0].values["fetch.cookies"] == str(tmp_path / "c.txt")


def test_the_example_does_what_it_says():
    settings = load(Path(__file__).parents[2] / "examples" / "sites.toml", {}, {})
    sites = Sites(settings)
    for url, delay, depth, http2 in (
        ("https://www.example.org/archive/x", 30, 3, True),
        ("https://www.example.org/x", 5, None, True),
        ("https://staging.example.net:8443/", 0.2, None, False),
        ("https://staging.example.net/", 1, None, True),
    ):
        holds = sites.of(url)
        assert (holds.politeness.delay, holds.scope.max_depth, holds.fetch.http2) == (delay, depth, http2)
    assert [group.name for group in sites.groups("static.example.org")] == ["cdn"]
