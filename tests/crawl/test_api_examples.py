"""The Python examples in the README and in the how-to run as they stand."""

import logging
import re
from functools import partial
from pathlib import Path

import pytest

import skitter
from tests.crawl.harness import HASTY
from tests.crawl.sites import small_site

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "/": b"<title>Home</title><h2>News</h2><a href=/blog/1>one</a> <a href=/blog/2>two</a> <a href=/about>about</a>",
    "/blog/1": b"<title>One</title><h2>First</h2><a href=/blog/3>three</a>",
    "/blog/2": b"<title>Two</title>",
    "/blog/3": b"<title>Three</title>",
    "/about": b"<title>About</title>",
}
EXAMPLES = [
    (name, number, code)
    for name in ("README.md", "docs/how-to.md")
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL))
]


@pytest.fixture(scope="module")
def base():
    with small_site({path: (200, "text/html", body) for path, body in PAGES.items()}) as address:
        yield address


@pytest.mark.parametrize(
    ("name", "number", "code"), EXAMPLES, ids=[f"{name}-{number}" for name, number, _ in EXAMPLES]
)
def test_the_example_runs(name, number, code, base, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # the tests' own logging stays as it is
    monkeypatch.setattr(skitter, "crawl", partial(skitter.crawl, **HASTY))
    assert "https://example.org" in code
    exec(compile(code.replace("https://example.org", base), name, "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    if "run.report.counts.pages" not in code:
        assert f"{base}/" in said
    if "def wanted" in code:
        assert f"{base}/about" not in said
        assert f"{base}/blog/3" in said


def test_both_documents_have_examples():
    assert {name for name, _, _ in EXAMPLES} == {"README.md", "docs/how-to.md"}
