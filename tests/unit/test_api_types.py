"""The package as editors and type checkers see it: `dir`, `help`, and mypy --strict on a user's program."""

import pydoc
import subprocess
import sys

import pytest

import skitter

GOOD = """
import asyncio
from pathlib import Path

import skitter


def wanted(link: skitter.PageLink) -> bool:
    return "blog" in link.url and link.text != "" and "nofollow" not in link.rel and link.page.depth < 3


def titles() -> list[str]:
    run = skitter.crawl(
        "https://example.org", directory=Path("c"), max_pages=10, scope="domain", delay="2s", max_time=60,
        include=["/a"], links=wanted, fetch_deadline="10s", dedup_near=False, crawl_max_bytes="10MiB",
    )
    found = [page.title for page in run]
    warnings: list[str] = list(run.report.warnings)
    return found + warnings


async def main() -> None:
    async with skitter.crawl("https://example.org", max_depth=None) as run:
        async for page in run:
            html: str = page.html
            text = page.css("h1")[0].text()
            print(html.upper(), text.lower(), [link.url for link in page.links], page.headers[0][1])
    print(run.report.counts.pages)


asyncio.run(main())
"""

BAD = {
    'skitter.crawl("https://example.org", max_page=3)': 'Unexpected keyword argument "max_page"',
    'skitter.crawl("https://example.org", max_pages="many")': "incompatible type",
    'skitter.crawl("https://example.org", scope="everything")': "incompatible type",
    'skitter.crawl("https://example.org", fetch_dedline=3)': "Unexpected keyword argument",
    'skitter.crawl("https://example.org", links="blog")': "incompatible type",
    "skitter.crawl(3)": "incompatible type",
    '[page.titel for page in skitter.crawl("https://example.org")]': 'no attribute "titel"',
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory):
    """What mypy says of the good program and of each bad line, by file name."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "good.py").write_text(GOOD)
    for number, line in enumerate(BAD):
        (folder / f"bad{number}.py").write_text(f"import skitter\n\n{line}\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={folder / 'cache'}", "."]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False).stdout
    return {name: [line for line in said.splitlines() if line.startswith(name)] for name in ("good.py", *(f"bad{n}.py" for n in range(len(BAD))))}, said  # fmt: skip


def test_a_program_that_is_right_passes_mypy_strict(complaints):
    by_file, said = complaints
    assert by_file["good.py"] == [], said
    assert "error" in said  # it was looked at: the bad ones are there


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_mistake_is_found_by_mypy(complaints, number):
    by_file, said = complaints
    expected = list(BAD.values())[number]
    assert any(expected in line for line in by_file[f"bad{number}.py"]), said


def test_dir_and_help_show_the_public_names():
    assert set(skitter.__all__) <= set(dir(skitter))
    shown = pydoc.render_doc(skitter, renderer=pydoc.plaintext)
    for name in skitter.__all__:
        assert name in shown
        assert getattr(skitter, name).__doc__


def test_dir_and_help_work_before_anything_was_used():
    source = "import skitter, sys; print(*dir(skitter)); assert 'numpy' not in sys.modules"
    said = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout
    assert {"crawl", "Page", "Run"} <= set(said.split())
