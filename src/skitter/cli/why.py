"""`skitter why`: every decision about a URL, from what the crawl recorded.

`find` collects, `story` formats for people and `as_fields` for programs. Nothing is decided here: for a URL that was
never found, the crawl's own scope and robots code says what it would decide now.
"""

import argparse
import re
import time
from functools import partial
from typing import Any

from msgspec import Struct

from skitter import reasons, urls
from skitter.cli.reading import add_crawl, ask
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.export.source import Source
from skitter.model import Hints, HostRecord, Page, Purpose, Reason, RobotsCopy, State, UrlRecord
from skitter.reporting.format import amount, as_json, count, counted, duration, moment, printable
from skitter.reporting.records import explained_reason, host_record, page_record, robots_record, url_record
from skitter.robots import RobotsLine, product_token, rules_in_force
from skitter.scope import Scope
from skitter.seeds import without_credentials

_SCHEME = re.compile(r"\s*https?:", re.IGNORECASE)
MAX_CHAIN = 100  # parents shown; a crawl can be much deeper


class Findings(Struct, frozen=True, kw_only=True):
    """Everything known about one URL."""

    url: str
    key: str
    host: str
    record: UrlRecord | None
    chain: list[UrlRecord]  # from its parent up to the seed
    page: Page | None
    host_record: HostRecord | None
    robots: RobotsCopy | None
    robots_allow: bool | None  # None: there is no copy
    robots_line: RobotsLine | None
    scope: Reason | None  # why the scope would refuse it now; only for a URL that was never found
    unscored: dict[str, Any] | None = None  # the first failure of the user's own scorer for it

    @property
    def read_as_robots(self) -> bool:
        """Whether this is a robots.txt that was read for its rules; such a file has no URL record."""
        copy = self.robots
        return self.record is None and copy is not None and self.url == f"{copy.origin}/robots.txt"

    @property
    def known(self) -> bool:
        """Whether the crawl knows this URL."""
        return self.record is not None or self.read_as_robots


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
    found = await find(arguments.url, source)
    if arguments.json:
        print(as_json(as_fields(found)))
    else:
        print("\n".join(story(found, time.time())))
    return Exit.DONE if found.known else Exit.NO


# ------------------------------------------------------------------------------------------------ collecting


async def find(text: str, source: Source) -> Findings:
    """Look a URL up in any spelling. Without a scheme it is https, unless only http is known."""
    found = await _look_up(text, source)
    if not found.known and not _SCHEME.match(text):
        plain = await _look_up(f"http://{text.strip().removeprefix('//')}", source)
        return plain if plain.known else found
    return found


async def _look_up(text: str, source: Source) -> Findings:
    from skitter.fetch.request import user_agent  # noqa: PLC0415  `why --help` does not need the fetcher
    from skitter.links.scoring import failure_of  # noqa: PLC0415  the same

    rules, frontier = source.settings.urls, source.frontier
    url = urls.seed(text, rules)
    key = None if url is None else urls.key(url, rules)
    if url is None or key is None:
        return await _unusable(text, source)
    host = urls.host(url)
    record = await frontier.url(key, host)
    copy = await frontier.robots(urls.origin(url))
    if copy is not None and not copy.fetched_at:
        copy = None
    in_force = (
        None if copy is None else rules_in_force(copy, product_token(user_agent(source.settings.fetch)))
    )
    scope = Scope(source.settings.scope, await source.roots())
    return Findings(
        url=url if record is None else record.url,
        key=key,
        host=host,
        record=record,
        chain=[] if record is None else await _parents(record, source),
        page=await frontier.page(key, host),
        host_record=await frontier.host(host),
        robots=copy,
        robots_allow=None if in_force is None else in_force.allows(url),
        robots_line=None if in_force is None else in_force.line(url),
        scope=scope.refusal(url, 0) if record is None else None,
        unscored=failure_of(source.directory.scorer_log, key),
    )


async def _unusable(text: str, source: Source) -> Findings:
    """Text that is not a URL only has a record if it was given as a seed."""
    text = without_credentials(text)  # as it is kept
    record = await source.frontier.url(text, "")
    if record is None:
        raise UsageError(f"{text!r} is not an http or https URL; write for example https://example.org/")
    return Findings(
        url=text, key=text, host="", record=record, chain=[], page=None, host_record=None, robots=None,
        robots_allow=None, robots_line=None, scope=None,
    )  # fmt: skip


async def _parents(record: UrlRecord, source: Source) -> list[UrlRecord]:
    """The pages that led here, nearest first. Stops at a cycle, which exists if a seed was found again."""
    chain: list[UrlRecord] = []
    met = {record.key}
    while record.parent and len(chain) < MAX_CHAIN:
        key = urls.key(record.parent, source.settings.urls)
        if key is None or key in met:
            break
        met.add(key)
        parent = await source.frontier.url(key, urls.host(record.parent))
        if parent is None:
            break
        chain.append(parent)
        record = parent
    return chain


# ------------------------------------------------------------------------------------------------ formatting


def story(found: Findings, now: float) -> list[str]:
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
        lines += _record(found.record, now) + _unscored(found) + _origin(found.record, found.chain)
        lines += _hints(found.record.hints) if found.record.hints is not None else []
    if found.page is not None:
        lines += _page(found.page)
    lines += _robots(found, now)
    if found.host_record is not None:
        lines += _host(found.host_record, now)
        lines += _explained_once(found.host_record.aside, found)
    return lines


def _explained_once(aside: Reason | None, found: Findings) -> list[str]:
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
        lines.append(
            f"  its purpose is {record.purpose.value}: it counts as no page, and is not read for links"
        )
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


def _unscored(found: Findings) -> list[str]:
    failure = found.unscored
    if failure is None:
        return []
    where = f" on {failure['parent']}" if failure["parent"] else ""
    text = f"your scorer failed when it was found{where}, {moment(failure['time'])}; it got the score {failure['score']:g}"
    return [f"  {printable(text)}", f"    {printable(failure['place'])}: {printable(failure['problem'])}"]


def _origin(record: UrlRecord, chain: list[UrlRecord]) -> list[str]:
    first_seen = f", first seen {moment(record.first_seen)}" if record.first_seen else ""
    if not record.parent:
        return [f"  is a seed{first_seen}"]
    lines = [f"  was found at depth {record.depth}{first_seen}, on"]
    lines += [f"    {printable(parent.url)}" + ("" if parent.parent else " (a seed)") for parent in chain]
    if not chain:
        lines.append(f"    {printable(record.parent)}")
    return lines


def _hints(hints: Hints) -> list[str]:
    """What was said about it where it was found."""
    said = []
    if hints.lastmod is not None:
        said.append(f"last changed {moment(hints.lastmod)}")
    if hints.priority is not None:
        said.append(f"priority {hints.priority:g}")
    if hints.rel:
        said.append(f"rel={printable(' '.join(hints.rel))}")
    return [f"  where it was found, it was called: {', '.join(said)}"] if said else []


def _would(found: Findings) -> list[str]:
    if found.scope is not None:
        refused = f"  the scope would refuse it now ({found.scope.code}): {printable(found.scope.detail)}"
        return [refused, *_explained(found.scope)]
    return ["  the scope would accept it now"]


def _page(page: Page) -> list[str]:
    kind = ", ".join(word for word in (page.content_type, page.charset, amount(page.size)) if word)
    lines = [
        f"  its {'page' if page.purpose is Purpose.PAGE else 'answer'}: {printable(kind)}, {counted(page.links_count, 'link')}, title {printable(page.title)!r}"
    ]
    if page.requested_url and page.requested_url != page.url:
        lines.append(f"    was reached by redirects from {printable(page.requested_url)}")
    if page.duplicate_of:
        how = "is identical to" if page.identical else "is nearly the same as"
        lines.append(f"    {how} {printable(page.duplicate_of)}")
    if page.ignored:
        lines.append(f"    is not treated as content: {printable(page.ignored)}")
    asks = [
        word for word, said in (("noindex", page.robots.index), ("nofollow", page.robots.follow)) if not said
    ]
    if asks:
        lines.append(f"    asks for {' and '.join(asks)}")
    if page.archive is not None:
        where = page.archive
        lines.append(f"    is in {printable(where.file)} at {where.offset}, {counted(where.length, 'byte')}")
    return lines


def _robots(found: Findings, now: float) -> list[str]:
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


def _host(host: HostRecord, now: float) -> list[str]:
    free = "now" if host.free_at <= now else _relative(host.free_at, now)
    clock = f"free {free}, {duration(host.delay)} between requests"
    work = f"{count(host.queued)} waiting, {count(host.in_flight)} in flight"
    done = f"{counted(host.pages, 'page')}, {counted(host.errors, 'error')}"
    lines = [f"  its host {printable(host.host)}: {clock}, {work}, {done}"]
    if host.aside is not None:
        lines.append(f"    is set aside ({printable(host.aside.code)}): {printable(host.aside.detail)}")
    return lines


def _relative(at: float, now: float) -> str:
    away = at - now
    return f"{moment(at)} ({'in ' + duration(away) if away >= 0 else duration(-away) + ' ago'})"


# ------------------------------------------------------------------------------------------------ for programs


def as_fields(found: Findings) -> dict[str, Any]:
    """The findings as one JSON object; unknown values are null."""
    page = None
    if found.page is not None:
        page = page_record(found.page, "")
        del page["text"]
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
        "scope": explained_reason(found.scope),
        "unscored": found.unscored,
        "page": page,
        "robots": robots,
        "host_record": None if host is None else host_record(host) | {"set_aside": explained_reason(host.aside)},
    }  # fmt: skip
