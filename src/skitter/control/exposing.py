"""`/metrics` and `/healthz` of a running crawl: a small HTTP server on its event loop that cannot disturb it.

It answers GET of two paths, from a text that is at most half a second old, so that many scrapes cost as much as two a
second. Connections are few and short-lived, and none is waited for. A page in a browser cannot read it through a name that
leads to this machine (DNS rebinding): the Host must be an address, `localhost`, this machine's name, or one that the
settings name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from skitter.reporting.exposition import OPENMETRICS, PLAIN, text
from skitter.reporting.observation import Observation
from skitter.settings import SettingsError
from skitter.settings.units import address_of

MOST_CONNECTIONS = 32
_LONGEST = 8192  # bytes of a request: Prometheus sends some 300
_PATIENCE = 5.0  # seconds for a request to come, and for its answer to go
_FRESH = 0.5  # seconds: a text that is no older is sent again
_CLOSE = "Connection: close\r\n"


class Exposing:
    """Answers scrapes."""

    def __init__(
        self, observe: Callable[[], Observation], now: Callable[[], float], hosts: Sequence[str] = ()
    ) -> None:
        """`now` is a monotonic clock; `hosts` may be in Host besides those that always may."""
        self._observe = observe
        self._now = now
        self._names = {"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)}
        self._made: dict[bool, tuple[float, bytes]] = {}
        self._clients: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, address: str) -> AsyncIterator[str]:
        """Listen at HOST:PORT; gives the URL. SettingsError if that is not possible."""
        host, port = address_of(address)
        try:
            server = await asyncio.start_server(self._connected, host, port, limit=_LONGEST)
        except OSError as problem:
            why = problem.strerror or str(problem)
            raise SettingsError(f"metrics.address: {address}: {why}; name another with --metrics") from None
        where = server.sockets[0].getsockname()
        shown = f"[{where[0]}]" if ":" in where[0] else where[0]
        try:
            yield f"http://{shown}:{where[1]}/metrics"
        finally:
            server.close()
            for client in list(self._clients):
                client.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)

    # -- one connection ----------------------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        client = asyncio.ensure_future(self._serve(reader, writer))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, one answer."""
        try:
            async with asyncio.timeout(_PATIENCE):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    head = b""
                writer.write(self.answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            with suppress(OSError):
                writer.close()

    def answer(self, head: bytes) -> bytes:
        """The whole answer to a request head."""
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        fields = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines[1:])
            if colon
        }
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _said(400, "Bad Request", "this is no request of HTTP/1.1")
        if not self.may_ask(fields.get("host", "")):
            return _said(403, "Forbidden", "this Host is not one of ours; see metrics.hosts")
        if words[0] != "GET":
            return _said(405, "Method Not Allowed", "only GET", "Allow: GET\r\n")
        path = words[1].partition("?")[0]
        if path == "/healthz":
            return _said(200, "OK", "ok")
        if path != "/metrics":
            return _said(404, "Not Found", "there is /metrics and /healthz")
        openmetrics = "application/openmetrics-text" in fields.get("accept", "")
        kind = OPENMETRICS if openmetrics else PLAIN
        return _answer(200, "OK", self._text(openmetrics=openmetrics), f"Content-Type: {kind}\r\n")

    def may_ask(self, host: str) -> bool:
        """Whether a Host header cannot be that of a foreign page."""
        name = (
            host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
        )
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _text(self, *, openmetrics: bool) -> bytes:
        now = self._now()
        made, kept = self._made.get(openmetrics, (-_FRESH, b""))
        if now - made >= _FRESH or not kept:
            kept = text({"": self._observe()}, openmetrics=openmetrics).encode()
            self._made[openmetrics] = (now, kept)
        return kept


def _said(status: int, phrase: str, words: str, more: str = "") -> bytes:
    return _answer(
        status, phrase, f"{words}\n".encode(), f"Content-Type: text/plain; charset=utf-8\r\n{more}"
    )


def _answer(status: int, phrase: str, body: bytes, fields: str) -> bytes:
    head = f"HTTP/1.1 {status} {phrase}\r\n{fields}X-Content-Type-Options: nosniff\r\nContent-Length: {len(body)}\r\n{_CLOSE}\r\n"
    return head.encode() + body
