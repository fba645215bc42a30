"""Settings from a file, the environment and flags, and their error messages."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from msgspec import structs

from skitter.settings import (
    SECTIONS,
    Bytes,
    FetchSettings,
    ParseSettings,
    PolitenessSettings,
    ScopeSettings,
    Seconds,
    Settings,
    SettingsError,
    seconds,
    size,
)
from skitter.settings.file import dump, load, to_toml
from skitter.settings.rules import RANGES, RULES
from skitter.settings.values import GROUP_KEYS, KEYS, convert, show


def written(folder: Path, text: str) -> Path:
    path = folder / "crawl.toml"
    path.write_text(text, encoding="utf-8")
    return path


def complaint(
    path: Path | None, environ: dict[str, str] | None = None, overrides: dict[str, object] | None = None
) -> str:
    with pytest.raises(SettingsError) as caught:
        load(path, environ or {}, overrides or {})
    return str(caught.value)


# ---------------------------------------------------------------------------------------------- where values come from


def test_without_any_source_the_defaults_hold():
    assert load(None, {}, {}) == Settings()


def test_the_later_source_wins(tmp_path: Path):
    path = written(tmp_path, '[politeness]\ndelay = "2s"\nper_host = 2\nburst = 2\n')
    environ = {"SKITTER_POLITENESS_DELAY": "3s", "SKITTER_POLITENESS_PER_HOST": "3"}
    assert load(path, environ, {"politeness.delay": "4s"}).politeness == PolitenessSettings(
        delay=Seconds(4.0), per_host=3, burst=2
    )


@pytest.mark.parametrize(
    ("variable", "text", "dotted", "expected"),
    [
        ("SKITTER_FETCH_DEADLINE", "1.5m", "fetch.deadline", 90.0),
        ("SKITTER_FETCH_MAX_BODY", "2MiB", "fetch.max_body", 2 * 2**20),
        ("SKITTER_FETCH_CONTACT", "me@example.org", "fetch.contact", "me@example.org"),
        ("SKITTER_URLS_FOLD_WWW", "yes", "urls.fold_www", True),
        ("SKITTER_URLS_FOLD_WWW", "false", "urls.fold_www", False),
        ("SKITTER_SCHEDULE_RETRY_JITTER", "0.5", "schedule.retry_jitter", 0.5),
        ("SKITTER_CRAWL_MAX_PAGES", "10", "crawl.max_pages", 10),
        ("SKITTER_CRAWL_MAX_PAGES", "none", "crawl.max_pages", None),
        ("SKITTER_SCOPE_INCLUDE", "/docs/", "scope.include", ("/docs/",)),
        ("SKITTER_SCOPE_INCLUDE", r"""["/a,b/", '\.html$']""", "scope.include", ("/a,b/", r"\.html$")),
        ("SKITTER_SCOPE_INCLUDE", "", "scope.include", ()),
        ("SKITTER_ROBOTS_RETRY_AFTER", '["1m", 600]', "robots.retry_after", (60.0, 600.0)),
    ],
)
def test_a_variable_is_read_as_its_setting_needs_it(variable, text, dotted, expected):
    section, name = dotted.split(".")
    assert getattr(getattr(load(None, {variable: text}, {}), section), name) == expected


def test_variables_set_by_kubernetes_are_ignored():
    environ = {
        "SKITTER_SERVICE_HOST": "10.0.0.1",
        "SKITTER_SERVICE_PORT_HTTP": "80",
        "SKITTER_PORT": "tcp://10.0.0.1:80",
        "SKITTER_DASHBOARD_PORT_80_TCP_ADDR": "10.0.0.1",
        "SKITTER_CONFORMANCE": "/somewhere",
        "HOME": "/root",
    }
    assert load(None, environ, {}) == Settings()


def test_typed_overrides_are_used_unchanged():
    settings = load(None, {}, {"scope.include": ("a", "b"), "crawl.max_pages": 5, "crawl.max_time": None})
    assert (settings.scope.include, settings.crawl.max_pages, settings.crawl.max_time) == (
        ("a", "b"),
        5,
        None,
    )


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_read(tmp_path: Path):
    path = tmp_path / "crawl.toml"
    path.write_bytes(b'\xef\xbb\xbf[politeness]\r\ndelay = "2s"\r\n')
    assert load(path, {}, {}).politeness.delay == 2.0


# ---------------------------------------------------------------------------------------------- what is wrong, and where


def test_a_misspelt_key_is_named_with_its_line_and_the_right_one(tmp_path: Path):
    path = written(tmp_path, '# mine\n[fetch]\ncontact = "x"\n\n[politeness]\nper_host = 1\ndealy = "5s"\n')
    assert complaint(path) == f"{path}:7: unknown key politeness.dealy; did you mean politeness.delay?"


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("[polite]\ndelay = 1\n", 1, "unknown section [polite]; did you mean [politeness]?"),
        ("[budget]\nhost_pages = none\n", 2, 'a value that is a word stands in quotes, as in "5s" or "none"'),
        ("\n[zzz]\na = 1\n", 2, "unknown section [zzz]; sections are urls, scope"),
        ("delay = 1\n", 1, "delay stands outside a section; did you mean politeness.delay?"),
        ("politeness = 1\n", 1, "politeness is a section; write [politeness]"),
        ("[politeness]\nretries = 1\n", 2, "unknown key politeness.retries; did you mean schedule.retries?"),
        ("[politeness]\nqqqqqq = 1\n", 2, "unknown key politeness.qqqqqq; keys of [politeness] are delay, per_host"),
        ('politeness.dealy = "1s"\n', 1, "did you mean politeness.delay?"),
        ("\npoliteness = { dealy = 1 }\n", 2, "did you mean politeness.delay?"),
        ('[ politeness ]  # rude\n"dealy" = 1\n', 2, "did you mean politeness.delay?"),
        ("[fetch]\nmax_body = 1\n[parse]\n\nmax_bdy = 1\n", 5, "unknown key parse.max_bdy; did you mean"),
        ("[politeness]\ndelay = 1\nper_host = one\n", 3, "Invalid value (column 12)"),
        ("[politeness]\ndelay = [", 2, "at the end of the file"),
        ("[politeness]\ndelay = -1\n", 2, "politeness.delay: -1s is too small; write 0 or more"),
        ('[politeness]\ndelay = "-1s"\n', 2, "politeness.delay: '-1s' is not a duration; write for example 1s"),
        ("[politeness]\nadaptive_factor = -1\n", 2, "politeness.adaptive_factor: -1.0 is too small; write 0 or more"),
        ("[politeness]\nadaptive_slow = 1\n", 2, "politeness.adaptive_slow: 1.0 is too small; write 1.5 or more"),
        ('[politeness]\nadaptive_first = "0s"\n', 2, "politeness.adaptive_first: 0.0 is too small"),
        ("[politeness]\nadaptive_shrink = 1\n", 2, "politeness.adaptive_shrink: 1.0 is too large; write 0.9 or less"),
        ("[politeness]\npark_after = 0\n", 2, "politeness.park_after: 0 is too small; write 1 or more"),
        ('[politeness]\npark = ["1h", "-1h"]\n', 2, "politeness.park: '-1h' is not a duration"),
        ('[politeness]\ndelay = "soon"\n', 2, "politeness.delay: 'soon' is not a duration; write for example 1s"),
        ('[politeness]\n\nper_host = "2"\n', 3, "politeness.per_host: '2' is not a whole number; write for example 10"),
        ("[politeness]\nper_host = true\n", 2, "politeness.per_host: True is not a whole number"),
        ("[politeness]\nper_host = 0\n", 2, "politeness.per_host: 0 is too small; write 1 or more"),
        ("[politeness]\ndelay = nan\n", 2, "politeness.delay: nan is not a number"),
        ('[urls]\nfold_www = "true"\n', 2, "urls.fold_www: 'true' is neither true nor false; write true or false"),
        ("[fetch]\ncontact = 7\n", 2, "fetch.contact: 7 is not text; put it in quotes"),
        ('[scope]\ninclude = "/a/"\n', 2, "scope.include: '/a/' is not a list; write for example"),
        ('[scope]\nkind = "site"\n', 2, "scope.kind: 'site' is not one of page, prefix, host, domain or any"),
        ('[scope]\ninclude = ["("]\n', 2, "scope.include: '(' is not a regular expression: missing )"),
        ('[scope]\nskip_extensions = [".pdf"]\n', 2, "write it without a dot, as in pdf"),
        ('[scope]\nhosts = ["https://example.org/"]\n', 2, "write only a host name"),
        ('[schedule]\nstrategy = "best"\n', 2, "schedule.strategy: 'best' is not one of bfs, dfs, depth, number, importance"),
        ("[schedule]\nnumber_pattern = 'page'\n", 2, "has no group 1; put the number in parentheses"),
        ('[robots]\ncache = "2d"\n', 2, "robots.cache: 2d is too large; write 24h or less (RFC 9309 2.4"),
        ("[robots]\nmax_redirects = 4\n", 2, "write 5 or more (RFC 9309 2.3.1.2"),
        ('[fetch]\nallow_private = ["10.0.0.1/8"]\n', 2, "10.0.0.1/8 has host bits set); write for example 10.0.0.0/8"),
        ('[fetch]\nresolve = ["example.org"]\n', 2, "'example.org' is not HOST:ADDRESS"),
        ('[fetch]\nnameservers = ["dns.example.org"]\n', 2, "is not a DNS server"),
        ('[fetch]\nuser_agent = "bot\\r\\nX-Evil: 1"\n', 2, "are not allowed in a header field"),
        ('[fetch]\nuser_agent = "(none)"\n', 2, "does not begin with a product token"),
        ("[dedup]\ndistance = 4\n", 2, "dedup.distance: 4 is too large; write 3 or less"),
    ],
)  # fmt: skip
def test_every_complaint_names_the_file_the_line_and_the_way_out(tmp_path: Path, text, line, part):
    path = written(tmp_path, text)
    message = complaint(path)
    assert message.startswith(f"{path}:{line}: ")
    assert part in message


def test_a_file_that_is_not_there_is_a_settings_error(tmp_path: Path):
    assert "cannot be read (No such file or directory)" in complaint(tmp_path / "none.toml")


def test_a_file_that_is_not_text_is_a_settings_error(tmp_path: Path):
    path = tmp_path / "crawl.toml"
    path.write_bytes(b"[fetch]\ncontact = '\xff'\n")
    assert "is not UTF-8 text (byte 19)" in complaint(path)


def test_a_misspelt_variable_is_an_error():
    message = complaint(None, {"SKITTER_POLITENESS_DEALY": "5s"})
    assert message == "SKITTER_POLITENESS_DEALY: unknown key politeness.dealy; did you mean politeness.delay?"


def test_a_variable_that_is_not_utf8_is_an_error():
    assert "is not valid UTF-8 text" in complaint(None, {"SKITTER_FETCH_CONTACT": "caf\udce9"})


def test_a_bad_flag_is_named_as_it_was_written():
    with pytest.raises(SettingsError, match=r"--max-pages: crawl\.max_pages: 'many' is not a number"):
        load(None, {}, {"crawl.max_pages": "many"}, {"crawl.max_pages": "--max-pages"})
    assert complaint(None, overrides={"a.b": 1}).startswith("--set: unknown section [a]")
    assert "group is set as a whole; write group={cdn = {" in complaint(
        None, overrides={"group.cdn.pages": 1}
    )


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"schedule.retry_base": 10, "schedule.retry_max": 5}, "schedule.retry_base is longer"),
        ({"fetch.max_body": 2**30}, "raise max_in_flight"),
    ],
)
def test_settings_that_contradict_each_other_are_an_error(overrides, part):
    assert part in complaint(None, overrides=overrides)


# ---------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("250ms", 0.25),
        ("1", 1.0),
        ("1s", 1.0),
        ("1.5m", 90.0),
        ("24h", 86400.0),
        (" 2 d ", 172800.0),
        (0.5, 0.5),
    ],
)
def test_durations_carry_units(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("10MiB", 10 * 2**20), ("500kB", 500_000), ("500KB", 500_000), ("1k", 1000), ("4kiB", 4096), ("1.5 GiB", 3 * 2**29)],
)  # fmt: skip
def test_sizes_carry_units(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "-1s", "1w", "1e3", "s", "1s 2s", "nan", "inf", "9" * 400])
def test_an_invalid_duration_is_an_error(text):
    with pytest.raises(SettingsError, match="is not a duration"):
        seconds(text)


@pytest.mark.parametrize("text", ["", "-1", "10MB/s", "1PiB", "MiB", "9" * 400])
def test_an_invalid_size_is_an_error(text):
    with pytest.raises(SettingsError, match="is not a size"):
        size(text)


# ---------------------------------------------------------------------------------------------- round trip


def test_every_default_is_a_value_its_own_rules_accept():
    for key in KEYS.values():
        assert convert(key, key.default) == key.default, key.dotted


def test_rules_and_ranges_are_about_settings_that_exist():
    assert set(RULES) | set(RANGES) <= set(KEYS) | set(GROUP_KEYS)


def test_a_limit_that_was_taken_away_stays_away_when_it_is_written_down(tmp_path: Path):
    """Most limits are not set by default; the one of an address is."""
    assert Settings().politeness.per_address == 8
    without = load(None, {"SKITTER_POLITENESS_PER_ADDRESS": "none"}, {})
    assert without.politeness.per_address is None
    assert round_trip(without, tmp_path) == without
    assert to_toml({"politeness.per_address": None, "crawl.max_pages": None}) == (
        '[politeness]\nper_address = "none"\n[crawl]\n'
    )
    with pytest.raises(SettingsError, match="0 is too small"):
        load(None, {}, {"politeness.per_address": "0"})


def test_every_setting_and_its_help_is_in_the_dump():
    text = dump(Settings())
    for key in KEYS.values():
        assert f"# {key.doc}\n" in text, key.dotted
    assert all(f"[{section}]\n" in text for section in SECTIONS)


def round_trip(settings: Settings, folder: Path) -> Settings:
    return load(written(folder, dump(settings)), {}, {})


def test_the_dump_of_the_defaults_loads_back(tmp_path: Path):
    assert round_trip(Settings(), tmp_path) == Settings()


words = st.text(st.characters(exclude_categories=["Cs"]))


@effort(deadline=None)  # each case is a file
@given(words, st.lists(words))
def test_any_text_survives_the_dump(tmp_path_factory, text, several):
    settings = Settings(
        parse=ParseSettings(content_start=text),
        urls=structs.replace(Settings().urls, tracking_params=tuple(several)),
    )
    assert round_trip(settings, tmp_path_factory.getbasetemp()) == settings


@effort(deadline=None)  # each case is a file
@given(
    st.floats(0, 1e12, allow_nan=False),
    st.integers(1, 2**28),
    st.none() | st.integers(0, 10**20),
    st.booleans(),
)
def test_any_number_survives_the_dump(tmp_path_factory, delay, body, depth, flag):
    settings = Settings(
        politeness=PolitenessSettings(delay=Seconds(delay)),
        fetch=FetchSettings(max_body=Bytes(body)),
        scope=ScopeSettings(max_depth=depth, session_in_path=flag),
    )
    assert round_trip(settings, tmp_path_factory.getbasetemp()) == settings


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Seconds, 86400.0, '"24h"'),
        (Seconds, 30 * 86400.0, '"30d"'),
        (Seconds, 90.0, '"90s"'),
        (Seconds, 0.25, "0.25"),
        (Seconds, 0.0, "0.0"),
        (Bytes, 10 * 2**20, '"10MiB"'),
        (Bytes, 1000, "1000"),
        (str, 'say "hi"\\\n\x00', r'"say \"hi\"\\\n\U00000000"'),
        (tuple[str, ...], ("a", "b"), '["a", "b"]'),
    ],
)
def test_values_are_written_the_way_people_write_them(kind, value, expected):
    assert show(kind, value) == expected


@pytest.mark.parametrize("name", ["Mozilla/5.0 (X11; Linux)", "Googlebot/2.1", "mozilla"])
def test_nobody_poses_as_a_browser_or_another_crawler(name):
    with pytest.raises(SettingsError, match="must say who it is"):
        load(None, {}, {"fetch.user_agent": name})


def test_no_setting_hides_what_it_is_or_turns_robots_txt_off():
    """Of header fields, the user agent has its own setting, with rules; of robots.txt, times and limits can be set, and nothing else."""
    with pytest.raises(SettingsError, match="User-Agent is set by the crawler itself"):
        load(None, {}, {"fetch.headers": "{User-Agent = 'Mozilla/5.0'}"})
    assert {name for name in KEYS if "agent" in name} == {"fetch.user_agent", "parse.agent"}
    assert {name for name in KEYS if "robots" in name} == {
        f"robots.{name}" for name in ("cache", "jitter", "retry_after", "stale", "max_redirects", "terms")
    }


def test_the_promised_defaults_are_the_defaults():
    """Those that the page for site owners names."""
    settings = load(None, {}, {})
    polite = settings.politeness
    assert (polite.delay, polite.per_host, polite.burst, polite.per_address) == (1.0, 1, 1, 8)
    assert (polite.adaptive, polite.adaptive_factor, polite.adaptive_slow) == (True, 2.0, 3.0)
    assert (polite.adaptive_max, polite.adaptive_successes, polite.adaptive_shrink) == (300.0, 10, 0.1)
    assert (polite.park_after, polite.park) == (10, (600.0, 3600.0, 21600.0))
    assert (polite.max_crawl_delay, polite.max_retry_after) == (300.0, 86400.0)
    assert (settings.fetch.max_body, settings.schedule.retries) == (10 * 2**20, 3)
    assert (settings.robots.cache, settings.robots.stale) == (86400.0, 30 * 86400.0)
    assert settings.robots.retry_after == (60.0, 600.0, 3600.0)
