"""HTTP requests to a cluster: several addresses in turn, persistent connections, bounded retries.

Every request starts at `Cluster.tried`, behind one breaker: the breaker decides when to retry, this module
how often.

The standard library's client does the framing and TLS, in a thread: a bulk request takes much longer than
starting one, and every request may be repeated, so an abandoned thread does no harm. The crawler's own
fetcher is for untrusted hosts, and obeys politeness and the address guard; this one is for an engine that the
operator named.
"""

import http.client
import json
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from skitter.engines.breaker import BreakerRules, Guard, until_again
from skitter.ports import EngineAway, EngineError
from skitter.runtime.aside import aside
from skitter.settings.engines import SearchSettings

CONNECT_TIMEOUT = 10.0
TIMEOUT = 60.0  # seconds without a byte; a cluster that merges or recovers may be silent for long
CHECK_TIMEOUT = 10.0  # … but not for a health check
ROUNDS = 6  # rounds through all addresses before the engine counts as away
# Pages wait in Kafka or in the archive, so there is no hurry, and an overloaded cluster needs the pause.
RULES = BreakerRules(window=120.0, minimum=3, pause=0.5, longest=30.0, silence=30.0, deadline=15.0)
_BUSY = frozenset({429, 502, 503, 504})  # retry on another node, or on the same one later


T = TypeVar("T")


class Answer(NamedTuple):
    """The answer of the cluster. The body is decoded JSON, or None."""

    status: int
    body: Any


class _BusyError(Exception):
    """The node may answer later, or another node now."""


class Cluster:
    """The nodes of one cluster, used as one."""

    def __init__(self, settings: SearchSettings, password: str, rules: BreakerRules | None = None) -> None:
        self.guard = Guard("OpenSearch", self.check, rules=rules or RULES)
        self._addresses = list(settings.addresses)
        self._headers = {"Accept": "application/json"}
        if settings.username:
            pair = f"{settings.username}:{password}".encode()
            self._headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
        self._tls = _tls(settings.ca_file) if any(_secure(address) for address in self._addresses) else None
        self._idle: dict[str, list[http.client.HTTPConnection]] = {address: [] for address in self._addresses}
        self._closed = False

    async def ask(self, method: str, path: str, body: bytes | None = None, rounds: int = ROUNDS) -> Answer:
        """Request until a node answers. EngineAway if none does within bounds; EngineError if retrying is useless."""
        return await self.tried(lambda: self.once(method, path, body), rounds)

    async def tried(self, make: Callable[[], Awaitable[T]], rounds: int = ROUNDS) -> T:
        """Repeat a call until it succeeds, or until the cluster counts as away."""
        for left in reversed(range(rounds)):
            try:
                return await self.guard.call(make)
            except EngineAway as problem:
                if not left:
                    raise
                await until_again(problem)
        raise AssertionError(rounds)

    async def once(
        self, method: str, path: str, body: bytes | None = None, patience: float = TIMEOUT
    ) -> Answer:
        """Try every node in turn, until one answers; EngineAway if none does."""
        problem: EngineAway | None = None
        for address in tuple(self._addresses):
            try:
                answer = await aside(self._exchange, address, method, path, body, patience)
            except _BusyError as busy:
                problem = away(address, str(busy), "look at its log, or name more nodes in search.addresses")
            except (OSError, http.client.HTTPException) as failure:
                problem = self._unreachable(address, failure)
            else:
                self._prefer(address)
                return _usable(address, answer)
        raise problem or EngineError("OpenSearch: search.addresses names no node")

    async def check(self) -> None:
        """Health check: EngineAway unless a node answers anything; a user who may index need not be allowed to
        read cluster health.
        """
        await self.health()

    async def health(self) -> str:
        """The cluster health in its own word: green, yellow or red; empty if it does not tell us."""
        try:
            answer = await self.once("GET", "/_cluster/health", patience=CHECK_TIMEOUT)
        except EngineAway:
            raise
        except EngineError:
            return ""
        return str(answer.body.get("status", "")) if isinstance(answer.body, dict) else ""

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for idle in self._idle.values():
            while idle:
                idle.pop().close()

    @property
    def address(self) -> str:
        """The node that answered last."""
        return self._addresses[0]

    def _prefer(self, address: str) -> None:
        if self._addresses[0] != address:
            self._addresses.remove(address)
            self._addresses.insert(0, address)

    def _exchange(self, address: str, method: str, path: str, body: bytes | None, patience: float) -> Answer:
        """One request, in a thread. A connection that was closed while idle does not count against the node."""
        while True:
            connection, fresh = self._connection(address)
            connection.sock.settimeout(patience)
            try:
                answer = self._request(connection, method, path, body)
            except (http.client.HTTPException, OSError):
                connection.close()
                if fresh:
                    raise
                continue
            if answer.status in _BUSY:
                connection.close()
                raise _BusyError(f"it is too busy ({answer.status}): {reason(answer.body)}")
            if self._closed:
                connection.close()
            else:
                self._idle[address].append(connection)
            return answer

    def _connection(self, address: str) -> tuple[http.client.HTTPConnection, bool]:
        idle = self._idle[address]
        if idle:
            return idle.pop(), False
        parts = urlsplit(address)
        host = parts.hostname or ""
        if self._tls is not None and _secure(address):
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=CONNECT_TIMEOUT, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=CONNECT_TIMEOUT)
        try:
            connection.connect()
        except OSError:
            connection.close()  # it may have a socket without TLS
            raise
        return connection, True

    def _request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None
    ) -> Answer:
        kind = "application/x-ndjson" if path.endswith("/_bulk") else "application/json"
        headers = self._headers | ({"Content-Type": kind} if body is not None else {})
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, _decoded(response.read()))

    def _unreachable(self, address: str, failure: Exception) -> EngineAway:
        """Temporary errors are returned, to be raised when retries end; permanent ones are raised now."""
        if isinstance(failure, ssl.SSLCertVerificationError):
            fix = "name the file of its authority in search.ca_file, or the host that the certificate is for"
            raise told(address, f"its certificate is not trusted ({failure.verify_message})", fix)
        if isinstance(failure, ssl.SSLError):
            raise told(
                address,
                "it does not speak TLS as we do",
                "write http:// in search.addresses, or mend its TLS",
            )
        if isinstance(failure, http.client.BadStatusLine | http.client.LineTooLong) and not _secure(address):
            return away(
                address, "it does not answer in HTTP", "write https:// or another port in search.addresses"
            )
        said = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
        return away(address, f"it cannot be reached ({said})", "start it, or mend search.addresses")


def told(address: str, what: str, fix: str) -> EngineError:
    """One line: the engine, what is wrong, what to do."""
    return EngineError(_line(address, what, fix))


def away(address: str, what: str, fix: str) -> EngineAway:
    """The same for a temporary error."""
    return EngineAway(_line(address, what, fix))


def _line(address: str, what: str, fix: str) -> str:
    return " ".join(f"OpenSearch at {address}: {what}; {fix}".split())


def _usable(address: str, answer: Answer) -> Answer:
    if answer.status == 401:
        fix = "set search.username, and the password by search.password_file or SKITTER_SEARCH_PASSWORD"
        raise told(address, "it does not accept the name and password (401)", fix)
    if answer.status == 403:
        raise told(
            address, f"this is forbidden: {reason(answer.body)}", "give search.username the right to do it"
        )
    if 300 <= answer.status < 400:
        raise told(
            address, f"it redirects ({answer.status})", "name the nodes themselves in search.addresses"
        )
    return answer


def reason(body: object) -> str:
    """Why an engine refuses, in one line, as short as possible."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return " ".join(str(error or "no reason given").split())[:300]
    said = f"{error.get('type', 'error')}: {error.get('reason', '')}"
    cause = error.get("caused_by")
    if isinstance(cause, dict) and cause.get("reason"):
        said += f" ({cause['reason']})"
    return " ".join(said.split())[:300]


def _decoded(body: bytes) -> Any:  # noqa: ANN401  JSON is anything
    try:
        return json.loads(body)
    except ValueError:
        return None


def _secure(address: str) -> bool:
    return address.startswith("https://")


def _tls(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as problem:
        said = getattr(problem, "strerror", None) or str(problem)
        raise EngineError(
            f"OpenSearch: search.ca_file: {ca_file}: {said}; name a readable file of certificates in PEM"
        ) from None
