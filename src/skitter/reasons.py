"""Why a URL was not fetched, or not yet: every reason code, what it means and what to do about it.

The set is closed: every `Reason` takes its code from here, and tests/unit/test_reasons.py checks that in the sources.
Codes are stored on disk and appear in exports and `--json`, so a released code keeps its spelling. They are plain strings:
creating a `Reason` looks nothing up.

`skitter why`, the report and docs/reference/reasons.md show these texts. A meaning is one sentence that fits the URL and the
host alike; a remedy says so if nothing needs to be done.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skitter.model import Fault


class Entry(Struct, frozen=True):
    """One reason. In its code, NNN stands for the three digits of an HTTP status."""

    code: str
    meaning: str
    remedy: str
    group: str


def explained(code: str) -> Entry | None:
    """The entry of a code; None if this version does not know it (another version may have stored it)."""
    return TABLE.get(code) or TABLE.get(_STATUS.sub("http.NNN", code))


BY_SETTINGS = ("scope.", "budget.", "trap.", "window.")
"""How the codes begin that a setting decides, and not a server or a program: other settings may decide otherwise."""


def http(status: int) -> str:
    """The code for an answer with status 429, or 500 and above."""
    return f"http.{status}"


_STATUS = re.compile(r"\Ahttp\.\d{3}\Z", re.ASCII)
_AGAIN = "name it as a seed (skitter crawl URL -o DIR)"
_LATER = f"Nothing while it is tried again; once it is given up, {_AGAIN}"
_table: dict[str, Entry] = {}


def _group(title: str) -> Callable[[str, str, str], str]:
    """Returns a function that adds a reason under this heading and returns its code."""

    def enter(code: str, meaning: str, remedy: str) -> str:
        _table[code] = Entry(code, meaning, f"{remedy}.", title)
        return code

    return enter


# ------------------------------------------------------------------------------------------------ scope

_scope = _group("Outside the scope")

SCOPE_PAGE: Final = _scope(
    "scope.page",
    "The URL is not a seed, and only seeds are crawled.",
    "Nothing, if that is intended; otherwise crawl with a wider --scope",
)
SCOPE_SITEMAPS: Final = _scope(
    "scope.sitemaps",
    "No sitemap lists the URL, and only pages of sitemaps are crawled.",
    "Nothing, if that is intended; otherwise crawl with --sitemaps announced",
)
SCOPE_PREFIX: Final = _scope(
    "scope.prefix",
    "The URL is outside the directories of the seeds.",
    f"Nothing, if that is intended; otherwise crawl with --scope host, or {_AGAIN}",
)
SCOPE_HOST: Final = _scope(
    "scope.host",
    "The host is not the host of a seed.",
    f"Nothing, if that is intended; otherwise crawl with --scope domain or --scope any, or {_AGAIN}",
)
SCOPE_DOMAIN: Final = _scope(
    "scope.domain",
    "The host is not in the domain of a seed.",
    f"Nothing, if that is intended; otherwise crawl with --scope any, or {_AGAIN}",
)
SCOPE_HOSTS: Final = _scope(
    "scope.hosts",
    "The host matches none of the host patterns of the crawl.",
    "Nothing, if that is intended; otherwise add a pattern to scope.hosts",
)
SCOPE_INCLUDE: Final = _scope(
    "scope.include",
    "The URL matches none of the patterns in scope.include.",
    "Nothing, if that is intended; otherwise add a pattern with --include",
)
SCOPE_EXCLUDE: Final = _scope(
    "scope.exclude",
    "The URL matches a pattern that excludes it.",
    "Nothing, if that is intended; otherwise remove the pattern from scope.exclude",
)
SCOPE_DEPTH: Final = _scope(
    "scope.depth",
    "The URL is more links away from a seed than the crawl goes.",
    "Nothing, if that is intended; otherwise resume with a larger --max-depth",
)
SCOPE_EXTENSION: Final = _scope(
    "scope.extension",
    "The file extension belongs to an image, a download or another unwanted file.",
    "Nothing, if that is intended; otherwise install the extra that the reason names, or change scope.skip_extensions",
)
SCOPE_ASSETS: Final = _scope(
    "scope.assets",
    "It is needed to show a page, and such files are not wanted, or not from there.",
    "Nothing, if that is intended; otherwise resume with --assets",
)
SCOPE_WAIT: Final = _scope(
    "scope.wait",
    "The URL may be in scope because of a seed that this worker does not know yet.",
    "Nothing: it is decided as soon as the worker knows all seeds",
)
BUDGET_HOST: Final = _scope(
    "budget.host",
    "The host has got what it may get: pages, bytes or seconds.",
    "Nothing, if that is intended; otherwise resume with a larger budget, such as budget.host_pages",
)
BUDGET_DOMAIN: Final = _scope(
    "budget.domain",
    "The hosts of this domain together have got what they may get.",
    "Nothing, if that is intended; otherwise resume with a larger budget, such as budget.domain_pages",
)
BUDGET_LINKED: Final = _scope(
    "budget.linked",
    "Links from other domains allow no more pages of this domain yet.",
    "Nothing, if that is intended; otherwise resume with a larger budget.linked_first, or without it",
)
BUDGET_GROUP: Final = _scope(
    "budget.group",
    "The hosts of a group together have got what they may get.",
    "Nothing, if that is intended; otherwise resume with a larger budget for the group",
)

# ------------------------------------------------------------------------------------------------ traps

_trap = _group("Traps: URLs that look endlessly generated")

TRAP_LENGTH: Final = _trap(
    "trap.length",
    "The URL is very long.",
    "Nothing, as a rule; if the URL leads to a real page, raise scope.max_url_length",
)
TRAP_DEPTH: Final = _trap(
    "trap.depth",
    "The path has very many segments.",
    "Nothing, as a rule; if the URL leads to a real page, raise scope.max_path_segments",
)
TRAP_REPEAT: Final = _trap(
    "trap.repeat",
    "The same path segments are repeated many times.",
    "Nothing, as a rule; if the URL leads to a real page, raise scope.max_segment_repeats",
)
TRAP_QUERY: Final = _trap(
    "trap.query",
    "The query is very long, or has very many parameters.",
    "Nothing, as a rule; if the URL leads to a real page, raise scope.max_query_length or scope.max_query_params",
)
TRAP_SESSION: Final = _trap(
    "trap.session",
    "The path contains a session id, which differs for every visitor.",
    "Nothing, as a rule; to follow such links, set scope.session_in_path to false",
)
TRAP_NESTED: Final = _trap(
    "trap.nested",
    "Too many style sheets or frames, each needed by the one before, lead to it.",
    "Nothing: no browser needs that many steps to show a page",
)
TRAP_CALENDAR: Final = _trap(
    "trap.calendar",
    "The URL contains a date that is far in the past or future.",
    "Nothing, as a rule; if the URL leads to a real page, raise scope.calendar_years",
)

# ------------------------------------------------------------------------------------------------ learned

_repeat = _group("Learned while crawling")

REPEAT_PARAMETER: Final = _repeat(
    "repeat.parameter",
    "The URL differs from a known one in parameters alone that change nothing.",
    f"Nothing: one in a hundred such URLs is fetched to make sure; to have this one, {_AGAIN}, or add its path to "
    "learning.keep, or turn learning.parameters off",
)

# ------------------------------------------------------------------------------------------------ links

_link = _group("Links that are not followed")

SITEMAP_HOST: Final = _link(
    "sitemap.host",
    "Only a sitemap lists it, and that sitemap does not speak for its site.",
    f"Nothing: a robots.txt of that site would have to name the sitemap; if you want the page, {_AGAIN}",
)
SITEMAP_NESTED: Final = _link(
    "sitemap.nested",
    "Too many sitemap indexes lead to this sitemap.",
    "Nothing, unless you want its pages; then name it yourself as a sitemap to read",
)
NOFOLLOW: Final = _link(
    "nofollow",
    "All links found to the URL are marked nofollow, ugc or sponsored.",
    f"Nothing: such links are never followed; if you want the page, {_AGAIN}",
)
NOFOLLOW_PAGE: Final = _link(
    "nofollow.page",
    "The page with the link asks robots not to follow its links.",
    f"Nothing: this wish is always obeyed; if you want the page, {_AGAIN}",
)
FILTER: Final = _link(
    "filter",
    "The function that your program passed as links= refused it.",
    "Nothing, if that is intended; otherwise change the function",
)
FILTER_ERROR: Final = _link(
    "filter.error",
    "The function that your program passed as links= raised an exception.",
    "Correct the function; the detail names the exception",
)

# ------------------------------------------------------------------------------------------------ robots.txt

_rule = _group("robots.txt and waiting times")

ROBOTS: Final = _rule(
    "robots",
    "The robots.txt of the site forbids it.",
    "Nothing: robots.txt is always obeyed; if you need the page, ask the owner of the site",
)
ROBOTS_UNREACHABLE: Final = _rule(
    "robots.unreachable",
    "The robots.txt of the site could not be fetched, so nothing on it is allowed.",
    f"The detail says what went wrong; once the site can be reached from here, {_AGAIN}",
)
PARKED: Final = _rule(
    "pattern.parked",
    "URLs that look like this one brought nothing new, so it waits.",
    "Nothing, if they repeat what is known; else name its path in learning.keep, and resume",
)
ROBOTS_WAIT: Final = _rule(
    "robots.wait",
    "The robots.txt of the site could not be fetched yet, so its pages wait.",
    "Nothing: the robots.txt is requested again automatically",
)
ROBOTS_UNKNOWN: Final = _rule(
    "robots.unknown",
    "The robots.txt of the site was not read before the URL was to be fetched.",
    f"This should not happen: please report it; to try again, {_AGAIN}",
)
CRAWL_DELAY: Final = _rule(
    "crawl-delay",
    "The robots.txt of the site asks for longer pauses than the crawl allows.",
    f"Nothing, if that is intended; otherwise raise politeness.max_crawl_delay and {_AGAIN}",
)
RETRY_AFTER: Final = _rule(
    "retry-after",
    "The server asked for a longer wait than the crawl allows.",
    f"Nothing, if that is intended; otherwise raise politeness.max_retry_after and {_AGAIN}",
)
HOST_PARKED: Final = _rule(
    "host.parked",
    "The host failed many times in a row, so all its pages wait.",
    "Nothing: one request after each pause finds out whether it works again (politeness.park)",
)
HOST_FAILING: Final = _rule(
    "host.failing",
    "The host kept failing, also after long pauses, so it was given up.",
    f"The detail says how it failed last; once it works again, {_AGAIN}",
)
ADDRESS_BUSY: Final = _rule(
    "address.busy",
    "As many requests as allowed are in flight at the IP address of the host.",
    "Nothing: it is fetched in its turn; if the address is yours, raise --per-address",
)
ADDRESS_DELAY: Final = _rule(
    "address.delay",
    "The last request to the IP address of the host began a moment ago.",
    "Nothing: it is fetched in its turn; if the address is yours, lower --address-delay",
)

DOMAIN_BUSY: Final = _rule(
    "domain.busy",
    "As many requests as allowed are in flight at the hosts of the domain.",
    "Nothing: it is fetched in its turn; if the domain is yours, raise politeness.per_domain",
)
DOMAIN_DELAY: Final = _rule(
    "domain.delay",
    "The last request to a host of the domain began a moment ago.",
    "Nothing: it is fetched in its turn; if the domain is yours, lower politeness.domain_delay",
)
GROUP_BUSY: Final = _rule(
    "group.busy",
    "As many requests as allowed are in flight at the hosts of a group.",
    "Nothing: it is fetched in its turn; if the hosts are yours, raise in_flight of the group",
)
GROUP_DELAY: Final = _rule(
    "group.delay",
    "The last request to a host of the group began a moment ago.",
    "Nothing: it is fetched in its turn; if the hosts are yours, lower the delay of the group",
)
BUDGET_DAY: Final = _rule(
    "budget.day",
    "As many requests as allowed for one day (UTC) were sent.",
    "Nothing: it is fetched the next day; or resume with a larger budget, or none",
)
BUDGET_WAIT: Final = _rule(
    "budget.wait",
    "What is in flight may use up the rest of a budget.",
    "Nothing: it is decided when that has ended",
)
WINDOW: Final = _rule(
    "window",
    "It may be requested only at certain times, and now is not one of them.",
    "Nothing: it is fetched when the window opens; to change that, resume with another politeness.window",
)
WINDOW_NEVER: Final = _rule(
    "window.never",
    "The windows that it has to keep to are never open at the same time.",
    "Resume with another window; a Visit-time is what the robots.txt of the site asks for",
)
VISIT_TIME: Final = _rule(
    "visit-time",
    "The robots.txt of the site asks for visits at other times of the day (in UTC).",
    "Nothing: it is fetched when that time comes",
)

# ------------------------------------------------------------------------------------------------ nothing was sent

_unsent = _group("Requests that are never made")

ADDRESS: Final = _unsent(
    "address",
    "The host has no public address.",
    "Nothing, if it is not yours; otherwise allow its network with --allow-private CIDR",
)
BLOCKED: Final = _unsent(
    "blocked",
    "Somebody has blocked the host by hand, so nothing is requested there.",
    "Nothing, if that is intended; otherwise, while the crawl runs: skitter unblock DIR HOST",
)
SCHEME: Final = _unsent(
    "scheme",
    "The URL is neither http nor https.",
    "Nothing: other URLs are not fetched",
)
URL: Final = _unsent(
    "url",
    "The URL cannot be sent in a request.",
    "Nothing, unless it is a seed: then correct it",
)
PORT: Final = _unsent(
    "port",
    "The port belongs to a service other than the web, or does not exist.",
    "Nothing: such ports are never contacted",
)
SEED_UNUSABLE: Final = _unsent(
    "seed.unusable",
    "The line among the seeds is not a URL that can be crawled.",
    "Correct the line and add it again; the detail says what is wrong with it",
)

# ------------------------------------------------------------------------------------------------ redirects

_redirect = _group("Redirects")

REDIRECT: Final = _redirect(
    "redirect",
    "The server redirects to another URL, which is judged and fetched on its own.",
    "Nothing; skitter why DIR URL shows what happened to the other URL",
)
REDIRECTS: Final = _redirect(
    "redirects",
    "The chain of redirects is longer than allowed; most such chains are loops.",
    f"Nothing, if it is a loop; otherwise raise fetch.max_redirects and {_AGAIN}",
)
REDIRECT_TARGET: Final = _redirect(
    "redirect.target",
    "The server redirects to something that cannot be visited.",
    "Nothing: only the owner of the site can correct it",
)

# ------------------------------------------------------------------------------------------------ no usable answer

_status = _group("Answers with an error")

_status(
    "http.429",
    "The server says that we send too many requests.",
    f"Raise --delay; once it is given up, {_AGAIN}",
)
PAYMENT: Final = _status(
    "payment",
    "The server asks for payment (402), and Skitter never pays.",
    "Nothing, or agree with the owner of the site; the price is in the record of the page",
)
_status(
    "http.NNN",
    "The server answered with a server error.",
    _LATER,
)

_fault = _group("No usable answer")

_fault(
    Fault.DNS.value,
    "The DNS query for the host got no answer.",
    f"Check the network of this machine, or set fetch.nameservers, then {_AGAIN}",
)
_fault(
    Fault.NXDOMAIN.value,
    "The host does not exist, or has no address.",
    f"Nothing, if the link is wrong; if the name should exist, check its DNS records, then {_AGAIN}",
)
_fault(
    Fault.CONNECT.value,
    "The host did not accept a connection.",
    _LATER,
)
_fault(
    Fault.TLS.value,
    "A secure connection failed; usually the certificate is invalid.",
    f"Nothing, if the site is not yours; if you trust its authority, set fetch.ca_file and {_AGAIN}",
)
_fault(
    Fault.TIMEOUT.value,
    "The server took too long to answer.",
    f"Nothing while it is tried again; if the site is slow, raise fetch.deadline or fetch.idle_timeout and {_AGAIN}",
)
_fault(
    Fault.RESET.value,
    "The connection ended before the answer was complete.",
    _LATER,
)
_fault(
    Fault.REUSE.value,
    "The server closed a connection that was kept open for the next request.",
    "Nothing: the request is repeated on a new connection",
)
_fault(
    Fault.PROTOCOL.value,
    "The answer is not valid HTTP.",
    "Check that a web server listens at this port; otherwise only the owner of the site can correct it",
)
_fault(
    Fault.HEADERS.value,
    "The header fields of the answer are larger than allowed.",
    f"Nothing, as a rule; if you want the page, raise fetch.max_headers and {_AGAIN}",
)
_fault(
    Fault.SIZE.value,
    "The body of the answer is larger than allowed.",
    f"Nothing, as a rule; if you want the page, raise fetch.max_body and {_AGAIN}",
)
_fault(
    Fault.BOMB.value,
    "The body of the answer is larger than allowed once it is decompressed.",
    f"Nothing, as a rule; if you want the page, raise fetch.max_body and {_AGAIN}",
)

# ------------------------------------------------------------------------------------------------ ours

_ours = _group("On our side")

_ours(
    Fault.BUSY.value,
    "We cancelled the request: memory was short, or the worker lost its shard.",
    "Nothing, if it is rare; otherwise raise fetch.max_in_flight or lower --concurrency",
)
PROXY: Final = _ours(
    Fault.PROXY.value,
    "The proxy of this crawl could not be used, or would not connect to the host.",
    "Nothing, if it is down for a while: nothing is lost, and it is tried again; otherwise check fetch.proxy, its login in the secrets file, and that it allows CONNECT to this port",
)
_ours(
    Fault.PARSER.value,
    "Our parser failed on the answer, or needed more time or memory than it may have.",
    "If the detail names a setting, raise it and visit the URL again as a seed; otherwise please report it, with the URL and the detail",
)
RENDER: Final = _ours(
    "render",
    "The page was fetched, but could not be rendered in a browser, or not completely.",
    "Nothing, if what its server sent is enough; otherwise raise fetch.render_deadline or fetch.render_memory",
)
CRASH: Final = _ours(
    "crash",
    "The process died repeatedly while it processed the URL.",
    f"Please report it with the URL; if something else ended the process, {_AGAIN}",
)
UNSTORABLE: Final = _ours(
    "unstorable",
    "An engine refused to store the result of the visit.",
    f"The detail is what the engine said; if it names a limit, raise it there and {_AGAIN}",
)
UNKNOWN: Final = _ours(
    "unknown",
    "No reason was recorded.",
    "This should not happen: please report it",
)

TABLE: Final[Mapping[str, Entry]] = MappingProxyType(_table)
"""Every reason by its code, in the order of the reference."""
