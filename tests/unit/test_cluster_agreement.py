"""Which settings all workers share, and what becomes of one that was told others."""

import pytest
from msgspec.structs import replace

from skitter.cluster.agreement import agreed, changed, decides, shared, unusual
from skitter.settings import Seconds, Settings, SettingsError
from skitter.settings.changes import values
from skitter.settings.file import from_toml
from skitter.settings.values import KEYS

FULL = Settings(
    politeness=replace(Settings().politeness, delay=Seconds(0.2)),
    crawl=replace(Settings().crawl, shards=8, max_pages=100),
    scope=replace(Settings().scope, kind="domain", exclude=(r"\.pdf$", 'with "quotes"')),
)
WORDS = shared(FULL)


def test_what_is_kept_comes_back_as_it_was():
    kept = from_toml(WORDS)
    for key, value in values(FULL).items():
        assert not decides(key) or kept.get(key, KEYS[key].default) == value
    assert agreed({}, WORDS) == FULL


@pytest.mark.parametrize(
    ("key", "whose"),
    [
        ("politeness.delay", True),
        ("robots.cache", True),
        ("fetch.contact", True),
        ("fetch.deadline", True),
        ("schedule.retries", True),
        ("dedup.near", True),
        ("urls.fold_www", True),
        ("crawl.max_pages", True),
        ("crawl.shards", True),
        ("cluster.lease", True),
        ("kafka.links_low", True),
        ("crawl.concurrency", False),
        ("crawl.min_free_disk", False),
        ("kafka.addresses", False),
        ("postgres.timeout", False),
        ("fetch.resolve", False),
        ("cluster.breaker_tests", False),
    ],
)
def test_what_treats_sites_and_pages_is_everybodys(key, whose):
    assert decides(key) is whose


def test_a_worker_keeps_its_own_and_takes_the_rest_from_the_crawl():
    settings = agreed({"crawl.concurrency": 7, "politeness.delay": Seconds(0.2)}, WORDS)
    assert settings.crawl.concurrency == 7
    assert settings.crawl.max_pages == 100
    assert settings.politeness.delay == 0.2


def test_every_setting_that_contradicts_is_named_with_both_values():
    with pytest.raises(SettingsError) as refused:
        agreed({"politeness.delay": Seconds(0.01), "crawl.max_pages": None, "scope.kind": "domain"}, WORDS)
    said = str(refused.value)
    assert "politeness.delay is 0.01s here and 0.2s in the crawl" in said
    assert "crawl.max_pages is not set here and 100 in the crawl" in said
    assert "scope.kind" not in said
    assert "skitter cluster set" in said
    followed = agreed({"politeness.delay": Seconds(0.01)}, WORDS, strict=False)
    assert followed.politeness.delay == 0.2


def test_a_user_agent_may_differ_behind_the_name_that_robots_txt_is_asked_about():
    assert agreed({"fetch.user_agent": "Skitter/9 (two)"}, WORDS).fetch.user_agent == "Skitter/9 (two)"
    with pytest.raises(SettingsError, match=r"fetch\.user_agent"):
        agreed({"fetch.user_agent": "Other/9 (+http://a.example/)"}, WORDS)


def test_a_change_is_checked_and_told():
    words, said = changed(WORDS, {"crawl.max_pages": "200", "politeness.delay": "200ms"})
    assert said == ["crawl.max_pages = 200, was 100"]
    assert agreed({}, words).crawl.max_pages == 200
    words, said = changed(words, {"crawl.max_pages": "none"})
    assert agreed({}, words).crawl.max_pages is None
    assert said == ["crawl.max_pages = not set, was 200"]


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ({"crawl.concurrency": "7"}, "is each worker's own"),
        ({"crawl.shards": "4"}, "is fixed when a crawl is made"),
        ({"urls.fold_www": "true"}, "is fixed when a crawl is made"),
        ({"kafka.documents": "x"}, "is fixed when a crawl is made"),
        ({"politeness.delai": "1s"}, "did you mean politeness.delay"),
        ({"politeness.delay": "soon"}, "politeness.delay"),
        ({"cluster.renew": "14s"}, "cluster.renew"),
    ],
)
def test_what_cannot_be_changed_is_refused(assignment, complaint):
    with pytest.raises(SettingsError, match=complaint):
        changed(WORDS, assignment)


def test_what_is_not_the_default_is_shown():
    assert unusual(FULL)["politeness.delay"] == "0.2s"
    assert set(unusual(FULL)) == {
        "politeness.delay",
        "crawl.shards",
        "crawl.max_pages",
        "scope.kind",
        "scope.exclude",
    }
