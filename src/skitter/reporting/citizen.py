"""The six MUSTs of the IETF's best practices for crawlers, and whether a crawl with these settings meets them.

They are those of draft-illyes-webbotauth-cbcp. What Skitter does whatever the settings say is proven by tests, which are named;
what depends on the operator is looked up. What is published on the web is not fetched: that is said.
"""

import ipaddress
import json
from pathlib import Path

from msgspec import Struct

from skitter.settings import Settings


class Must(Struct, frozen=True):
    """One of the six."""

    name: str
    met: bool
    proof: str
    advice: str = ""
    tests: tuple[str, ...] = ()


def citizen(settings: Settings, agent: str) -> list[Must]:
    """All six, in the order of the draft. `agent` is the user agent that is sent."""
    folder = settings.fetch.identity
    return [_rep(), _agent(agent), _gentle(settings), _caching(), _addresses(folder), _page(settings, folder)]


def _rep() -> Must:
    return Must(
        "obey the Robots Exclusion Protocol, X-Robots-Tag included",
        met=True,
        proof="robots.txt is asked first and obeyed, and no setting turns that off; meta robots and X-Robots-Tag are recorded and"
        " respected; `skitter audit DIR` proves it for a crawl",
        tests=(
            "tests/conformance/test_robots.py::test_all_of_tier_a",
            "tests/crawl/test_politeness.py::test_nothing_that_robots_txt_forbids_is_fetched_and_everything_else_is",
            "tests/crawl/test_said.py::test_copies_snippets_and_dates_are_respected",
        ),
    )


def _agent(agent: str) -> Must:
    met = "://" in agent
    return Must(
        "be identifiable by a user agent with a URL",
        met=met,
        proof=f"sends {agent}",
        advice=""
        if met
        else "name a page about your crawler: --contact https://bot.example.org/ (or fetch.contact)",
        tests=("tests/unit/test_fetch_request.py",),
    )


def _gentle(settings: Settings) -> Must:
    asked = settings.politeness
    wrong = []
    if not asked.adaptive:
        wrong.append("set politeness.adaptive = true, so that errors and slow answers lengthen the delay")
    if not asked.delay:
        wrong.append("set politeness.delay = 1s or more")
    hours = (
        f"only {asked.window}"
        if asked.window
        else "at any hour (politeness.window can keep to off-peak hours)"
    )
    return Must(
        "not interfere with the site: back off on 5xx and on rising latency",
        met=not wrong,
        proof=f"waits {asked.delay:g} s after each answer, {asked.per_host} at a time per host, adaptive: {str(asked.adaptive).lower()}, {hours}",
        advice="; ".join(wrong),
        tests=(
            "tests/crawl/test_virtual_listening.py::test_after_seven_refusals_a_host_gets_one_request_a_minute_at_most",
            "tests/crawl/test_virtual_listening.py::test_answers_that_take_ten_times_as_long_lower_the_rate_by_five_within_five_requests",
        ),
    )


def _caching() -> Must:
    return Must(
        "respect caching directives",
        met=True,
        proof="a URL is requested once in a crawl; a recrawl asks with If-None-Match and If-Modified-Since and takes 304 for an answer;"
        " robots.txt is kept for a day. Cache-Control is not read: nothing is requested again because it became stale",
        tests=("tests/crawl/test_recrawl.py::test_an_unchanged_page_is_not_sent_again_and_its_record_stays",),
    )


def _addresses(folder: str) -> Must:
    found, wrong = _ranges(folder)
    return Must(
        'publish its IP addresses as JSON, linked with rel="client-ranges"',
        met=not wrong,
        proof=found,
        advice=wrong,
        tests=("tests/crawl/test_identity.py::test_the_files_to_publish_name_each_other",),
    )


def _ranges(folder: str) -> tuple[str, str]:
    """What there is, and what is wrong with it."""
    if not folder:
        return (
            "no list is known",
            "make one with: skitter identity init, and name its folder in fetch.identity",
        )
    file = Path(folder) / "site" / "ip-ranges.json"
    try:
        prefixes = [
            each for entry in json.loads(file.read_text("utf-8"))["prefixes"] for each in entry.values()
        ]
        for prefix in prefixes:
            ipaddress.ip_network(prefix)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        return f"{file} cannot be used: {problem}", f"correct {file}"
    if not prefixes:
        return (
            f"{file} is empty",
            f'write the addresses of your crawls into {file}: {{"ipv4Prefix": "192.0.2.0/24"}}',
        )
    return f"{len(prefixes)} in {file}; whether it is published was not looked up", ""


def _page(settings: Settings, folder: str) -> Must:
    contact = settings.fetch.contact
    page = Path(folder) / "site" / "index.html" if folder else None
    here = page is not None and page.is_file()
    met = here or "://" in contact
    proof = f"{page}; whether it is published was not looked up" if here else contact or "no page is named"
    return Must(
        "have a page that says what the data is used for and how to block the crawler",
        met=met,
        proof=proof,
        advice="" if met else "make one with: skitter identity init, publish it, and name it with --contact",
        tests=("tests/crawl/test_identity.py::test_the_files_to_publish_name_each_other",),
    )
