"""Do we want this link? Every refusal is a Reason that names the rule.

A crawl's scope is measured from its roots: the seeds, and the URLs their redirects led to. Cheap rules are
checked first. The trap rules are static: they look at one URL and know nothing about others.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fnmatch import translate

from skitter import reasons, urls
from skitter.model import Reason
from skitter.settings import ScopeSettings
from skitter.settings.extensions import readers, skipped
from skitter.settings.sites import Sites

ALONE = frozenset(("only", "named"))
"""Values of `scope.sitemaps` with which nothing is crawled but what sitemaps list."""
KINDS = ("page", "prefix", "host", "domain", "any")
# Reasons that another root may remove.
ROOTED = frozenset({reasons.SCOPE_PREFIX, reasons.SCOPE_HOST, reasons.SCOPE_DOMAIN})

UNLISTED = Reason(reasons.SCOPE_SITEMAPS, "only pages that sitemaps list are wanted (scope.sitemaps)")
_SETTING = re.compile(r"scope\.\w+")  # as named in a reason
_PAST_YEARS = 50  # the web is younger; a calendar that goes back further is generated
# A year and a month together, as calendars write them: /2031/01/02, ?month=1&year=9999, ?date=2031-01-02.
# (That no digit precedes the year is checked afterwards: the search is four times faster that way.)
_DATE = re.compile(r"(\d{4})(?<!\d{5})[-/](0?[1-9]|1[0-2])(?!\d)", re.ASCII)
_YEAR = re.compile(r"[?&;]y(?:ear)?=(\d{4,})(?!\d)", re.IGNORECASE)
_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sid|sessionid)=|/\(S\([a-z0-9]{24}\)\)|/(?:sessionid|jsessionid|phpsessid|sid)[=/][0-9a-z]{16,}",
    re.IGNORECASE,
)


class Scope:
    """What a crawl wants. `roots` grow when seeds are added or a seed redirects."""

    def __init__(
        self,
        settings: ScopeSettings,
        roots: Iterable[str] = (),
        year: int | None = None,
        sites: Sites | None = None,
    ) -> None:
        """`sites` may have rules of their own, for some URLs, within the same roots."""
        self._settings = settings
        self._sites = sites or None
        # By the identity of the settings, which `_settings` keeps alive: hashing them takes longer than judging a link.
        self._overlaid: dict[int, Scope] = {id(settings): self}
        year = year or datetime.now(UTC).year
        self._first_year, self._last_year = year - _PAST_YEARS, year + settings.calendar_years
        self._hosts: set[str] = set()
        self._domains: set[str] = set()
        self._prefixes: set[str] = set()
        self._include = _any_of(settings.include)
        self._exclude = _any_of(settings.exclude)
        self._host_patterns = _any_host(settings.hosts)
        self._has_limit = settings.max_depth is not None
        self.limits_depth = self._has_limit or bool(sites and sites.sets("scope.max_depth"))
        self._has_patterns = bool(settings.include or settings.exclude or settings.hosts)
        self._skipped = skipped(settings.skip_extensions)
        self.readers = readers(settings.skip_extensions)  # extras that decide which files are wanted
        self._inside = self._inside_rule(settings.kind)
        self._found_inside = self._unlisted if settings.sitemaps in ALONE else self._inside
        for root in roots:
            self.widen(root)

    def widen(self, root: str) -> None:
        """Add a seed, or its redirect target, to the scope."""
        host = urls.host(root)
        self._hosts.add(host)
        if self._settings.kind == "domain":
            self._domains.add(urls.registrable_domain(host))
        if self._settings.kind == "prefix":
            self._prefixes.add(_directory(root))

    @property
    def width(self) -> int:
        """Increases whenever a root changes the scope."""
        return len(self._hosts) + len(self._domains) + len(self._prefixes)

    def has_root(self, root: str) -> bool:
        """Whether a root would change nothing."""
        return urls.host(root) in self._hosts and (
            self._settings.kind != "prefix" or _directory(root) in self._prefixes
        )

    def has_host(self, host: str) -> bool:
        """Whether a root is on this host."""
        return host in self._hosts

    @property
    def follows_nothing(self) -> bool:
        """Whether only the seeds themselves are wanted."""
        return self._settings.kind == "page" or self._settings.max_depth == 0

    def refusal(self, url: str, depth: int, host: str = "", *, listed: bool = False) -> Reason | None:
        """Why a link found on a page, or `listed` by a sitemap, is not wanted; None if it is.

        Pass the host if it is known.
        """
        if self._sites is not None and (own := self._of(url)) is not self:
            return self._told(url, own.refusal(url, depth, host, listed=listed))
        inside = self._inside if listed else self._found_inside
        target = url[url.find("/", 8) :]  # after "https://", or the first letter of the host after "http://"
        path, _, query = target.partition("?")
        return (
            (self._too_deep(depth) if self._has_limit else None)
            or inside(url, host or urls.host(url))
            or (self._unmatched(url) if self._has_patterns else None)
            or self._file_type(path)
            or self._trap(url, path)
            or (_query_trap(query, self._settings) if query else None)
            or self._calendar_trap(target)
        )

    def seed_refusal(self, url: str) -> Reason | None:
        """Why a seed is not wanted: a named seed is followed unless it is explicitly excluded."""
        if self._sites is not None and (own := self._of(url)) is not self:
            return self._told(url, own.seed_refusal(url))
        return self._foreign_host(url) or self._excluded(url)

    def asset_refusal(self, url: str) -> Reason | None:
        """Why nothing that a page needs is fetched from there: it is explicitly excluded."""
        if self._sites is not None and (own := self._of(url)) is not self:
            return self._told(url, own.asset_refusal(url))
        return self._excluded(url)

    def _of(self, url: str) -> "Scope":
        """The rules that hold for a URL; the roots are those of the crawl."""
        assert self._sites is not None  # noqa: S101  asked only then
        settings = self._sites.of(url).scope
        own = self._overlaid.get(id(settings))
        if own is None:
            own = self._overlaid[id(settings)] = Scope(settings)
            own._hosts, own._domains, own._prefixes = self._hosts, self._domains, self._prefixes
            own._first_year = self._first_year
            own._last_year = self._last_year - self._settings.calendar_years + settings.calendar_years
        return own

    def _told(self, url: str, reason: Reason | None) -> Reason | None:
        """A refusal with the overlay that it is due to."""
        named = None if reason is None else _SETTING.search(reason.detail)
        if reason is None or named is None or self._sites is None:
            return reason
        overlay = self._sites.speaker(url, named[0])
        return reason if overlay is None else Reason(reason.code, f"{reason.detail}, set by {overlay}")

    # -- one rule each ---------------------------------------------------------------------------------------

    def _too_deep(self, depth: int) -> Reason | None:
        limit = self._settings.max_depth
        if limit is None or depth <= limit:
            return None
        return Reason(reasons.SCOPE_DEPTH, f"depth {depth} is beyond scope.max_depth ({limit})")

    def _inside_rule(self, kind: str) -> Callable[[str, str], Reason | None]:
        rules = {"page": self._page, "prefix": self._prefix, "host": self._host, "domain": self._domain}
        return rules.get(kind, lambda _url, _host: None)

    def _page(self, _url: str, _host: str) -> Reason | None:
        return Reason(reasons.SCOPE_PAGE, "only the seeds themselves are wanted (scope.kind = page)")

    def _unlisted(self, _url: str, _host: str) -> Reason | None:
        return UNLISTED

    def _prefix(self, url: str, _host: str) -> Reason | None:
        slash, end = url.find("/", 8), url.find("?")
        while 0 <= slash < (end if end >= 0 else len(url)):  # its directories, from the site root down
            if url[: slash + 1] in self._prefixes:
                return None
            slash = url.find("/", slash + 1)
        return Reason(reasons.SCOPE_PREFIX, "outside the directories of the seeds (scope.kind = prefix)")

    def _host(self, _url: str, host: str) -> Reason | None:
        if host in self._hosts or self._host_patterns is not None:
            return None
        return Reason(reasons.SCOPE_HOST, f"{host} is not the host of a seed (scope.kind = host)")

    def _domain(self, _url: str, host: str) -> Reason | None:
        domain = urls.registrable_domain(host)
        if domain in self._domains:
            return None
        return Reason(reasons.SCOPE_DOMAIN, f"{domain} is not the domain of a seed (scope.kind = domain)")

    def _unmatched(self, url: str) -> Reason | None:
        if self._include is not None and not self._include(url):
            return Reason(reasons.SCOPE_INCLUDE, "matches none of the patterns in scope.include")
        return self._foreign_host(url) or self._excluded(url)

    def _foreign_host(self, url: str) -> Reason | None:
        if self._host_patterns is None or self._host_patterns.match(urls.host(url)):
            return None
        return Reason(reasons.SCOPE_HOSTS, f"{urls.host(url)} matches none of the patterns in scope.hosts")

    def _excluded(self, url: str) -> Reason | None:
        if self._exclude is not None and (match := self._exclude(url)):
            return Reason(reasons.SCOPE_EXCLUDE, f"matches {match.re.pattern!r} of scope.exclude")
        return None

    def _file_type(self, path: str) -> Reason | None:
        ending = path.rpartition(".")[2].lower()  # with a slash added if there is none
        if ending in self._skipped:
            extra = self._skipped[ending]
            hint = (
                f"; the extra {extra} would read it (skitter doctor says how to install it)" if extra else ""
            )
            return Reason(reasons.SCOPE_EXTENSION, f".{ending} is one of scope.skip_extensions{hint}")
        return None

    # -- what looks as if it were generated without end ----------------------------------------------------------

    def _trap(self, url: str, path: str) -> Reason | None:
        settings = self._settings
        if len(url) > settings.max_url_length:
            return Reason(reasons.TRAP_LENGTH, f"{len(url)} characters, more than scope.max_url_length")
        segments = path.count("/")
        if segments > settings.max_path_segments:
            return Reason(reasons.TRAP_DEPTH, f"{segments} path segments, more than scope.max_path_segments")
        times = settings.max_segment_repeats
        if segments >= times and repeats(path.split("/")[1:], times):
            return Reason(reasons.TRAP_REPEAT, f"path segments stand {times} times in a row or more")
        if settings.session_in_path and ("(" in path or "id" in path.lower()) and _SESSION.search(path):
            return Reason(reasons.TRAP_SESSION, "a session id is part of the path")
        return None

    def _calendar_trap(self, target: str) -> Reason | None:
        """Only path and query: an address such as 127.0.10.1:2031/1 is not a date."""
        date = _DATE.search(target)
        year = _YEAR.search(target) if "=" in target else None
        for match in (date, year) if date or year else ():
            if match and not self._first_year <= int(match[1][:5]) <= self._last_year:
                text = f"the year {match[1][:5]} is too far away (scope.calendar_years)"
                return Reason(reasons.TRAP_CALENDAR, text)
        return None


def repeats(segments: list[str], times: int) -> bool:
    """Whether a run of one or more segments repeats `times` times in a row. Checks at most len² / times pairs."""
    count = len(segments)
    for length in range(1, count // times + 1):
        in_a_row = 0
        for i in range(length, count):
            in_a_row = in_a_row + 1 if segments[i] and segments[i] == segments[i - length] else 0
            if in_a_row >= length * (times - 1):
                return True
    return False


def _query_trap(query: str, settings: ScopeSettings) -> Reason | None:
    if len(query) > settings.max_query_length:
        return Reason(
            reasons.TRAP_QUERY, f"a query of {len(query)} characters, more than scope.max_query_length"
        )
    params = query.count("&") + query.count(";") + 1
    if params > settings.max_query_params:
        return Reason(reasons.TRAP_QUERY, f"{params} query parameters, more than scope.max_query_params")
    return None


def _directory(url: str) -> str:
    """A URL up to the last slash of its path."""
    path_end = url.find("?") if "?" in url else len(url)
    return url[: url.rfind("/", 0, path_end) + 1]


def _any_host(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that matches whatever any of these match; hosts are lower-case and have no trailing dot."""
    globs = [translate(pattern.lower().removesuffix(".")) for pattern in patterns]
    return re.compile("|".join(globs)) if globs else None


def _any_of(patterns: Iterable[str]) -> Callable[[str], re.Match[str] | None] | None:
    compiled = [re.compile(pattern) for pattern in patterns]
    if not compiled:
        return None
    return lambda url: next((match for pattern in compiled if (match := pattern.search(url))), None)
