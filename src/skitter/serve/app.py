"""The server: takes requests apart, lets `access` judge them, asks the handler of the route, and writes the answer."""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route as Wired

from skitter.fetch.address import Guard
from skitter.reporting.format import as_json
from skitter.serve import openapi
from skitter.serve.access import COOKIE, Access, Asker, RateLimit
from skitter.serve.answers import Answers
from skitter.serve.exports import Exporting
from skitter.serve.front import FILES, POLICY, page, stranger
from skitter.serve.history import changes, stream
from skitter.serve.once import Once
from skitter.serve.peers import is_own_user
from skitter.serve.problems import ProblemError, bad_request, not_found
from skitter.serve.routes import API, Asked, Route, table
from skitter.serve.running import Commands
from skitter.serve.shapes import Crawl
from skitter.serve.steering import Steering
from skitter.serve.webhooks import Hooks

LONGEST_BODY = 1 << 20
MOST_STREAMS = 100
_RATE, _BURST = 50.0, 200.0  # requests a second of one asker
_LOOPBACK = ("127.0.0.1", "::1")
log = logging.getLogger("skitter.serve")

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Server:
    """Everything that answers requests."""

    def __init__(self, answers: Answers, access: Access, folder: Path, guard: Guard) -> None:
        """`folder` is where the server keeps what is its own; `guard` says where webhooks may go."""
        self._answers = answers
        self._access = access
        self._once = Once(folder / "serve.sqlite")
        self._rate = RateLimit(_RATE, _BURST)
        self._streams = 0
        self._ending = asyncio.Event()
        self._exporting = Exporting(folder)
        self._hooks = Hooks(folder / "webhooks.sqlite", answers.catalogue, guard)
        self.routes = table(answers, Steering(answers.catalogue), Commands(), self._exporting, self._hooks)
        self.document = openapi.document(self.routes)

    def app(self) -> Starlette:
        """As an ASGI application."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            telling = asyncio.create_task(self._hooks.run())
            yield
            telling.cancel()
            await asyncio.wait([telling])
            self._hooks.close()
            await self._exporting.close()
            await self._answers.close()
            self._once.close()

        pages = [Wired(path, self._guarded(self._file, "")) for path in FILES]
        pages += [
            Wired("/", self._guarded(self._front, "read")),
            Wired("/login", self._guarded(self._login, "")),
        ]
        wired = [Wired(route.path, self._wired(route), methods=[route.method]) for route in self.routes]
        return Starlette(
            routes=[*wired, *pages],
            lifespan=lifespan,
            exception_handlers={HTTPException: _no_route, ProblemError: _told, Exception: _broken},  # type: ignore[dict-item]
        )

    # -- who asks ----------------------------------------------------------------------------------------------

    def _check(self, request: Request, scope: str) -> str:
        """Who asks, for limits. ProblemError if they may not."""
        client, server = request.client, request.scope.get("server")
        address = client.host if client else ""
        own = bool(
            client
            and server
            and address in _LOOPBACK
            and "authorization" not in request.headers
            and is_own_user((client.host, client.port), (server[0], server[1]))
        )
        asker = Asker(
            request.method,
            {name.lower(): value for name, value in request.headers.items()},
            list(request.query_params),
            address,
            own,
            request.cookies,
            request.url.scheme == "https",
        )
        who = hashlib.sha256(request.headers.get("authorization", address).encode()).hexdigest()
        if wait := self._rate.wait(who, time.monotonic()):
            raise ProblemError(
                429, "Too many requests", f"wait {wait:.1f} s", {"Retry-After": str(int(wait) + 1)}
            )
        self._access.check(asker, scope)
        return who

    def _guarded(
        self, handler: Callable[[Request], Awaitable[Response]], scope: str
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                self._check(request, scope)
            except ProblemError as problem:
                if problem.status == 401:
                    return _page(stranger(), 401)
                raise
            return await handler(request)

        return guarded

    # -- the API -----------------------------------------------------------------------------------------------

    def _wired(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            self._check(request, route.scope)
            if route.answer is None:
                return await self._stream(route, request)
            if route.handler is None:
                return _json(request, self.document, route)
            body = await _body(request) if route.body is not None else b""
            asked = Asked(request.path_params, _query(request, route), _decoded(body, route))
            key = request.headers.get("idempotency-key", "")
            if not key or route.body is None:
                return _json(request, await route.handler(asked), route)
            return await self._carried_out_once(key, request, route, asked, body)

        return handle

    async def _carried_out_once(
        self, key: str, request: Request, route: Route, asked: Asked, body: bytes
    ) -> Response:
        if route.handler is None:
            raise AssertionError(route)
        earlier = self._once.begin(key, f"{route.method} {request.url.path}\n".encode() + body)
        if earlier is not None:
            return Response(
                earlier[1], earlier[0], _ALWAYS | {"Idempotency-Replayed": "true"}, "application/json"
            )
        try:
            answer = _json(request, await route.handler(asked), route)
        except BaseException:
            self._once.forget(key)
            raise
        self._once.end(key, answer.status_code, bytes(answer.body))
        return answer

    async def _stream(self, route: Route, request: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            raise ProblemError(
                503, "Too many streams", f"{MOST_STREAMS} are open; close some", {"Retry-After": "10"}
            )
        if route.path == f"{API}/events":
            events = changes(self._all_crawls)
        else:
            after = request.headers.get("last-event-id", "") or "0"
            if not after.isdigit() or len(after) > 18:
                raise bad_request("Last-Event-ID: this is no id of an event")
            events = stream(self._answers.catalogue.find(request.path_params["crawl"]), int(after))
        return StreamingResponse(
            self._counted(events),
            headers=_ALWAYS | {"X-Accel-Buffering": "no"},
            media_type="text/event-stream",
        )

    async def _counted(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            while not self._ending.is_set():
                following = asyncio.ensure_future(anext(events))
                ending = asyncio.ensure_future(self._ending.wait())
                try:
                    await asyncio.wait([following, ending], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    ending.cancel()
                    if not following.done():
                        following.cancel()
                if not following.done() or following.cancelled():
                    return
                try:
                    yield following.result()
                except (ProblemError, StopAsyncIteration):  # the crawl has vanished
                    return
        finally:
            self._streams -= 1

    async def _all_crawls(self) -> str:
        return as_json(msgspec.to_builtins(await self._answers.crawls_lately(), str_keys=True))

    def end(self) -> None:
        """Streams end, so that the server can."""
        self._ending.set()

    # -- pages for people --------------------------------------------------------------------------------------

    async def _front(self, _: Request) -> Response:
        return _page(page(await self._answers.crawls_lately()))

    async def _file(self, request: Request) -> Response:
        body, kind = FILES[request.url.path]
        return Response(body, headers=_ALWAYS, media_type=kind)

    async def _login(self, request: Request) -> Response:
        session = self._access.sessions.enter(request.query_params.get("code", ""), time.time())
        if not session:
            return _page(stranger(), 401)
        answer = RedirectResponse("/", 303, _ALWAYS)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=secure, path="/")
        return answer


def _page(text: str, status: int = 200) -> Response:
    return Response(text, status, _ALWAYS | {"Content-Security-Policy": POLICY}, "text/html")


# ------------------------------------------------------------------------------------------------ in and out


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ProblemError(415, "No JSON", "send the body as Content-Type: application/json")
    length = request.headers.get("content-length", "0")
    too_long = ProblemError(
        413, "Too long", f"a body has at most {LONGEST_BODY} bytes", {"Connection": "close"}
    )
    if not length.isdigit() or int(length) > LONGEST_BODY:
        raise too_long
    found = bytearray()
    try:
        async for piece in request.stream():
            found += piece
            if len(found) > LONGEST_BODY:
                raise too_long
    except ClientDisconnect:
        raise bad_request("the body is not whole") from None
    return bytes(found)


def _query(request: Request, route: Route) -> msgspec.Struct:
    fields: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in fields:
            raise bad_request(f"{name[:50]!r} is given twice")
        fields[name] = value
    try:
        return msgspec.convert(fields, route.query, strict=False)
    except msgspec.ValidationError as problem:
        raise bad_request(str(problem)) from None


def _decoded(body: bytes, route: Route) -> msgspec.Struct | None:
    if route.body is None:
        return None
    try:
        return msgspec.json.decode(body, type=route.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise bad_request(str(problem)) from None


def _json(request: Request, answer: object, route: Route) -> Response:
    if isinstance(answer, Path):
        name = f"attachment; filename={answer.parent.name}{answer.suffix}"
        return FileResponse(
            answer, headers=_ALWAYS | {"Content-Disposition": name}, media_type="application/octet-stream"
        )
    body = as_json(msgspec.to_builtins(answer, str_keys=True)).encode()
    headers = dict(_ALWAYS)
    if route.method == "GET":
        mark = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        headers["ETag"] = mark
        headers["Cache-Control"] = "private, no-cache"
        if mark in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
    if route.status == 201 and route.answer is Crawl:
        headers["Location"] = f"{API}/crawls/{answer.id}"  # type: ignore[attr-defined]
    return Response(body, route.status, headers, "application/json")


async def _told(_: Request, problem: ProblemError) -> Response:
    return Response(
        problem.encoded(), problem.status, _ALWAYS | problem.headers, media_type="application/problem+json"
    )


async def _no_route(request: Request, problem: HTTPException) -> Response:
    if problem.status_code == 405:
        told = ProblemError(
            405, "Not that way", "this can be asked in another way only", dict(problem.headers or {})
        )
    else:
        told = not_found("there is no such path; see /api/v1/openapi.json")
    return await _told(request, told)


async def _broken(request: Request, problem: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=problem)
    return await _told(request, ProblemError(500, "A fault of ours", "it is in the log of the server"))


def allowed_names(address: str, port: int, more: Sequence[str]) -> list[str]:
    """The values of Host that are ours."""
    hosts = {address, *more}
    if address in _LOOPBACK:
        hosts |= {"localhost", *_LOOPBACK}
    written = {f"[{host}]" if ":" in host else host for host in hosts}
    return sorted({f"{host}:{port}" for host in written} | (written if port in (80, 443) else set()))
