"""What changed between two crawls: exact about pages and words, quiet about what changes at every visit."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from skitter.export import changes_page, diffing
from skitter.export.changes import Change, changes
from skitter.export.diffing import Piece, hunks
from skitter.parse.main.stamps import masked
from tests.unit.held import HeldCrawl

SITE = "https://example.org"


def found(old: dict[str, str | None], new: dict[str, str | None]) -> tuple[list[Change], list[str]]:
    remarks: list[str] = []

    async def collected() -> list[Change]:
        pages = HeldCrawl(old), HeldCrawl(new)
        return [change async for change in changes(*pages, remarks.append)]  # type: ignore[arg-type]

    return asyncio.run(collected()), remarks


def page(number: int, visit: int, text: str = "") -> str:
    """A page whose footer, date and counters are others at every visit."""
    body = "".join(
        f"<p>Paragraph {part} of page {number}, about subject {number * 7 % 1000}, with enough words to be one.</p>"
        for part in range(4)
    )
    return f"""<!doctype html><html lang=en><title>Page {number}</title><nav><a href=/>Home</a> {visit} new</nav>
    <article><h1>Page {number}</h1><p class=date>Last updated: 2026-11-{10 + visit:02d} 12:{number % 60:02d}</p>{body}{text}
    <div>{number * visit:,} views, {visit} comments</div><p>Posted {visit + 2} hours ago</p></article>
    <footer>Visitor number {number * 31 + visit}, generated on {visit} May 2026 in 0.{visit}23 s</footer></html>"""


def test_a_thousand_pages_are_told_exactly():
    old = {f"{SITE}/{number}": page(number, 1) for number in range(1000)}
    new = {f"{SITE}/{number}": page(number, 2) for number in range(1000)}
    for number in range(50):  # changed
        new[f"{SITE}/{number}"] = page(
            number, 2, f"<p>A sentence that was added to page {number}, later.</p>"
        )
    for number in range(100, 110):  # gone
        del new[f"{SITE}/{number}"]
    for number in range(200, 215):  # moved
        new[f"{SITE}/moved/{number}"] = new.pop(f"{SITE}/{number}")
    for number in range(2000, 2020):  # new
        new[f"{SITE}/{number}"] = page(number, 2)
    told, remarks = found(old, new)
    kinds = {
        kind: {change.url for change in told if change.kind == kind}
        for kind in ("new", "changed", "moved", "gone", "unchanged")
    }
    assert remarks == []
    assert kinds["changed"] == {f"{SITE}/{number}" for number in range(50)}
    assert kinds["gone"] == {f"{SITE}/{number}" for number in range(100, 110)}
    assert kinds["new"] == {f"{SITE}/{number}" for number in range(2000, 2020)}
    moved = {(change.old_url, change.url) for change in told if change.kind == "moved"}
    assert moved == {(f"{SITE}/{number}", f"{SITE}/moved/{number}") for number in range(200, 215)}
    assert len(kinds["unchanged"]) == 1000 - 50 - 10 - 15
    assert Counter(change.url for change in told).most_common(1)[0][1] == 1
    for change in told:
        if change.kind == "changed":
            number = change.url.rpartition("/")[2]
            words = [piece.text for hunk in change.hunks for piece in hunk if piece.sign == "+"]
            assert words == [f"A sentence that was added to page {number}, later."]
            assert not any(piece.sign == "-" for hunk in change.hunks for piece in hunk)


def test_the_same_crawl_has_no_changes_and_reads_nothing():
    lost = dict.fromkeys(f"{SITE}/{number}" for number in range(10))
    told, remarks = found(lost, lost)  # no record can be read, and none is
    assert {change.kind for change in told} == {"unchanged"}
    assert remarks == []


def test_pages_that_cannot_be_read_are_remarks_and_no_reason_to_stop():
    old, new = (
        {f"{SITE}/a": page(1, 1), f"{SITE}/b": page(2, 1)},
        {f"{SITE}/a": None, f"{SITE}/b": page(2, 2)},
    )
    told, remarks = found(old, new)
    assert [(change.kind, bool(change.note)) for change in told] == [("changed", True), ("unchanged", False)]
    assert len(remarks) == 1


def test_empty_pages_are_not_taken_for_each_other():
    told, _ = found({f"{SITE}/a": "<p>"}, {f"{SITE}/b": "<div>"})
    assert sorted(change.kind for change in told) == ["gone", "new"]


# ------------------------------------------------------------------------------------------------ what is ignored


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Last updated: 2024-05-01", "Last updated: 2026-11-18"),
        ("Updated on 1 May 2024 at 10:00", "Updated on 18 November 2026 at 23:59"),
        ("May 1, 2024", "June 17, 2025"),
        ("10:35", "11:02"),
        ("1,234 views", "99 views"),
        ("Visitors online: 7", "Visitors online: 12"),
        ("Posted 3 hours ago by Ann", "Posted a day ago by Ann"),
        ("© 2024-01-01 Example", "© 2025-01-01 Example"),
        ("a  b\tc", "a b c"),
        ("Rendered in 12 ms", "Rendered in 340 ms"),
    ],
)
def test_stamps_and_counters_are_ignored(one, other):
    assert masked(one) == masked(other)
    assert hunks(f"same\n{one}\nend", f"same\n{other}\nend") == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The price is 5 euros", "The price is 6 euros"),
        ("The meeting was moved from its old place to the first of May, which is 2024-05-01, in the big hall",
         "The meeting was moved from its old place to the first of May, which is 2024-05-02, in the big hall"),
        ("Version 1.2", "Version 1.3"),
        ("The conference begins: 12 May 2024, Berlin", "The conference begins: 13 May 2024, Berlin"),
        ("Chapter 3", "Chapter 4"),
        ("Ann was here", "Bob was here"),
    ],
)  # fmt: skip
def test_content_is_not_ignored(one, other):
    assert masked(one) != masked(other)


# ------------------------------------------------------------------------------------------------ words


def test_words_that_went_and_came_are_shown_with_a_few_around_them():
    before = " ".join(f"w{number}" for number in range(60))
    after = before.replace("w30", "changed indeed").replace("w50 ", "")
    assert hunks(before, after) == [
        (
            Piece("=", "… w22 w23 w24 w25 w26 w27 w28 w29"),
            Piece("-", "w30"),
            Piece("+", "changed indeed"),
            Piece("=", "w31 w32 w33 w34 w35 w36 w37 w38 …"),
        ),
        (
            Piece("=", "… w42 w43 w44 w45 w46 w47 w48 w49"),
            Piece("-", "w50"),
            Piece("=", "w51 w52 w53 w54 w55 w56 w57 w58 …"),
        ),
    ]


_LINES = st.lists(st.lists(st.sampled_from("abcd"), max_size=5).map(" ".join), max_size=8).map("\n".join)


@given(_LINES, _LINES)
def test_the_words_of_a_diff_add_up(old, new):
    made = hunks(old, new)
    went = Counter(
        word for hunk in made for piece in hunk if piece.sign == "-" for word in piece.text.split()
    )
    came = Counter(
        word for hunk in made for piece in hunk if piece.sign == "+" for word in piece.text.split()
    )
    before, after = Counter(old.split()), Counter(new.split())
    before.subtract(went)
    before.update(came)
    assert +before == +after
    if masked(old) == masked(new):
        assert made == []
    if made == []:  # other line breaks are no change
        assert old.split() == new.split()


def test_what_is_taken_for_content_only_now_is_no_change():
    """A small page: with one line more, its menu counts as content too."""
    assert hunks("the content", "Menu of the site\nthe content", "Menu of the site\nthe content", "") == []
    assert hunks("the content", "Updated: 2024-05-01\nthe content") == []
    assert hunks("the content", "Something new\nthe content", "Menu\nthe content", "") == [
        (Piece("+", "Something new"),)
    ]


def test_long_and_repetitive_texts_take_little_time_and_space():
    words = "a b " * 50_000
    assert len(hunks(words, words + "c")) == 1
    lines = "\n".join(str(number % 7) + " x y" for number in range(30_000))
    assert hunks(lines, lines.replace("3 x", "3 z"))


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(diffing, "find_spec", lambda _name: None)
    with pytest.raises(diffing.SettingsError, match=r"\[main\]"):
        diffing.require()


# ------------------------------------------------------------------------------------------------ as a page


def test_the_page_escapes_everything_and_runs_nothing():
    bad = "</p><script>alert(1)</script>\u202e"
    change = Change(
        kind="changed",
        url="javascript:alert(1)",
        title=bad,
        old_url=f"https://e.org/?{bad}",
        hunks=((Piece("+", bad),),),
    )
    made = changes_page.head(bad, bad, {"changed": 1}) + changes_page.article(change)
    assert "<script" not in made
    assert "\u202e" not in made
    assert 'href="javascript' not in made
    assert "default-src 'none'" in made
    assert replace(change, note="x").note in changes_page.article(replace(change, note="x"))
