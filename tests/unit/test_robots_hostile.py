"""A robots.txt is untrusted input: nothing raises, and the work stays in proportion."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.robots import RobotsRules, path_of, robots_rules
from skitter.robots.matching import MAX_WORK


def rules(*lines: str) -> RobotsRules:
    """Rules for everybody."""
    return robots_rules("\n".join(["User-agent: *", *lines]).encode(), "skitter")


@given(st.binary(max_size=400), st.text(max_size=20), st.text(max_size=60))
def test_nothing_raises_whatever_the_octets(body: bytes, agent: str, url: str) -> None:
    found = robots_rules(body, agent)
    assert found.allows(url) in {True, False}
    found.line(url)


WORDS = (
    "User-agent:* Disallow: Allow: Crawl-delay: Request-rate: Visit-time: Sitemap: "
    "/ * $ % %2 %41 # : 1 /9 0200- .. index.html é"
)
FRAGMENTS = st.sampled_from([*WORDS.split(), " ", "\n", "\r", "\0", "\x85"])


@given(st.lists(FRAGMENTS, max_size=60), st.lists(FRAGMENTS, max_size=12))
def test_nothing_raises_on_pieces_of_real_files(file: list[str], url: list[str]) -> None:
    found = robots_rules("".join(file).encode(), "skitter")
    assert found.allows("".join(url)) in {True, False}
    found.line("".join(url))
    assert found.delay is None or 0 <= found.delay <= 1e9


def test_more_wildcards_than_any_honest_file_has_are_refused_and_said_so() -> None:
    hostile = rules(*(f"Allow: /*{number}*x" for number in range(20_000)))
    assert hostile.allows("/short")
    url = "/" + "a" * (MAX_WORK // 20_000)
    assert not hostile.allows(url)
    line = hostile.line(url)
    assert line is not None
    assert line.number == 0
    assert "too many" in line.text


def stars(size: int) -> Callable[[], object]:
    found = rules("Disallow: /" + "*a" * 4000 + "*b")
    return lambda: found.allows("/" + "a" * 4000 * size)


def padded(line: str, filling: str) -> Callable[[int], Callable[[], object]]:
    return lambda size: lambda: rules(*([line + filling * 1500 * size + "x"] * 20))


GROWING: dict[str, Callable[[int], Callable[[], object]]] = {
    "stars": stars,
    "globs": lambda size: lambda: rules(*(f"Disallow: /*{n}*a*a$" for n in range(400 * size))).allows("/aaa"),
    "prefixes": lambda size: lambda: rules(*(f"Disallow: /{n}" for n in range(800 * size))).allows("/7x"),
    "nested": lambda size: lambda: rules(*(f"Disallow: /{'a' * n}" for n in range(60 * size))).allows("/ab"),
    "blank lines": lambda size: lambda: robots_rules(b"\n" * 4000 * size, "skitter"),
    "escapes": lambda size: lambda: path_of("/" + "%41%zz " * 500 * size),
    "dots": lambda size: lambda: path_of("/" + "a/../" * 1000 * size),
    "colons": lambda size: lambda: path_of(":" * 20_000 * size),
    "no colon": padded("disallow", " "),
    "rate": padded("Request-rate: 1/1", " "),
    "window": padded("Visit-time: 0200", " "),
    "delay": padded("Crawl-delay: ", "1"),
}


def effort(work: Callable[[], object]) -> float:
    """Processor time of the quickest of some runs: what others do on the machine is not counted."""
    runs = []
    for _ in range(7):
        started = time.process_time_ns()
        work()
        runs.append(time.process_time_ns() - started)
    return min(runs)


@pytest.mark.parametrize("name", GROWING)
def test_effort_grows_with_the_size_of_hostile_input_not_with_its_square(name: str) -> None:
    small, large = GROWING[name](1), GROWING[name](8)
    # Eight times the input costs 8 times as much when linear, 64 when quadratic; what is below 50 µs is noise.
    # Nested prefixes grow as a square by themselves: their file does.
    bound = 24 if name != "nested" else 24 * 8
    assert effort(large) < bound * max(effort(small), 50_000)


def test_rules_carry_no_dictionary_of_attributes() -> None:
    found = rules("Disallow: /a", "Disallow: /*b")
    assert not hasattr(found, "__dict__")
    assert not hasattr(found.index, "__dict__")
