"""Names of files for URLs: readable, safe everywhere, and never the same twice."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter import urls
from skitter.export.names import file_name, of_page
from skitter.model import Page
from tests.unit.crawled import page

HTML = "text/html"


@pytest.mark.parametrize(
    ("url", "media_type", "name"),
    [
        ("https://example.org/", HTML, "example.org/index.html"),
        ("https://example.org/about", HTML, "example.org/about.html"),
        ("https://example.org/a/b.html", HTML, "example.org/a/b.html"),
        ("https://example.org/a.htm", HTML, "example.org/a.htm"),
        ("https://example.org/a.php", HTML, "example.org/a.php.html"),
        ("https://example.org/v1.2/", HTML, "example.org/v1.2/index.html"),
        ("https://example.org/a.js/b", HTML, "example.org/a.js_/b.html"),
        ("https://example.org/a.js", "text/javascript", "example.org/a.js"),
        ("https://example.org:8080/x.css", "text/css", "example.org+8080/x.css"),
        ("https://example.org/data", "application/json", "example.org/data.json"),
        ("https://example.org/odd", "", "example.org/odd.bin"),
        ("https://example.org/odd.xyz", "application/x-odd", "example.org/odd.xyz"),
        ("https://example.org/caf%C3%A9", HTML, "example.org/café.html"),
    ],
)
def test_a_name_says_what_the_url_says(url, media_type, name):
    assert file_name(url, media_type)[0] == name


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/%2e%2e%2f%2e%2e%2fetc/passwd",
        "https://example.org/..%5c..%5cx",
        "https://example.org/CON",
        "https://example.org/nul.txt",
        "https://example.org/a%00b",
        "https://example.org/%E2%80%AEgpj.exe",
        "https://example.org/" + "x" * 5000,
        "https://example.org/" + "%C3%A9" * 300,
        "https://example.org/" + "a/" * 1000,
        "https://example.org/?" + "q=1&" * 500,
        "https://example.org/.%20",
    ],
)
def test_hostile_urls_have_safe_names(url):
    name, _ = file_name(url, HTML)
    parts = name.split("/")
    assert parts[0].startswith("example.org")
    assert all(parts)
    assert not {".", ".."} & set(parts)
    assert all(len(part.encode()) < 200 for part in parts)
    assert len(parts) < 40
    assert not set('\\:*?"<>|\0\u202e') & set(name)


_PATHS = st.lists(
    st.one_of(
        st.sampled_from(["a", "A", "index", "index.html", "con", "AUX.txt", "a.md", "a.html", "a.HTML", "..", "%2e%2e", "%2F", ".", "",
                         "x" * 300, "ä", "a.", "a ", "COM1", ".git", "-", "%00", "ﬁ", "%5C..%5C", "a_", "a~b"]),
        st.text(max_size=5).filter(lambda text: "/" not in text and max(text, default="a") < "\ud800"),
    ),
    max_size=5,
)  # fmt: skip
_URLS = st.tuples(_PATHS, st.sampled_from(["", "?q", "?Q", "?"])).map(
    lambda both: "/".join(both[0]) + both[1]
)


@given(st.sets(_URLS), st.sampled_from([HTML, "text/markdown", "text/css", ""]))
def test_names_are_safe_and_different_even_where_case_does_not_count(paths, media_type):
    """Unless a name is made up, and another has it by right: then the crawl is asked."""
    wanted = {(urls.whatwg(f"https://example.org/{path}") or "").partition("#")[0] for path in paths}
    named: dict[str, str] = {}
    for url in wanted:
        name, rivals = file_name(url, media_type)
        for part in name.split("/"):
            assert part
            assert not part.startswith(".")
            assert not part.endswith((".", " "))
            assert part.isprintable()
            assert not set(part) & set('<>:"/\\|?*\0')
            assert part.lower().partition(".")[0] not in {"con", "aux", "com1", "nul"}
        assert len(name.encode()) <= 200
        if not wanted & set(rivals):
            assert named.setdefault(name.lower(), url) == url
    folders = {"/".join(name.split("/")[:depth]) for name in named for depth in range(1, name.count("/") + 1)}
    assert not folders & set(named)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("https://example.org/", "index.html"),
        ("https://example.org/a", "a.html"),
        ("https://example.org/", "index"),
    ],
)
def test_a_name_that_another_page_has_by_right_is_left_to_that_one(url, right):
    def named(this: str, *stored: str) -> str:
        async def known(url: str) -> Page | None:
            return page(url) if url in stored else None

        return asyncio.run(of_page(page(this), known, HTML))

    literal = f"https://example.org/{right}"
    name = f"example.org/{right.removesuffix('.html')}.html"
    assert named(url, url) == name
    assert named(literal, url, literal) == name
    apart = named(url, url, literal)
    assert apart != name
    assert apart.startswith(f"{name.removesuffix('.html')}~")
    assert apart.endswith(".html")
