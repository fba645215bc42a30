"""Connections to Redis: to whichever address accepts writes, and scripts that it may have forgotten.

The server is checked first. It must keep an append-only file and evict nothing, or a restart, or too little memory,
would lose acknowledged writes. `appendfsync everysec`, the default, is enough for `kill -9` of the server: the file
is written, if not yet synced, before the client gets its answer. If the disk is so slow that Redis answers while it
still waits for the last sync, or if power may fail, `appendfsync always` keeps the last second too; otherwise the end
of all writes is lost together, so that the rest is consistent.

Every round trip starts in `Client._talk`, behind one breaker.
"""

import asyncio
import hashlib
import os
import ssl
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import islice
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import TimeoutError as TimedOut

from skitter.engines.breaker import BreakerRules, Guard
from skitter.ports import EngineAway, EngineError
from skitter.runtime.aside import closed
from skitter.settings import Settings
from skitter.settings.engines import RedisSettings
from skitter.settings.secrets import secret

OLDEST = (6, 2)
_TIMEOUT = 10.0  # seconds for an answer
_CONNECT = 5.0
_DEFAULT_PORT = 6379
# Nobody waits for a mere cache: its breaker opens at once, and for longer, because whoever tests it waits.
_CACHE_RULES = BreakerRules(minimum=1, pause=1.0, longest=10.0)

# Temporary: the connection broke, or the server stops, starts, is out of memory or does not accept writes.
PASSING = (OSError, Disconnected, TimedOut, BusyLoadingError, ReadOnlyError, OutOfMemoryError)
# … and errors that only the text identifies.
_ILL = ("MISCONF", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNKILLABLE", "BUSY", "LOADING")

Command = tuple[Any, ...]


class Script:
    """One of our scripts, by the name of its file."""

    def __init__(self, name: str) -> None:
        self.text = files(__package__).joinpath("lua", f"{name}.lua").read_text("utf-8")
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def call(self, keys: Sequence[bytes], arguments: Sequence[Any]) -> Command:
        """As a command."""
        return ("EVALSHA", self.sha, len(keys), *keys, *arguments)


class _Question:
    """Commands of one caller, and the future for its answers."""

    def __init__(
        self, commands: Callable[[], Sequence[Command]], answer: "asyncio.Future[list[Any]]"
    ) -> None:
        self.commands = commands
        self.answer = answer

    def tell(self, found: list[Any]) -> None:
        """Deliver the answers, if the caller still waits."""
        if not self.answer.done():
            self.answer.set_result(found)

    def fail(self, problem: BaseException) -> None:
        """Deliver a failure."""
        if self.answer.done():
            return
        if isinstance(problem, asyncio.CancelledError):
            self.answer.cancel()
        else:
            self.answer.set_exception(problem)


class Client:
    """One server with several addresses, and commands sent to it together."""

    def __init__(
        self,
        settings: Settings,
        *,
        guard: Guard | None = None,
        rules: BreakerRules | None = None,
        worker: str = "",
    ) -> None:
        """`guard` is that of another client of the same server. `worker` names the connections, for all to see."""
        self.settings = settings
        self.name = settings.cluster.name
        self.guard = guard or Guard("Redis", self.healthy, rules=rules)
        self._servers = [_server(settings.redis, address, worker) for address in settings.redis.addresses]
        self._at = 0
        self._is_primary = False
        self._scripts: dict[str, Script] = {}
        self._waiting: list[_Question] = []
        self._talking: asyncio.Future[None] | None = None
        self.trips = 0

    def script(self, name: str) -> Script:
        """Register a script."""
        if name not in self._scripts:
            self._scripts[name] = Script(name)
        return self._scripts[name]

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Any]) -> Any:  # noqa: ANN401
        """Call one script: one round trip."""
        return (await self.send(lambda: [script.call(keys, arguments)]))[0]

    async def send(self, commands: Callable[[], Sequence[Command]]) -> list[Any]:
        """Send commands that may be repeated; EngineAway if they are not answered.

        Commands sent while an answer is awaited share the next round trip: many shards of a worker settle at the same
        time. So blocking commands need a client of their own.
        """
        question = _Question(commands, asyncio.get_running_loop().create_future())
        self._waiting.append(question)
        if self._talking is None or self._talking.done():
            self._talking = asyncio.ensure_future(self._talk())
        return await question.answer

    async def _talk(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, []
            try:
                async with self.guard.guard():
                    await self._ask(asked)
            except EngineError as problem:
                for question in asked:
                    question.fail(_for_one(problem))
            except BaseException as problem:
                for question in asked:
                    question.fail(problem)
                raise

    async def _ask(self, asked: Sequence["_Question"]) -> None:
        """One round trip. EngineAway for commands without an answer, because the server is ill or not there."""
        try:
            answers = await self._answers(asked)
        except PASSING as problem:
            raise self._gone(problem) from None
        except NoPermissionError as problem:
            raise self._forbidden(problem) from None
        ill: Exception | None = None
        for question, found in zip(asked, answers, strict=True):
            wrong = next((each for each in found if isinstance(each, Exception)), None)
            if wrong is None:
                question.tell(found)
            elif isinstance(wrong, PASSING) or str(wrong).startswith(_ILL):
                ill = wrong
            else:
                question.fail(self._forbidden(wrong) if isinstance(wrong, NoPermissionError) else wrong)
        if ill is not None:
            raise self._gone(ill)

    async def _answers(self, asked: Sequence["_Question"]) -> list[list[Any]]:
        server = self._servers[self._at]
        if not self._is_primary:
            await self._prepare(server)
        self.trips += 1
        answers = await _piped(server, [question.commands() for question in asked])
        again = [number for number, found in enumerate(answers) if _has(found, NoScriptError)]
        if again:  # the server was restarted, or its scripts were flushed
            await self._load_scripts(server)
            repeated = await _piped(server, [asked[number].commands() for number in again])
            for number, found in zip(again, repeated, strict=True):
                answers[number] = found
        return answers

    async def healthy(self) -> None:
        """EngineAway unless one of the addresses is a server that accepts writes."""
        for left in reversed(range(len(self._servers))):
            try:
                await self.reach()
            except EngineAway:
                if not left:
                    raise
            else:
                break

    async def reach(self) -> None:
        """EngineAway unless the current address accepts writes; on failure, the next address becomes current."""
        server = self._servers[self._at]
        try:
            await (_sent(server, "PING") if self._is_primary else self._prepare(server))
        except (RedisError, OSError) as problem:
            raise self._gone(problem) from None

    async def _prepare(self, server: "redis.asyncio.Redis") -> None:
        role = await _sent(server, "ROLE")
        if role[0] != b"master":
            raise ReadOnlyError("it is a replica")
        await self._load_scripts(server)
        self._is_primary = True

    async def _load_scripts(self, server: "redis.asyncio.Redis") -> None:
        for script in self._scripts.values():
            await _sent(server, "SCRIPT", "LOAD", script.text)

    def _gone(self, problem: Exception) -> EngineAway:
        address = self.settings.redis.addresses[self._at]
        self._at, self._is_primary = (self._at + 1) % len(self._servers), False
        return EngineAway(f"Redis at {address}: {_why(problem)}")

    def _forbidden(self, problem: NoPermissionError) -> EngineError:
        return _not_allowed(problem, self.settings.redis.addresses[self._at])

    async def check(self, *, durable: bool = True) -> None:
        """Refuse a server that is too old or, if it must be durable, one that would lose data."""
        server, address = self._servers[self._at], self.settings.redis.addresses[self._at]
        try:
            about: dict[str, Any] = await _sent(server, "INFO")
        except (RedisError, OSError) as problem:
            raise (_explained(problem, address) or self._gone(problem)) from None
        version = str(about["redis_version"])
        if tuple(map(int, version.split(".")[:2])) < OLDEST:
            raise unfit("redis.addresses", f"{address} is Redis {version}; run 6.2 or newer")
        if not durable:
            return
        if not about.get("aof_enabled"):
            raise unfit("redis.addresses", f"{address} keeps no append-only file; give it `appendonly yes`")
        policy = about.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise unfit(
                "redis.addresses", f"{address} evicts ({policy}); give it `maxmemory-policy noeviction`"
            )

    async def close(self) -> None:
        """Close every connection."""
        if self._talking is not None:
            self._talking.cancel()
        await closed("Redis", *(server.aclose() for server in self._servers))


async def connect(settings: Settings, *, durable: bool = True, worker: str = "") -> Client:
    """A client of the first address that accepts writes; EngineError if no server is usable.

    A mere cache need not be durable.
    """
    client = Client(settings, rules=None if durable else _CACHE_RULES, worker=worker)
    last: EngineError | None = None
    for _ in settings.redis.addresses:
        try:
            await client.check(durable=durable)
            await client.reach()
        except EngineAway as away:
            last = away
            continue
        except EngineError as error:
            await client.close()
            raise error from None
        return client
    await client.close()
    where = ", ".join(settings.redis.addresses)
    # A server without TLS does not answer a client with it, and a server with TLS hangs up on a client
    # without it.
    fix = f"start it or correct the address, or {'correct' if settings.redis.tls else 'set'} redis.tls"
    why = str(last).partition(": ")[2]  # with one address, naming it once is enough
    raise unfit(
        "redis.addresses",
        f"no server that takes writes answers at {where} ({last if len(settings.redis.addresses) > 1 else why}); {fix}",
    )


def unfit(setting: str, problem: str) -> EngineError:
    """What is wrong with a server, with the setting that names it."""
    return EngineError(f"Redis ({setting}): {problem}")


def _why(problem: Exception) -> str:
    """The system's error for a failed connection, without the address."""
    cause = problem.__cause__ or problem.__context__
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
        return os.strerror(cause.errno)
    return str(problem) or type(problem).__name__


def _explained(problem: Exception, address: str) -> EngineError | None:
    """What is wrong with a server that does answer; None if it does not."""
    said = str(problem) or type(problem).__name__
    if isinstance(problem, NoPermissionError):
        return _not_allowed(problem, address)
    if isinstance(problem, AuthenticationError) or "NOAUTH" in said:
        fix = "correct redis.username or the password (SKITTER_REDIS_PASSWORD or redis.password_file)"
        return unfit("redis.username", f"{address}: {said}; {fix}")
    if isinstance(problem.__context__, ssl.SSLError) or "SSL" in said:
        return unfit("redis.tls", f"{address}: {said}; correct redis.tls or redis.ca_file")
    if isinstance(problem, PASSING):
        return None
    if "DB index" in said:
        return unfit("redis.database", f"{address}: {said}; name one that the server has")
    return unfit("redis.addresses", f"{address}: {said}; let it be a Redis that we may ask for INFO")


def _not_allowed(problem: NoPermissionError, address: str) -> EngineError:
    return unfit("redis.username", f"{address}: {problem}; give this user the right to do it")


def _server(settings: RedisSettings, address: str, worker: str) -> "redis.asyncio.Redis":
    host, colon, port = address.rpartition(":")
    if colon and not port.isdigit():
        raise unfit("redis.addresses", f"{address!r} is no host:port; write for example 127.0.0.1:6379")
    tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": settings.ca_file or None} if settings.tls else {}
    return redis.asyncio.Redis(
        host=host.strip("[]") if colon else address,
        port=int(port) if colon else _DEFAULT_PORT,
        db=settings.database,
        username=settings.username or None,
        password=secret("redis.password_file", settings.password_file) or None,
        client_name=worker or None,
        socket_timeout=_TIMEOUT,
        socket_connect_timeout=_CONNECT,
        retry=Retry(NoBackoff(), 0),  # the caller decides whether to retry
        **tls,
    )


async def _piped(server: "redis.asyncio.Redis", questions: Sequence[Sequence[Command]]) -> list[list[Any]]:
    """One round trip. The error of a single command takes the place of its answer."""
    async with server.pipeline(transaction=False) as pipe:
        for commands in questions:
            for command in commands:
                pipe.execute_command(*command)
        answers = iter(await pipe.execute(raise_on_error=False))
    return [list(islice(answers, len(commands))) for commands in questions]


def _for_one(problem: EngineError) -> EngineError:
    """A copy of the error: each of several callers raises its own."""
    if not isinstance(problem, EngineAway):
        return EngineError(*problem.args)
    own = EngineAway(*problem.args)
    own.again = problem.again
    return own


def _has(answers: Sequence[Any], kind: type[Exception]) -> bool:
    return any(isinstance(answer, kind) for answer in answers)


async def _sent(server: "redis.asyncio.Redis", *command: Any) -> Any:  # noqa: ANN401
    return await server.execute_command(*command)  # type: ignore[no-untyped-call]
