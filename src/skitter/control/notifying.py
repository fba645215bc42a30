"""Brings messages about alerts to a webhook or a command, at least once each.

A message is on the disk before it is sent, and leaves it when somebody has taken it. So it may arrive twice, with the same
`id`, if the process dies in between; what could not be delivered when a crawl ended is sent when it next runs.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skitter.control.webhook import post
from skitter.ports import Clock
from skitter.reporting.alerting.standing import Alert
from skitter.runtime import durable
from skitter.settings import FetchSettings, Settings
from skitter.settings.secrets import secret

MOST = 1_000  # messages that wait; with more, the oldest are dropped
_PAUSES = (1.0, 5.0, 15.0, 60.0, 300.0)  # seconds before another try; then always the last
_COMMAND_TIME = 30.0  # seconds for a command


class Message(Struct, frozen=True):
    """A message about an alert, for one receiver."""

    id: str
    to: str  # webhook or command
    body: Mapping[str, object]


class Kept(Struct):
    """What is on the disk: the alerts that are firing, and the messages that nobody has taken yet."""

    firing: Sequence[Alert] = ()
    unsent: Sequence[Message] = ()


def read(path: Path) -> Kept:
    """What was written last; nothing if there is none, or if another version wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return Kept()


class Notifier:
    """Messages on their way."""

    def __init__(self, path: Path, settings: Settings, clock: Clock, complain: Callable[[str], None]) -> None:
        self._path = path
        self._settings = settings.alerts
        self._fetch = _sending(settings)
        self._clock = clock
        self._complain = complain
        self._secret = secret("alerts.secret_file", settings.alerts.secret_file)
        kept = read(path)
        self.firing: Sequence[Alert] = kept.firing
        self._unsent: deque[Message] = deque(kept.unsent, maxlen=MOST)
        self._more = asyncio.Event()
        self._failed = 0  # tries in a row
        if self._unsent:
            self._more.set()

    def tell(self, firing: Sequence[Alert], bodies: Sequence[Mapping[str, object]]) -> None:
        """Keep what is firing, and messages to send. They survive a crash when this returns."""
        self.firing = firing
        receivers = [name for name in ("webhook", "command") if getattr(self._settings, name)]
        for body in bodies:
            number = uuid4().hex
            self._unsent += [Message(f"{number}-{to}", to, {"id": number, **body}) for to in receivers]
        self._write()
        if self._unsent:
            self._more.set()

    async def run(self) -> None:
        """Send what waits, one after the other. Ends by cancellation."""
        while True:
            await self._more.wait()
            if not self._unsent:
                self._more.clear()
                continue
            if await self._send_first():
                self._failed = 0
                continue
            self._failed += 1
            await asyncio.sleep(_PAUSES[min(self._failed, len(_PAUSES)) - 1])

    async def flush(self, patience: float) -> None:
        """Send what waits, once each, as far as there is time for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                for _ in range(len(self._unsent)):
                    if not await self._send_first():
                        return

    async def _send_first(self) -> bool:
        message = self._unsent[0]
        body = msgspec.json.encode(message.body)
        send: Callable[[Message, bytes], Awaitable[str]] = (
            self._post if message.to == "webhook" else self._command
        )
        problem = await send(message, body)
        if problem:
            if not self._failed:
                self._complain(f"an alert could not be sent ({message.to}: {problem}); it is tried again")
            return False
        if self._unsent and self._unsent[0] is message:
            self._unsent.popleft()
        self._write()
        return True

    async def _post(self, message: Message, body: bytes) -> str:
        return await post(self._settings.webhook, body, message.id, self._fetch, self._clock, self._secret)

    async def _command(self, message: Message, body: bytes) -> str:
        said = {
            "SKITTER_ALERT": str(message.body["alert"]),
            "SKITTER_ALERT_STATE": str(message.body["state"]),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                *self._settings.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=os.environ | said,
                start_new_session=True,
            )
        except OSError as problem:
            return problem.strerror or str(problem)
        try:
            async with asyncio.timeout(_COMMAND_TIME):
                await process.communicate(body)
        except TimeoutError:
            return f"not finished after {_COMMAND_TIME:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return f"exit code {process.returncode}" if process.returncode else ""

    def _write(self) -> None:
        with suppress(OSError):  # a full disk must not end the crawl; the messages are still in memory
            durable.write(self._path, msgspec.json.encode(Kept(list(self.firing), list(self._unsent))))


def _sending(settings: Settings) -> FetchSettings:
    """How webhooks are sent: as the crawler that we are, but without what belongs to sites."""
    own = FetchSettings()
    return replace(
        own,
        user_agent=settings.fetch.user_agent,
        contact=settings.fetch.contact,
        ca_file=settings.fetch.ca_file,
        nameservers=settings.fetch.nameservers,
        resolve=settings.fetch.resolve,
        allow_private=settings.alerts.allow_private,
    )
