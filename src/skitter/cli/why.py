"""`skitter why`: every decision about a URL, from what the crawl recorded.

`export.findings` collects; here it is put into words for people (`story`) and into fields for programs (`as_fields`).
"""

import argparse
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from skitter import reasons
from skitter.cli import saying
from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.events import Lost, Requested
from skitter.export.source import Source
from skitter.model import Hints, HostRecord, Page, Purpose, Reason, State, UrlRecord
from skitter.reporting.format import (
    amount,
    as_json,
    count,
    counted,
    duration,
    moment,
    printable,
    span,
    window_words,
)
from skitter.reporting.log import MAX_REQUESTS
from skitter.reporting.records import (
    explained_reason,
    host_record,
    page_record,
    robots_record,
    url_record,
    window_fields,
)
from skitter.reporting.report import pace_of
from skitter.schedule.learning.learned import Pattern
from skitter.settings.sites import Overlay
from skitter.settings.values import KEYS, written

if TYPE_CHECKING:
    from skitter.export.findings import Allowance, Findings
    from skitter.politeness.keys import Key


def parser() -> Parser:
    """The flags of `skitter why`."""
    made = Parser(
        "why",
        "Show every decision about a URL: whether it was found, in scope, allowed and fetched, and why not; what each "
        "reason means and what to do about it. Exit code 1 if the crawl has never seen it. Works while the crawl runs.",
        [
            "skitter why skitter-example.org https://example.org/about",
            "skitter why skitter-example.org https://example.org/about --json",
            "skitter why --config cluster.toml https://example.org/about",
        ],
    )
    add_crawl(made)
    made.add_argument("url", metavar="URL", help="any spelling of the URL")
    made.add_argument("--json", action="store_true", help="one JSON object")
    return made


def run(arguments: argparse.Namespace) -> Exit:
    """Print what is known about the URL."""
    return ask(arguments, partial(_tell, arguments))


async def _tell(arguments: argparse.Namespace, source: Source) -> Exit:
    from skitter.export.findings import NotAUrlError, find  # noqa: PLC0415  `why --help` does not need the fetcher

    now = time.time()
    try:
        found = await find(arguments.url, source, now)
    except NotAUrlError as problem:
        raise UsageError(str(problem)) from None
    if arguments.json:
        print(as_json(as_fields(found)))
    else:
        print("\n".join(story(found, now)))
    return Exit.DONE if found.known else Exit.NO


# ------------------------------------------------------------------------------------------------ formatting


def story(found: "Findings", now: float) -> list[str]:
    """The findings for a person."""
    lines = [printable(found.url)]
    if found.key != found.url:
        lines.append(f"  key: {printable(found.key)}")
    if found.read_as_robots:
        lines.append("  was fetched as the robots.txt of its origin, which is read before any page")
    elif found.record is None:
        lines += ["  was never found by this crawl: no page it read links to it, and no seed names it"]
        lines += _would(found)
    else:
        lines += (
            _record(found.record, now) + _score(found) + _unscored(found) + _origin(found.record, found.chain)
        )
        lines += _hints(found.record.hints) if found.record.hints is not None else []
        lines += _twice(found)
    if found.page is not None:
        lines += _page(found.page) + saying.lines(found.page, found.canonical, found.respected)
    lines += _made(found)
    lines += _overlays(found.overlays) + [f"  {printable(words)}" for words in found.carries]
    lines += _robots(found, now)
    lines += [f"  {printable(who)}: {printable(window_words(each, now))}" for who, each in found.hours]
    if found.never is not None and (found.record is None or found.record.reason != found.never):
        lines += [f"  {printable(found.never.detail)}", *_explained(found.never)]
    lines += [f"  {_key(key, now)}" for key in found.keys]
    lines += [f"  {_allowance(each)}" for each in found.budgets]
    lines += [f"  {_pattern(name, each)}" for name, each in found.patterns]
    if found.host_record is not None:
        lines += _host(found.host_record)
        lines += [f"    {found.pressed}"] if found.pressed else []
        lines += _explained_once(found.host_record.aside, found)
    return lines


def _pattern(name: str, pattern: Pattern) -> str:
    what = "its pattern" if name.startswith("/") else "hosts like its own,"
    state = ", parked" if pattern.parked else ""
    return f"{what} {printable(name)}: {count(pattern.fetched)} fetched, {count(pattern.useful)} with something new{state}"


def _explained_once(aside: Reason | None, found: "Findings") -> list[str]:
    """Why its host is set aside, unless that was shown already: URLs of such a host have the same reason."""
    told = found.scope if found.record is None else found.record.reason
    if aside is None or (told is not None and told.code == aside.code):
        return []
    return _explained(aside, "      ")


def _explained(reason: Reason | None, indent: str = "    ") -> list[str]:
    """What a code means in general; shown below the detail of this case."""
    entry = None if reason is None else reasons.explained(reason.code)
    if entry is None:
        return []
    return [f"{indent}what it means: {entry.meaning}", f"{indent}what to do: {entry.remedy}"]


_STATES = {
    State.QUEUED: "is waiting to be fetched",
    State.LEASED: "is being fetched",
    State.CRAWLED: "was fetched",
    State.FAILED: "was given up",
    State.REFUSED: "was refused",
}


def _record(record: UrlRecord, now: float) -> list[str]:
    first = f"  {_STATES[record.state]}"
    if record.reason is not None:
        first += f" ({printable(record.reason.code)})"
        if record.reason.detail:
            first += f": {printable(record.reason.detail)}"
    lines = [first, *_explained(record.reason)]
    if record.purpose is not Purpose.PAGE:
        lines.append(f"  its purpose is {record.purpose.value}: {_purpose(record)}")
    if record.last_crawl is not None:
        status = f" with status {record.status}" if record.status else ""
        times = f", for the {record.crawl_count}th time" if record.crawl_count > 3 else ""
        lines.append(f"  last answered {moment(record.last_crawl)}{status}{times}")
    if record.attempts:
        lines.append(f"  requests since its last answer: {record.attempts}")
    if record.next_crawl is not None and record.state is State.QUEUED:
        lines.append(f"  due {_relative(record.next_crawl, now)}")
    if record.crashes:
        lines.append(f"  was in flight in {counted(record.crashes, 'crash', 'crashes')} of the process")
    if record.state is State.QUEUED:
        lines.append(f"  waits at level {record.level.name.lower()} with score {record.score:g}")
    return lines


def _twice(found: "Findings") -> list[str]:
    """What was decided about it as a page and as an asset, which are two records."""
    lines = []
    if found.as_page is not None and found.as_page.reason is not None:
        why = found.as_page.reason
        lines.append(
            f"  is linked as a page too, and was refused as one ({why.code}): {printable(why.detail)}"
        )
    if found.as_asset is not None:
        needed = printable(found.as_asset.parent)
        lines.append(f"  is needed to show {needed} too: as an asset it {_STATES[found.as_asset.state]}")
    return lines


def _score(found: "Findings") -> list[str]:
    """What its score is made of, while that decides something."""
    if found.record is None or found.record.state is not State.QUEUED:
        return []
    return [f"    {number:+g}: {printable(what)}" for number, what in found.terms]


def _made(found: "Findings") -> list[str]:
    """Every request that was made for it."""
    if found.requests is None:
        return ["  requests are logged where they were made: name the directory of the worker to see them"]
    if not found.requests:
        return []
    shown = [f"    {_request(each)}" for each in found.requests]
    which = "the" if len(shown) < MAX_REQUESTS else f"the last {MAX_REQUESTS}"
    return [f"  {which} requests made for it:", *shown]


def _request(each: Requested | Lost) -> str:
    if isinstance(each, Lost):
        return f"{moment(each.leased_at)}: the process ended meanwhile; it may have been sent"
    ended = f"status {each.status}" if each.status else printable(each.fault or "no answer")
    taken = f"{amount(each.bytes)} in {span(each.end - each.start)} from {printable(each.address)}"
    return f"{moment(each.start)}: {printable(each.purpose)}, {ended}, {taken}"


def _unscored(found: "Findings") -> list[str]:
    failure = found.unscored
    if failure is None:
        return []
    where = f" on {failure['parent']}" if failure["parent"] else ""
    text = f"your scorer failed when it was found{where}, {moment(failure['time'])}; it got the score {failure['score']:g}"
    return [f"  {printable(text)}", f"    {printable(failure['place'])}: {printable(failure['problem'])}"]


def _purpose(record: UrlRecord) -> str:
    if record.purpose.handling.lists:
        return "it lists pages, and counts as none"
    if record.purpose is Purpose.ASSET and record.parent:
        page = record.parent if record.hints is None else record.hints.site or record.parent
        return f"it is needed to show {printable(page)}, counts as no page, and is not read for links"
    return "it counts as no page, and is not read for links"


def _origin(record: UrlRecord, chain: list[UrlRecord]) -> list[str]:
    first_seen = f", first seen {moment(record.first_seen)}" if record.first_seen else ""
    if not record.parent:
        return [f"  is a seed{first_seen}"]
    source = "" if record.hints is None else record.hints.source
    where = "needed by" if record.purpose is Purpose.ASSET else _FOUND.get(source, "on")
    lines = [f"  was found at depth {record.depth}{first_seen}, {where}"]
    lines += [f"    {printable(parent.url)}" + ("" if parent.parent else " (a seed)") for parent in chain]
    if not chain:
        lines.append(f"    {printable(record.parent)}")
    return lines


_FOUND = {
    "sitemap": "listed by the sitemap",
    "feed": "listed by the feed",
    "index": "named by the sitemap index",
    "robots": "named by",
    "guess": "looked for in the usual place, since no sitemap is named by",
}


def _hints(hints: Hints) -> list[str]:
    """What was said about it where it was found."""
    said = []
    if hints.lastmod is not None:
        said.append(f"last changed {moment(hints.lastmod)}")
    if hints.priority is not None:
        said.append(f"priority {hints.priority:g}")
    if hints.changefreq:
        said.append(f"changes {hints.changefreq}")
    if hints.rel:
        said.append(f"rel={printable(' '.join(hints.rel))}")
    return [f"  what was said there about it: {', '.join(said)}"] if said else []


def _would(found: "Findings") -> list[str]:
    if found.scope is not None:
        refused = f"  the scope would refuse it now ({found.scope.code}): {printable(found.scope.detail)}"
        return [refused, *_explained(found.scope)]
    return ["  the scope would accept it now"]


def _overlays(overlays: Mapping[str, Overlay]) -> list[str]:
    """The settings that its site has of its own, and where they are set."""
    shown = [
        (dotted, written(KEYS[dotted], overlay.site.values[dotted]), overlay)
        for dotted, overlay in overlays.items()
    ]
    lines = [f"    {dotted} = {printable(value)}, set by {printable(str(by))}" for dotted, value, by in shown]
    return ["  settings of its own:", *lines] if lines else []


def _page(page: Page) -> list[str]:
    kind = ", ".join(word for word in (page.content_type, page.charset, amount(page.size)) if word)
    if page.purpose.handling.lists:
        lines = [f"  its answer: {printable(kind)}, {counted(page.links_count, 'entry', 'entries')}"]
    else:
        name = "page" if page.purpose is Purpose.PAGE else "answer"
        links = counted(page.links_count, "link")
        lines = [f"  its {name}: {printable(kind)}, {links}, title {printable(page.title)!r}"]
    if page.requested_url and page.requested_url != page.url:
        lines.append(f"    was reached by redirects from {printable(page.requested_url)}")
    if page.duplicate_of:
        how = "is identical to" if page.identical else "is nearly the same as"
        lines.append(f"    {how} {printable(page.duplicate_of)}")
    if page.ignored:
        treated = "was not read to its end" if page.purpose.handling.lists else "is not treated as content"
        lines.append(f"    {treated}: {printable(page.ignored)}")
    if page.archive is not None:
        where = page.archive
        lines.append(f"    is in {printable(where.file)} at {where.offset}, {counted(where.length, 'byte')}")
    return lines


def _robots(found: "Findings", now: float) -> list[str]:
    copy = found.robots
    if copy is None:
        return ["  robots.txt of its origin: not read yet"] if found.host else []
    status = f"status {copy.status}" if copy.status else "no answer"
    lines = [
        f"  robots.txt of {printable(copy.origin)}: {status}, read {moment(copy.fetched_at)}, used until {_relative(copy.expires, now)}"
    ]
    if copy.problem:
        lines.append(
            f"    remark: {printable(copy.problem)}"
            + (f" ({counted(copy.tries, 'try', 'tries')})" if copy.tries else "")
        )
    if found.read_as_robots:
        return lines
    verdict = "allows it" if found.robots_allow else "forbids it"
    if found.robots_line is not None:
        verdict += f", line {found.robots_line.number}: {printable(found.robots_line.text)}"
    elif found.robots_allow:
        verdict += ": no line forbids it"
    else:
        verdict += ": it could not be read, so nothing is allowed (RFC 9309 2.3.1.4)"
    return [*lines, f"    {verdict}"]


def _key(key: "Key", now: float) -> str:
    """One thing that a request for it has to wait for."""
    said = []
    if key.free_at is not None:
        said.append(f"free {'now' if key.free_at <= now else _relative(key.free_at, now)}")
    if key.tokens is not None and key.free_at is not None and key.free_at <= now:
        said.append(f"{counted(key.tokens, 'request')} may start")
    if key.delay:
        said.append(f"{span(key.delay)} between requests ({key.asked_by})")
    if key.in_flight is not None:
        said.append(f"{key.in_flight} in flight at most")
    name = f" {printable(key.name)}" if key.name else ""
    return f"its {key.kind}{name}: {', '.join(said)}"


def _allowance(each: "Allowance") -> str:
    show = (
        amount if each.unit == "bytes" else duration if each.unit == "seconds" else lambda n: count(round(n))
    )
    unit = {"requests_per_day": " requests today (UTC)", "pages": " pages"}.get(each.unit, "")
    return f"budget of {printable(each.of)}: {show(each.used)} of {show(each.limit)}{unit}"


def _host(host: HostRecord) -> list[str]:
    work = f"{count(host.queued)} waiting, {count(host.in_flight)} in flight"
    done = f"{counted(host.pages, 'page')}, {counted(host.errors, 'error')}"
    lines = [f"  on {printable(host.host)}: {work}, {done}"]
    if pace := pace_of(host):
        lines.append(f"    {pace}")
    if host.aside is not None:
        lines.append(f"    is set aside ({printable(host.aside.code)}): {printable(host.aside.detail)}")
    return lines


def _relative(at: float, now: float) -> str:
    away = at - now
    return f"{moment(at)} ({'in ' + duration(away) if away >= 0 else duration(-away) + ' ago'})"


# ------------------------------------------------------------------------------------------------ for programs


def as_fields(found: "Findings") -> dict[str, Any]:
    """The findings as one JSON object; unknown values are null."""
    page = None
    if found.page is not None:
        page = page_record(found.page, "")
        del page["text"]
        named = found.canonical
        page["canonical_verdict"] = None if named is None else {"merged": named.merged, "why": named.why}
    line = found.robots_line
    robots = None
    if found.robots is not None:
        robots = robots_record(found.robots) | {
            "allowed": found.robots_allow,
            "line": None if line is None else {"number": line.number, "text": line.text},
        }
    record, host = found.record, found.host_record
    return {
        "url": found.url,
        "key": found.key,
        "host": found.host,
        "known": found.known,
        "record": None if record is None else url_record(record) | {
            "reason": explained_reason(record.reason),
            "attempts": record.attempts,
            "crashes": record.crashes,
        },
        "found_on": [parent.url for parent in found.chain] or ([record.parent] if record and record.parent else []),
        "as_page": None if found.as_page is None else url_record(found.as_page),
        "as_asset": None if found.as_asset is None else url_record(found.as_asset),
        "scope": explained_reason(found.scope),
        "overlays": {
            dotted: {"value": overlay.site.values[dotted], "site": overlay.number, "match": overlay.site.match}
            for dotted, overlay in found.overlays.items()
        },
        "carries": found.carries,
        "unscored": found.unscored,
        "budgets": [to_builtins(each) for each in found.budgets],
        "keys": [to_builtins(key) | {"rate": key.rate} for key in found.keys],
        "pressed": found.pressed or None,
        "score": [{"points": number, "for": what} for number, what in found.terms],
        "requests": None if found.requests is None else [to_builtins(each) for each in found.requests],
        "page": page,
        "robots": robots,
        "windows_never_meet": explained_reason(found.never),
        "windows": [{"of": who} | window_fields(each, time.time()) for who, each in found.hours],
        "host_record": None if host is None else host_record(host) | {"set_aside": explained_reason(host.aside)},
    }  # fmt: skip
