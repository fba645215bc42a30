"""Main content of real pages: near to what people say it is, and nothing of it is lost in the Markdown."""

import random
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.extraction import cases, content, measured
from selectolax.lexbor import LexborHTMLParser

from skitter.parse.main import choosing
from skitter.parse.main.markdown import markdown
from skitter.parse.main.outline import outline
from tests.conformance.cases import FOLDER
from tests.unit.counting import in_elements, in_markdown, lost

PAGES = FOLDER / "extraction"
pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason=f"no pages at {PAGES}")


@pytest.mark.parametrize("extractor", ["trafilatura", "fast"])
def test_the_main_content_is_what_people_say_it_is(extractor):
    score = measured(lambda html, url: content(html, url, extractor).main, PAGES)
    assert score.f1 >= 0.955, score


def test_no_code_table_or_link_of_the_main_content_is_lost():
    seen = 0
    for case in cases(PAGES):
        body = LexborHTMLParser(case.html).body
        assert body is not None
        elements = outline(body)
        top = choosing.cleared(elements, choosing.by_prose(elements) or choosing.everything(elements))
        counted = in_elements(top.html or "", case.url)
        seen += counted.links.total()
        assert lost(counted, in_markdown(markdown([top], case.url))) == [], case.url
    assert seen > 800


# ------------------------------------------------------------------------------------------------ manuals

MANUALS = sorted(
    path
    for name in ("python3*-doc", "postgresql-doc-*", "git", "debian-handbook")
    for path in Path("/usr/share/doc").glob(f"{name}/html/**/*.html")
    if not path.is_symlink()
)


@pytest.mark.soak
@pytest.mark.skipif(
    len(MANUALS) < 100, reason="fewer than 100 pages of Debian's documentation packages are installed"
)
@pytest.mark.parametrize("extractor", ["trafilatura", "fast"])
def test_no_code_table_or_link_of_manuals_is_lost(extractor):
    """Pages written by many tools, with much code and many tables."""
    total = Counter[str]()
    for path in random.Random(7).sample(MANUALS, 200 if len(MANUALS) >= 200 else 100):
        html, url = path.read_text("utf-8", "replace"), f"https://manual.example{path}"
        body = LexborHTMLParser(html).body
        assert body is not None
        elements = outline(body)
        text = content(html, url, extractor).main
        choice = (
            choosing.by_text(elements, text) or choosing.by_prose(elements) or choosing.everything(elements)
        )
        top = choosing.cleared(elements, choice)
        counted = in_elements(top.html or "", url)
        assert lost(counted, in_markdown(markdown([top], url))) == [], url
        total += Counter(links=counted.links.total(), code=counted.code.total(), tables=counted.tables)
    print(extractor, dict(total))
    assert min(total.values()) > 20
