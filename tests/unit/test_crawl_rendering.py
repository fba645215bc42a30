"""Which pages need a browser, what is remembered of answers, and what a page may say in a request."""

from pathlib import Path

import pytest

from skitter.crawl.rendering.answers import Answers
from skitter.crawl.rendering.learning import (
    SAMPLES,
    Amount,
    Learning,
    Pattern,
    gains,
    has_scripts,
    pattern_of,
)
from skitter.crawl.rendering.remembering import Remembering
from skitter.fetch.browser import finding
from skitter.fetch.browser.page import Given
from skitter.fetch.check import check
from skitter.fetch.request import with_fields
from skitter.model import Place, Sends
from skitter.settings import SettingsError
from skitter.settings.file import load

NOTHING = Amount(0, frozenset())
MUCH = Amount(500, frozenset(map(str, range(20))))


def test_pages_without_scripts_need_no_browser():
    assert not has_scripts(b"<!doctype html><p>text about <scripts>")
    assert has_scripts(b"<SCRIPT src=a.js></SCRIPT>")
    assert has_scripts(b"<script\n>1</script>")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.test/item/1", "https://a.test/item/22"),
        ("https://a.test/p?id=1&page=2", "https://a.test/p?page=9&id=4"),
        ("https://a.test/2024/05/the-long-title-of-a-post", "https://a.test/2023/01/another-title-of-a-post"),
    ],
)
def test_urls_that_differ_in_variable_parts_have_one_pattern(one: str, other: str):
    assert pattern_of(one, MUCH) == pattern_of(other, MUCH)
    assert pattern_of(one, MUCH) != pattern_of(one, NOTHING)  # a shell is another kind of page


def test_urls_of_other_hosts_and_sections_have_other_patterns():
    found = {
        pattern_of(url, MUCH) for url in ("https://a.test/x/1", "https://b.test/x/1", "https://a.test/y/1")
    }
    assert len(found) == 3


def test_a_gain_is_notable_text_or_new_links():
    assert gains(NOTHING, Amount(30, frozenset()))
    assert gains(NOTHING, Amount(0, frozenset({"/a"})))
    assert not gains(MUCH, MUCH)
    assert not gains(MUCH, Amount(540, MUCH.links))  # less than a fifth
    assert not gains(MUCH, Amount(500, MUCH.links | {"/banner"}))
    assert gains(MUCH, Amount(500, MUCH.links | {"/a", "/b"}))


def rendered(learning: Learning, pattern: Pattern, pages: int, *, gained: bool) -> int:
    """How many of so many pages are rendered."""
    count = 0
    for _ in range(pages):
        if learning.wants(pattern):
            learning.learn(pattern, 1, int(gained))
            count += 1
    return count


def test_a_pattern_that_gains_nothing_is_rendered_a_few_times_and_sampled_later():
    learning, pattern = Learning(), Pattern("a.test", "x/*", shell=False)
    assert rendered(learning, pattern, 99, gained=False) == SAMPLES
    assert rendered(learning, pattern, 101, gained=False) == 2
    assert rendered(learning, Pattern("a.test", "x/*", shell=True), 100, gained=True) == 100


def test_what_is_learnt_is_bounded():
    learning = Learning()
    for number in range(10_500):
        learning.wants(Pattern("a.test", str(number), shell=False))
    assert len(learning) == 10_000


def test_what_is_learnt_is_read_from_its_file_whatever_its_end(tmp_path: Path):
    file, dull, rich = tmp_path / "patterns", Pattern("a.test", "x/*", False), Pattern("a.test", "y", True)
    remembering = Remembering(file, shards=1)
    for _ in range(SAMPLES):
        remembering.learn(dull, gained=False)
        remembering.learn(rich, gained=True)
    with file.open("ab") as cut_off:
        cut_off.write(b'["a.test","x/*",fal')
    for _ in range(2):  # the second reads what the first one made of half a line
        again = Remembering(file, shards=1)
        assert not again.learning.wants(dull)
        assert again.learning.wants(rich)
    again.learn(dull, gained=False)
    assert sorted(Remembering(file, shards=1).learning.learnt()) == [
        (dull, SAMPLES + 1, 0),
        (rich, SAMPLES, SAMPLES),
    ]


def test_the_file_of_what_is_learnt_is_bounded(tmp_path: Path):
    file = tmp_path / "patterns"
    remembering = Remembering(file, shards=100)
    for number in range(5_000):
        remembering.learn(Pattern("a.test", str(number), shell=False), gained=False)
    assert len(remembering.learning) == 1_000
    assert len(file.read_bytes().splitlines()) <= 2_000
    assert len(Remembering(file, shards=100).learning) == 1_000


def test_answers_are_kept_within_bounds_and_not_against_the_will_of_their_server():
    answers = Answers(most=10_000)
    for number in range(10):
        answers.keep(f"/{number}", Given(200, (), b"x" * 2000))
    assert answers.get("/0") is None
    assert answers.get("/9") is not None
    assert len(answers) == 3
    for status, headers in ((200, [("cache-control", "private, no-store")]), (503, []), (429, [])):
        answers.keep("/never", Given(status, headers, b""))
    assert answers.get("/never") is None


def test_a_page_cannot_change_who_we_are_or_inject_a_line():
    ours = ("User-Agent: Skitter/1", "Accept: text/html", "Accept-Encoding: gzip")
    asked = (
        "Accept: application/json",
        "User-Agent: Mozilla",
        "Referer: https://a.test/",
        "X-A: b\r\nHost: evil",
    )
    lines = with_fields(ours, Sends("POST", asked, b"abc"))
    assert lines == (
        "User-Agent: Skitter/1",
        "Accept-Encoding: gzip",
        "Accept: application/json",
        "Referer: https://a.test/",
        "Content-Type: application/octet-stream",
        "Content-Length: 3",
    )


def test_what_is_behind_a_record_has_a_place():
    place = Place("a.warc.gz", 100, 50, (20, 30))
    assert place.behind(0) == Place("a.warc.gz", 150, 20)
    assert place.behind(1) == Place("a.warc.gz", 170, 30)
    assert place.behind(2) is None
    assert Place("a.warc.gz", 100, 50).behind(0) is None


def test_a_missing_browser_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    check(load(None, {}, {}))
    with pytest.raises(
        SettingsError, match=r"no-such-browser.*apt-get install chromium-headless-shell bubblewrap"
    ):
        check(load(None, {}, {"fetch.render": "auto", "fetch.browser": "no-such-browser"}))
    monkeypatch.setattr(finding, "PROGRAMS", ())
    with pytest.raises(SettingsError, match="none was found"):
        check(load(None, {}, {"site": '[{match = "a.test", fetch.render = "always"}]'}))
    with pytest.raises(SettingsError, match="never, auto or always"):
        load(None, {}, {"fetch.render": "sometimes"})
