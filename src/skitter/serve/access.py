"""Who asks, and may they? Decided from what is known about a request; nothing is read here but the tokens.

A request must name this server by one of its own names (a stranger's DNS may map any name to 127.0.0.1) and must not come
from a page of another origin. Then it needs a token, or the session of a browser that was opened with the link that
`skitter serve` printed. A program of the same user on the same machine needs neither.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from skitter.serve.problems import ProblemError
from skitter.serve.tokens import TokenFile, allows

COOKIE = "skitter-session"
_SESSION = 12 * 3600.0  # seconds
_CODE = 600.0  # seconds in which the printed link must be opened
_MOST = 1000  # sessions, and keys of the rate limit
# What only browsers send. A program of the user may send them too, and then needs a token.
_OF_BROWSERS = ("origin", "sec-fetch-site", "sec-fetch-mode", "cookie")


class Asker(Struct, frozen=True):
    """What is known about a request before it is read."""

    method: str
    headers: Mapping[str, str]  # by lower-case name
    query: Collection[str]  # names of its parameters
    address: str  # of the other end
    is_own_user: bool  # the other end is a process of our user on this machine
    cookies: Mapping[str, str]
    secure: bool = False  # over TLS


class Sessions:
    """Browsers that were let in by a code, which works once."""

    def __init__(self) -> None:
        self._codes: dict[str, float] = {}
        self._open: OrderedDict[str, float] = OrderedDict()

    def code(self, now: float) -> str:
        """A new code for one browser."""
        made = secrets.token_urlsafe(24)
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        self._codes[made] = now + _CODE
        return made

    def enter(self, code: str, now: float) -> str:
        """The session that a code opens; empty if it opens none."""
        if self._codes.pop(code, 0.0) <= now:
            return ""
        session = secrets.token_urlsafe(32)
        self._open[session] = now + _SESSION
        while len(self._open) > _MOST:
            self._open.popitem(last=False)
        return session

    def is_open(self, session: str, now: float) -> bool:
        """Whether a session is known and not over."""
        return self._open.get(session, 0.0) > now


class Access:
    """Judges requests."""

    def __init__(self, names: Collection[str], tokens: TokenFile, *, always_token: bool = False) -> None:
        """`names` are the values of Host that are ours; with `always_token`, programs of the same user need one too."""
        self._names = frozenset(names)
        self._tokens = tokens
        self._always_token = always_token
        self.sessions = Sessions()

    def check(self, asker: Asker, wanted: str, now: float | None = None) -> None:
        """ProblemError unless the request may be answered. `wanted` is the scope it needs; empty: none."""
        now = time.time() if now is None else now
        self._check_host(asker)
        self._check_origin(asker)
        if "token" in asker.query or "access_token" in asker.query:
            raise ProblemError(
                400,
                "A token in a URL",
                "send it in the header: Authorization: Bearer TOKEN; URLs end up in logs",
            )
        if not wanted:
            return
        scope = self._scope(asker, now)
        if not scope:
            raise ProblemError(
                401,
                "Who are you?",
                "send a token (Authorization: Bearer …; made by: skitter token create NAME), or open the link that skitter serve printed",
                {"WWW-Authenticate": 'Bearer realm="skitter"'},
            )
        if not allows(scope, wanted):
            raise ProblemError(
                403, "Not allowed", f"this needs the scope {wanted}, and the token has {scope}"
            )

    def _check_host(self, asker: Asker) -> None:
        if asker.headers.get("host", "").lower() not in self._names:
            raise ProblemError(
                421,
                "Not this server",
                "it answers to its own names only; add one with: skitter serve --name NAME",
            )

    def _check_origin(self, asker: Asker) -> None:
        """Pages of other origins get nothing, not even an error that tells them something."""
        origin = asker.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() not in self._names:
            raise ProblemError(403, "A foreign origin", "pages of other sites cannot use this server")
        if asker.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise ProblemError(403, "A foreign origin", "pages of other sites cannot use this server")

    def _scope(self, asker: Asker, now: float) -> str:
        if said := asker.headers.get("authorization", ""):
            kind, _, token = said.partition(" ")
            return self._tokens.scope_of(token.strip(), now) if kind.lower() == "bearer" else ""
        session = asker.cookies.get(COOKIE, "")
        if session and self.sessions.is_open(session, now):
            # SameSite keeps other sites from using the cookie; what changes something also has to name its origin.
            is_safe = asker.method in ("GET", "HEAD") or "origin" in asker.headers
            return "admin" if is_safe else ""
        is_browser = any(name in asker.headers for name in _OF_BROWSERS)
        return "admin" if asker.is_own_user and not is_browser and not self._always_token else ""


class RateLimit:
    """At most so many requests a second of one asker, in the long run, with some to spare at first."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, who: str, now: float) -> float:
        """Seconds until this one may ask again; 0 if it may now."""
        left, at = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        allowed = left >= 1
        self._left[who] = (left - 1 if allowed else left, now)
        while len(self._left) > _MOST:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._rate
