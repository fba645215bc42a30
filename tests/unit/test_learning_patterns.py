"""URL patterns: what they are called, how their yield is judged, and that what is kept of them is bounded."""

import pytest

from skitter.dedup.simhash import news
from skitter.schedule.learning import patterns
from skitter.schedule.learning.learned import Learned
from skitter.schedule.learning.patterns import NOTHING, SOMETHING, fate, names_of, note

HOST = "https://a.example"


@pytest.mark.parametrize(
    ("url", "leaf", "families"),
    [
        ("/", "/", ()),
        ("/library/os.html", "/library/{w}.html", ()),
        ("/calendar/2031/04", "/calendar/{n}/{n}", ()),
        ("/docs/guide-3/", "/docs/guide-{n}/", ()),
        ("/news?page=22", "/news?page={n}", ("/news?*",)),
        ("/list?size=m&colour=red", "/list?colour={w}&size={w}", ("/list?*",)),
        ("/t/3?visit=0123456789abcdef", "/t/{n}?visit={x}", ("/t/{n}?*", "/**?visit={x}")),
        ("/shop/u-0123456789abcdef/item/7", "/shop/u-{x}/item/{n}", ("/shop/u-{x}/**",)),
        (
            "/r/diff/src/a/b.py?id=1",
            "/r/diff/src/a/b.py?id={n}",
            ("/r/diff/src/a/b.py?*", "/r/diff/src/**?id"),
        ),
    ],
)
def test_a_url_has_a_pattern_and_families(url, leaf, families):
    assert names_of(HOST + url) == (leaf, families)


def test_a_path_that_repeats_itself_has_one_pattern_at_any_depth():
    spiral = {names_of(f"{HOST}/docs/{'a/b/' * depth}").leaf for depth in range(2, 30)}
    assert spiral == {"/…/a/b/docs/"}
    assert (
        len(
            {
                names_of(f"{HOST}/{'/'.join(f'{chr(97 + n)}x' for n in range(depth))}/").leaf
                for depth in range(9, 26)
            }
        )
        == 1
    )


def test_a_pattern_that_brings_nothing_is_demoted_step_by_step_and_parked():
    learned, names = Learned("a.example"), names_of(f"{HOST}/calendar/2031/04")
    steps = []
    for _ in range(patterns.PARKED):
        steps.append(fate(learned, names).steps)
        note(learned, names, NOTHING)
    assert steps == [0] * 4 + [1] * 4 + [2] * 4
    assert fate(learned, names) == (-1, names.leaf)
    assert fate(learned, names_of(f"{HOST}/other/1")).steps == 0


def test_a_pattern_that_was_useful_until_it_was_not_is_parked_soon():
    learned, names = Learned("a.example"), names_of(f"{HOST}/topic/3?visit=0123456789abcdef")
    for _ in range(50):
        note(learned, names, SOMETHING)
    for _ in range(patterns.PARKED):
        note(learned, names, NOTHING)
    assert fate(learned, names).steps == -1


def test_ever_new_patterns_share_the_fate_of_their_family_and_a_useful_one_does_not():
    learned = Learned("a.example")
    useful = names_of(f"{HOST}/list?category=1")
    note(learned, useful, SOMETHING)
    for number in range(patterns.PARKED):
        note(
            learned,
            names_of(f"{HOST}/list?{'&'.join(f'f{chr(97 + n)}=x' for n in range(number + 1))}"),
            NOTHING,
        )
    assert fate(learned, names_of(f"{HOST}/list?never=seen")) == (-1, "/list?*")
    assert fate(learned, useful).steps == 0


def test_useful_samples_bring_a_parked_pattern_back():
    learned, names = Learned("a.example"), names_of(f"{HOST}/x/1")
    for _ in range(patterns.PARKED):
        note(learned, names, NOTHING)
    assert note(learned, names, SOMETHING) == [names.leaf]
    assert fate(learned, names).steps == 1
    note(learned, names, SOMETHING)
    assert fate(learned, names).steps == 0


def test_ten_million_patterns_stay_within_a_fixed_budget_and_what_is_parked_is_kept():
    learned, parked = Learned("a.example"), names_of(f"{HOST}/x/1")
    for _ in range(patterns.PARKED):
        note(learned, parked, NOTHING)
    for number in range(20_000):  # the bound does not depend on their number
        note(learned, patterns.Names(f"/{number:x}z/", ()), SOMETHING)
    assert len(learned.patterns) <= 192
    assert fate(learned, parked).steps == -1


def test_members_of_a_parked_pattern_are_tried_ever_more_rarely():
    pattern = patterns.Pattern(parked=True)
    assert [n for n in range(1, 20_000) if patterns.is_tried(pattern)] == [64, 256, 1024, 4096, 16384]


def test_what_differs_in_numbers_alone_brings_nothing_and_other_words_do():
    frame = " ".join(f"frame{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(100))
    first = news(f"Calendar 2031-04 there is nothing in this month {frame}", b"", 0)
    assert first.new == first.met > 90
    again = news(f"Calendar 2032-11 there is nothing in this month {frame}", first.sample, first.shift)
    assert again.new == 0
    other = news(f"Minutes of the council about a new bridge {frame}", first.sample, first.shift)
    assert 0 < other.new < 12


def test_the_sample_of_a_domain_is_bounded_and_still_knows_a_share_of_everything():
    sample, shift = b"", 0
    texts = [
        " ".join(f"w{n}x{chr(97 + (n * m) % 26)}{chr(97 + m % 26)}oo".translate(_LETTERS) for m in range(200))
        for n in range(300)
    ]
    for text in texts:
        told = news(text, sample, shift)
        sample, shift = told.sample, told.shift
    assert len(sample) <= 4 * 4096
    assert sum(news(text, sample, shift).new for text in texts) == 0


_LETTERS = str.maketrans("0123456789", "abcdefghij")
