"""Strategies that give levels: importance, features, and decay since discovery."""

import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from skitter import schedule
from skitter.links import LinkJudge
from skitter.links.scope import Scope
from skitter.model import Document, Hints, Level, Link
from skitter.parse.anchors import telling
from skitter.schedule.importance import Importance, level_of
from skitter.schedule.orders import Decaying, order_of
from skitter.schedule.ranks import UNRANKED, Ranks, read_ranks
from skitter.settings import ScheduleSettings, ScopeSettings, Seconds, Settings, SettingsError
from skitter.settings.file import load
from skitter.testing.reference import MemoryRows, memory_frontier

IMPORTANCE = ScheduleSettings(strategy="importance")
FEATURES = ScheduleSettings(strategy="features", words=("Gravity",))


def importance(url, depth, lines=()):
    host = url.split("/")[2]
    return Importance(IMPORTANCE, Ranks(lines)).place(url, host, depth, "")


# ------------------------------------------------------------------------------------------------ by importance


@pytest.mark.parametrize(
    ("url", "depth", "value", "level"),
    [
        ("https://top.test/news/", 0, 1.0, Level.CRITICAL),
        ("https://top.test/", 0, 0.8, Level.HIGH),  # above 0.8 is critical, 0.8 itself is not
        ("https://top.test/about", 1, 0.7, Level.HIGH),
        ("https://new.test/2026/11/18/storm", 0, 0.64, Level.HIGH),
        ("https://new.test/", 0, 0.44, Level.NORMAL),
        ("https://new.test/a", 1, 0.34, Level.LOW),
        ("https://zero.test/a", 999_999, 0.2, Level.LOW),  # a bit above: it is new
    ],
)
def test_importance_is_the_sum_of_domain_depth_news_and_never_crawled(url, depth, value, level):
    found = importance(url, depth, [b"1,top.test\n", b"zero.test 0\n"])
    assert found == (level, pytest.approx(value, abs=1e-4))


def test_four_thresholds_make_five_levels():
    assert [level_of(value) for value in (0.81, 0.8, 0.61, 0.6, 0.41, 0.4, 0.21, 0.2, -5.0)] == [
        Level.CRITICAL, Level.HIGH, Level.HIGH, Level.NORMAL, Level.NORMAL, Level.LOW, Level.LOW,
        Level.BACKGROUND, Level.BACKGROUND,
    ]  # fmt: skip


def test_a_host_has_its_own_rank_or_that_of_its_domain():
    ranks = Ranks(
        [b"3\tshop.example.org\n", b"10,example.co.uk\n", b"1000000,last.test\n", b"half.test 0.5\n"]
    )
    assert ranks.value("www.example.co.uk") == pytest.approx(1 - 0.9 / 7, abs=1e-4)
    assert ranks.value("shop.example.org") > ranks.value("example.co.uk")
    assert ranks.value("example.org") == ranks.value("nowhere.test") == UNRANKED
    assert UNRANKED < ranks.value("last.test") < 0.25
    assert ranks.value("half.test") == pytest.approx(0.5, abs=1e-4)


RUBBISH = [
    b"rank,domain\n", b"0,zero.test\n", b"x nan\n", b"y inf\n", b"z -1\n", b"w 1.5\n", b"-1,a.test\n", b"1,2,3\n",
    b"\xff\xfe\x00\n", b"1,\n", b",a.test\n", b"a.test\n", b"1,a b\n", b"7," + b"a" * 300 + b"\n", b"1e5,a.test\n",
    b"5,<script>\n", b"\x00" * 999,
]  # fmt: skip


def test_rubbish_in_a_file_of_ranks_is_counted_and_skipped():
    ranks = Ranks([*RUBBISH, b"\n", b"# a remark\n", b"2,good.test\n"])
    assert (len(ranks), ranks.skipped, ranks.left_out) == (1, len(RUBBISH), 0)
    assert f"; {len(RUBBISH)} of its lines are neither" in str(ranks)
    assert ranks.value("good.test") > 0.9
    assert ranks.value("a.test") == UNRANKED


def test_memory_for_ranks_is_bounded(monkeypatch):
    monkeypatch.setattr("skitter.schedule.ranks._MOST", 5_000)
    lines = (b"%d,d%d.test\n" % (number, number) for number in itertools.count(1))
    ranks = Ranks(itertools.islice(lines, 12_000))
    assert (len(ranks), ranks.left_out) == (5_000, 7_000)
    assert len(ranks._words) * ranks._words.itemsize == 40_000
    assert ranks.value("d1.test") == 1 > ranks.value("d4999.test") > ranks.value("d5001.test") == UNRANKED


def test_a_line_without_an_end_is_read_in_pieces(tmp_path):
    file = tmp_path / "ranks"
    file.write_bytes(b"a" * 5_000 + b"\n1,good.test\n")
    assert (len(read_ranks(str(file))), read_ranks(str(file)).skipped) == (1, 5)


@given(some.lists(some.binary(max_size=60), max_size=20))
def test_no_file_of_ranks_gives_a_value_outside_0_to_1(lines):
    ranks = Ranks(lines)
    names = [word.decode("ascii", "replace") for line in lines for word in line.replace(b",", b" ").split()]
    assert all(0 <= ranks.value(name) <= 1 for name in names)


def test_a_file_of_ranks_that_is_not_there_is_named_before_the_start(tmp_path):
    settings = ScheduleSettings(strategy="importance", rank_file=str(tmp_path / "missing"))
    for start in (schedule.check, schedule.order):
        with pytest.raises(SettingsError, match=r"rank_file: .*missing cannot be read: No such file"):
            start(settings)


def test_the_file_is_found_beside_the_settings_that_name_it(tmp_path):
    (tmp_path / "own.toml").write_text('[schedule]\nstrategy = "importance"\nrank_file = "ranks.csv"\n')
    assert load(tmp_path / "own.toml", {}, {}).schedule.rank_file == str(tmp_path / "ranks.csv")


# ------------------------------------------------------------------------------------------------ features


def features(url, depth=1, anchor="", **weights):
    settings = ScheduleSettings(strategy="features", words=("Gravity",), **weights)
    return order_of(settings, Ranks(), lambda: 0.0).place(url, "a.test", depth, anchor)[1]


def test_each_feature_makes_a_difference():
    plain = features("http://a.test/x/y")
    assert features("http://a.test/x/y", depth=0) > plain > features("http://a.test/x/y", depth=9)
    assert features("http://a.test/y") > plain > features("http://a.test/x/y/z/0")
    assert features("http://a.test/x/y?q=1") < plain
    assert features("http://a.test/x/y.html") == plain > features("http://a.test/x/y.pdf")
    assert features("https://a.test/x/y") > plain
    assert features("http://a.test/x/gravity") > plain
    assert (
        features("http://a.test/x/y", anchor="On GRAVITY")
        > plain
        == features("http://a.test/x/y", anchor="On")
    )
    assert features("https://a.test/x/y", feature_https=-3) < plain


def test_only_texts_of_links_that_say_something_are_kept():
    body = b"<a href='a#x'>On gravity</a> <a href=b>other</a> <a href=' c '>Gravity &amp; <b>mass</b></a>"
    assert telling(body, "utf-8", ["Gravity"]) == {"a": "On gravity", "c": "Gravity & mass"}
    assert telling(body, "utf-8", ["nothing"]) is None
    assert telling(body, "no-such-charset", ["gravity"]) is None


def judge(**schedule):
    return LinkJudge(
        Settings(schedule=ScheduleSettings(**schedule), scope=ScopeSettings(kind="any")),
        Scope(ScopeSettings(kind="any")),
    )


def test_a_link_is_scored_by_the_text_of_its_anchor():
    judged = judge(strategy="features", words=("gravity",))
    page = Link(url="http://a.test/", key="http://a.test/", host="a.test")
    document = Document(base=page.url, links=["b#x", "c"], anchors={"b": "On gravity"})
    wanted, _ = judged.found(page, document)
    assert [link.score for link in wanted] == [pytest.approx(wanted[1].score + 1), wanted[1].score]


def test_links_seeds_and_listed_pages_get_levels():
    judged = judge(strategy="importance")
    seed, _ = judged.seed(Link(url="http://a.test/news/", key="k", host="a.test", seed=True))
    wanted, _ = judged.found(seed, Document(base=seed.url, links=["/deep", "/news/1"]))
    assert [link.level for link in (seed, *wanted)] == [Level.HIGH, Level.LOW, Level.NORMAL]
    given_a_score, _ = judged.seed(Link(url="http://a.test/", key="k", host="a.test", seed=True, score=7.0))
    assert given_a_score.score == 7.0


# ------------------------------------------------------------------------------------------------ decay


@given(
    some.lists(some.tuples(some.floats(0.01, 1), some.floats(0, 1e9)), min_size=2, max_size=8),
    some.floats(60, 1e8),
    some.floats(0, 1e9),
)
def test_the_order_by_static_scores_is_that_by_decayed_values_at_any_time(links, half_life, later):
    now = 1e9 + later
    scores = [math.log2(value) + found / half_life for value, found in links]
    decayed = [math.log2(value) - (now - found) / half_life for value, found in links]
    for (one, other), (first, second) in zip(
        itertools.combinations(scores, 2), itertools.combinations(decayed, 2), strict=True
    ):
        if abs(first - second) > 1e-6:
            assert (one > other) == (first > second)


def test_a_value_halves_with_each_half_life():
    clock = [1e9]
    order = order_of(
        ScheduleSettings(strategy="importance", half_life=Seconds(3600.0)), Ranks(), lambda: clock[0]
    )
    assert isinstance(order, Decaying)
    level, old = order.place("http://a.test/", "a.test", 0, "")  # 0.44
    clock[0] += 3600
    twice = ScheduleSettings(strategy="importance", half_life=Seconds(3600.0), importance_domain=2.6)  # 0.66
    value = order_of(twice, Ranks(), lambda: 1e9).place("http://a.test/", "a.test", 0, "")[1]
    new = order.place("http://a.test/", "a.test", 0, "")[1]
    assert level is Level.NORMAL
    assert new == pytest.approx(old + 1)
    assert old < value < new  # half as long ago outweighs half as much again


# ------------------------------------------------------------------------------------------------ why


@pytest.mark.parametrize("settings", [IMPORTANCE, FEATURES], ids=["importance", "features"])
@pytest.mark.parametrize("half_life", [None, 86400.0])
@pytest.mark.parametrize("anchor", ["", "gravity"])
@pytest.mark.parametrize("priority", [None, 0.9])
def test_the_terms_add_up_and_nothing_is_left_unexplained(settings, half_life, anchor, priority, tmp_path):
    file = tmp_path / "ranks"
    file.write_text("5,a.test\n")
    settings = replace(
        settings, rank_file=str(file), half_life=None if half_life is None else Seconds(half_life)
    )
    url = "https://a.test/news/page?x=1"
    hints = None if priority is None else Hints(priority=priority)
    score = schedule.order(settings).place(url, "a.test", 2, anchor)[1] + schedule.by_priority(hints)
    terms = schedule.terms(settings, url, 2, score, hints)
    assert sum(points for points, _ in terms) == pytest.approx(score)
    assert not any("other settings" in what for _, what in terms)
    said = " ".join(what for _, what in terms)
    expected = ["its depth, 2"] + (["its domain, 0.91"] if settings.strategy == "importance" else ["https"])
    assert all(word in said for word in expected)


def test_a_link_that_is_found_again_does_not_become_new_again():
    asyncio.run(_found_again())


async def _found_again():
    settings = Settings(schedule=ScheduleSettings(strategy="importance", half_life=Seconds(60.0)))
    frontier = memory_frontier(MemoryRows(), settings)
    await frontier.open(1_000.0)
    for found in (1_000.0, 7_000.0):  # a hundred half-lives later
        link = Link(url="http://a.test/", key="k", host="a.test", score=math.log2(0.44) + found / 60)
        await frontier.add([link], (), found)
    record = await frontier.url("k", "a.test")
    assert record is not None
    assert record.score == pytest.approx(math.log2(0.44) + 1_000 / 60)
