"""Which assets are wanted, when, and what becomes of them if settings change. In virtual time."""

import pytest

from skitter.model import Purpose, State, Stop
from tests.crawl.virtual import Answer, crawl, html, moved

A, B, C = "http://a.test", "http://b.test", "http://c.test"
ALL = {"archive__assets": "all", "parse__assets": True, "scope__kind": "host"}
SAME = ALL | {"archive__assets": "same-host"}
PICTURE = Answer(body="picture", headers={"Content-Type": "image/png"})


def page(markup: str, *hrefs: str, **fields) -> Answer:
    anchors = "".join(f'<a href="{href}">x</a> ' for href in hrefs)
    return Answer(
        body=f"<!doctype html><link rel=icon href='data:,'><title>t</title>{anchors}{markup}", **fields
    )


def sheet(text: str) -> Answer:
    return Answer(body=text, headers={"Content-Type": "text/css"})


def asked(result, purpose=None) -> list[str]:
    return [
        request.url
        for request in result.log
        if request.purpose is not Purpose.ROBOTS and purpose in (None, request.purpose)
    ]


def reasons(result) -> dict[str, str]:
    return {url: record.reason.code for url, record in result.records.items() if record.reason}


# ------------------------------------------------------------------------------------------------ a page and an asset


@pytest.mark.parametrize("image_first", [True, False])
def test_a_page_that_is_named_as_an_image_is_still_crawled_as_a_page(tmp_path, image_first):
    image, anchor = page("<img src=/page>", "/other"), page("", "/page", "/other")
    first, other = (image, anchor) if image_first else (anchor, image)
    pages = {
        f"{A}/": first,
        f"{A}/other": Answer(body=other.body, takes=60.0),  # long after the first was fetched
        f"{A}/page": page("", "/deep"),
        f"{A}/deep": page(""),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, politeness__per_host=2, **ALL)
    crawled = {found.url for found in result.pages if found.purpose is Purpose.PAGE}
    assert crawled == set(pages)
    assert asked(result).count(f"{A}/page") == 2  # once as each
    assert result.counts.others == {"asset": 1}


def test_links_of_assets_are_not_followed_and_errors_need_nothing(tmp_path):
    pages = {
        f"{A}/": page(f"<iframe src={B}/frame></iframe><img src=/html.png>", "/gone"),
        f"{B}/frame": page("<img src=/framed.png>", "/never", f"{A}/never"),
        f"{B}/framed.png": PICTURE,
        f"{A}/html.png": page("<img src=/never.png>", "/never"),  # an image that is a page: not read
        f"{A}/gone": page("<img src=/never.png>", status=404),
    }
    result = crawl(tmp_path, [f"{A}/"], pages, **ALL)
    assert sorted(asked(result, Purpose.ASSET)) == [f"{A}/html.png", f"{B}/frame", f"{B}/framed.png"]
    assert sorted(asked(result, Purpose.PAGE)) == [f"{A}/", f"{A}/gone"]
    framed = {found.url: (found.title, found.text, found.links_count) for found in result.pages}
    assert framed[f"{B}/frame"] == ("t", "", 0)


def test_a_frame_that_is_crawled_as_a_page_is_fetched_once_but_twice_under_a_page_limit(tmp_path):
    pages = {
        f"{A}/": page("<iframe src=/frame></iframe>"),
        f"{A}/frame": page("<img src=/i.png>"),
        f"{A}/i.png": PICTURE,
    }
    once = crawl(tmp_path / "1", [f"{A}/"], pages, **ALL)
    assert sorted(asked(once)) == [f"{A}/", f"{A}/frame", f"{A}/i.png"]
    limited = crawl(tmp_path / "2", [f"{A}/"], pages, crawl__max_pages=1, **ALL)
    assert sorted(asked(limited)) == [f"{A}/", f"{A}/frame", f"{A}/i.png"]
    assert (limited.stop, limited.counts.pages, limited.counts.others) == (Stop.LIMIT, 1, {"asset": 2})


def test_the_same_body_is_archived_once(tmp_path):
    pages = {f"{A}/": page("<img src=/1.png><img src=/2.png>"), f"{A}/1.png": PICTURE, f"{A}/2.png": PICTURE}
    result = crawl(tmp_path, [f"{A}/"], pages, **ALL)
    assets = [found for found in result.pages if found.purpose is Purpose.ASSET]
    assert sorted((found.duplicate_of, found.identical) for found in assets) == [
        ("", False),
        (f"{A}/1.png", True),
    ]
    assert result.counts.duplicates == 0


# ------------------------------------------------------------------------------------------------ which are wanted


def test_the_scope_of_pages_does_not_hold_for_assets_but_exclude_does(tmp_path):
    deep = "/a/a/a/a/a/picture.png"  # a trap, for a page
    pages = {f"{A}/": page(f"<img src={B}/1.png><img src={deep}><img src=/no.png>", "/2"), f"{A}/2": page("")}
    limits = {"scope__max_depth": 0, "scope__exclude": ("no[.]png",), "scope__hosts": ("a.test",)}
    result = crawl(tmp_path, [f"{A}/"], pages, **ALL, **limits)
    assert sorted(asked(result)) == sorted([f"{A}/", f"{B}/1.png", f"{A}{deep}"])
    assert reasons(result)[f"{A}/no.png"] == "scope.exclude"
    assert reasons(result)[f"{A}/2"] == "scope.depth"


def test_of_the_same_host_means_that_of_the_page_also_behind_style_sheets_and_redirects(tmp_path):
    pages = {
        f"{A}/": page(f"<link rel=stylesheet href=/1.css><img src={B}/no.png><img src=/moved.png>"),
        f"{A}/1.css": sheet(f"@import url({B}/no.css); a {{ background: url(/yes.png) }}"),
        f"{A}/moved.png": moved(f"{B}/no2.png"),
        f"{A}/yes.png": PICTURE,
    }
    result = crawl(tmp_path, [f"{A}/"], pages, **SAME)
    assert sorted(asked(result)) == [f"{A}/", f"{A}/1.css", f"{A}/moved.png", f"{A}/yes.png"]
    refused = {url: code for url, code in reasons(result).items() if url.startswith(B)}
    assert refused == dict.fromkeys((f"{B}/no.png", f"{B}/no.css", f"{B}/no2.png"), "scope.assets")


def test_a_redirect_of_an_asset_is_followed_as_one(tmp_path):
    pages = {f"{A}/": page("<link rel=stylesheet href=/1.css>"), f"{A}/1.css": moved(f"{B}/2.css")}
    pages[f"{B}/2.css"] = sheet("a { background: url(/b.png) }")
    result = crawl(tmp_path, [f"{A}/"], pages, **ALL)
    assert asked(result, Purpose.ASSET) == [f"{A}/1.css", f"{B}/2.css", f"{B}/b.png"]
    assert result.records[f"{B}/b.png"].hints.site == f"{A}/"  # the page that needs it


def test_style_sheets_that_import_each_other_without_end_are_not_followed_without_end(tmp_path):
    def script(request):
        if request.url.endswith(".css"):
            number = int(request.url.rpartition("/")[2].removesuffix(".css"))
            return sheet(f"@import '{number + 1}.css';")
        return page("<link rel=stylesheet href=/0.css>") if request.url == f"{A}/" else Answer(404)

    result = crawl(tmp_path, [f"{A}/"], script, **ALL)
    assert len(asked(result, Purpose.ASSET)) == 9
    assert reasons(result) == {f"{A}/9.css": "trap.nested"}


def test_a_site_may_have_its_own_setting(tmp_path):
    pages = {f"{A}/": page(f"<link rel=stylesheet href={C}/1.css>"), f"{B}/": page("<img src=/b.png>")}
    pages |= {f"{C}/1.css": sheet("a { background: url(c.png) }"), f"{C}/c.png": PICTURE}
    own = [{"match": "a.test", "archive.assets": "all"}]
    result = crawl(tmp_path, [f"{A}/", f"{B}/"], pages, parse__assets=True, scope__kind="host", site=own)
    assert sorted(asked(result)) == [f"{A}/", f"{B}/", f"{C}/1.css", f"{C}/c.png"]


# ------------------------------------------------------------------------------------------------ order, limits, settings


def test_pages_come_before_assets_on_a_host(tmp_path):
    pictures = "".join(f"<img src=/{number}.png>" for number in range(20))
    pages = {f"{A}/": page(pictures, *(f"/p{number}" for number in range(20)))}
    pages |= {f"{A}/p{number}": html() for number in range(20)}
    result = crawl(tmp_path, [f"{A}/"], pages, **ALL)
    order = [request.purpose for request in result.log if request.purpose is not Purpose.ROBOTS]
    assert order.count(Purpose.PAGE) == 21
    last_page = max(place for place, purpose in enumerate(order) if purpose is Purpose.PAGE)
    assert order[: last_page + 1].count(Purpose.ASSET) <= 21 // 4 + 1  # no level starves: one in five
    assert order[-14:] == [Purpose.ASSET] * 14


def test_off_makes_exactly_the_requests_of_a_crawl_without(tmp_path):
    pages = {f"{A}/": page("<img src=/1.png><link rel=stylesheet href=/1.css>", "/2"), f"{A}/2": page("")}
    result = crawl(tmp_path, [f"{A}/"], pages, scope__kind="host")
    assert asked(result) == [f"{A}/", f"{A}/2"]
    assert set(result.records) == {f"{A}/", f"{A}/2"}


def test_assets_that_wait_are_dropped_when_they_are_switched_off_and_come_back(tmp_path):
    pages = {f"{A}/": page(f"<img src=/1.png><img src={B}/2.png>", "/2"), f"{A}/2": page("", takes=5.0)}
    pages |= {f"{A}/1.png": PICTURE, f"{B}/2.png": PICTURE}
    first = crawl(tmp_path, [f"{A}/"], pages, **ALL, crawl__max_bytes=200)
    waiting = {url for url, record in first.records.items() if record.state is State.QUEUED}
    assert {f"{A}/1.png", f"{B}/2.png"} <= waiting
    off = ALL | {"archive__assets": "off", "parse__assets": False}
    second = crawl(tmp_path, [], pages, **off)
    assert asked(second) == [f"{A}/2"]
    assert reasons(second) == dict.fromkeys((f"{A}/1.png", f"{B}/2.png"), "scope.assets")
    third = crawl(tmp_path, [], pages, **SAME)
    assert asked(third) == [f"{A}/1.png"]
    assert reasons(third) == {f"{B}/2.png": "scope.assets"}
    fourth = crawl(tmp_path, [], pages, **ALL)
    assert asked(fourth) == [f"{B}/2.png"]
    assert reasons(fourth) == {}


@pytest.mark.parametrize("limit", [{"crawl__max_time": "20s"}, {"crawl__max_bytes": 4_000}])
def test_other_limits_end_a_crawl_that_completes_its_pages(tmp_path, limit):
    pictures = "".join(f"<img src=/{number}.png>" for number in range(100))
    pages = {f"{A}/": page(pictures, "/2")}
    result = crawl(tmp_path, [f"{A}/"], pages, crawl__max_pages=1, crawl__sync_interval="1s", **limit, **ALL)
    assert result.stop is Stop.LIMIT
    assert 5 < len(asked(result, Purpose.ASSET)) < 90


def test_a_crawl_that_has_its_pages_completes_them_when_it_is_resumed_after_a_kill(tmp_path):
    pages = {f"{A}/": page("<img src=/1.png><img src=/2.png>", "/2"), f"{A}/2": page("")}
    first = crawl(tmp_path, [f"{A}/"], pages, crawl__max_pages=1, crawl__max_bytes=100, **ALL)
    assert asked(first) == [f"{A}/"]
    second = crawl(tmp_path, [], pages, crawl__max_pages=1, **ALL)
    assert asked(second) == [f"{A}/1.png", f"{A}/2.png"]
    assert second.stop is Stop.LIMIT
    third = crawl(tmp_path, [], pages, **ALL)
    assert (asked(third), third.stop) == ([f"{A}/2"], Stop.DONE)
