"""Sends one message to a URL that a person named, through the address guard: where strangers cannot lead us, we do not go.

The signature is an HMAC-SHA256 over the time and the body, so that a receiver can tell who sent it, and that it is not an
old one sent again:

    Skitter-Signature: t=1700000000,v1=HEX    HMAC(secret, "1700000000." + body)
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from typing import TypeVar

from skitter.model import Failed, Fetched, Link, Purpose, Redirected, Refused, Sends, Visit
from skitter.ports import Clock
from skitter.runtime.metrics import CacheMetrics
from skitter.settings import FetchSettings

T = TypeVar("T")


def signature(secret: str, at: int, body: bytes) -> str:
    """The value of Skitter-Signature."""
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


class _NoCache:
    """`skitter.ports.Cache` that keeps nothing: a message is sent seldom, and to where its name leads then."""

    async def get_or_fetch(self, key: str, fetch: Callable[[], Awaitable[tuple[T, float]]]) -> T:  # noqa: ARG002
        value, _ = await fetch()
        return value

    async def forget(self, key: str) -> None:
        """There is nothing to forget."""

    def metrics(self) -> CacheMetrics:
        return CacheMetrics()


async def post(
    url: str, body: bytes, delivery: str, settings: FetchSettings, clock: Clock, secret: str = ""
) -> str:
    """POST a JSON body. Returns what went wrong; empty if it was taken (2xx).

    `delivery` is the same each time that a message is sent. `settings.allow_private` names the private networks that it may
    go to; redirects are not followed.
    """
    from skitter.fetch.http import HttpFetcher  # noqa: PLC0415  libcurl, which most parents do without

    fields = ["Content-Type: application/json", f"Skitter-Delivery: {delivery}"]
    if secret:
        fields.append(f"Skitter-Signature: {signature(secret, int(clock.now()), body)}")
    link = Link(url=url, key=url, host="", purpose=Purpose.PROBE)
    fetcher = HttpFetcher(settings, _NoCache(), clock)
    try:
        outcome = await fetcher.fetch(Visit(link, 1, clock.now(), sends=Sends("POST", tuple(fields), body)))
    finally:
        await fetcher.close()
    match outcome:
        case Fetched(_, status) if 200 <= status < 300:
            return ""
        case Fetched(_, status) | Redirected(_, status):
            return f"it answered {status}"
        case Failed(fault, detail):
            return f"{fault.value}: {detail}"
        case Refused(reason):
            return (reason.detail or reason.code).partition("; allow it with")[0]  # that is for sites
        case _:
            return "it was not sent"
