"""Watches over a running crawl: shows its metrics to those who ask, and calls somebody when a rule holds."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from skitter.control.exposing import Exposing
from skitter.control.notifying import Notifier
from skitter.ports import Clock
from skitter.reporting.alerting.history import Numbers
from skitter.reporting.alerting.rules import chosen, metrics_of
from skitter.reporting.alerting.standing import Alerts, as_fields
from skitter.reporting.observation import Observation
from skitter.settings import Settings

_LAST = 5.0  # seconds for the last messages when a crawl ends
log = logging.getLogger("skitter")


class Watch(Struct, frozen=True, kw_only=True):
    """A crawl, or the part of it in one process, as it is watched."""

    settings: Settings
    clock: Clock
    observe: Callable[[], Observation]
    warn: Callable[[str], None]
    name: Mapping[str, str]  # which crawl, for messages
    alerts_file: Path  # what is firing, and what could not be sent yet
    url_file: Path  # where the metrics are


@asynccontextmanager
async def watched(crawl: Watch) -> AsyncIterator["Alerting"]:
    """Serve the metrics, and look at the rules, while a crawl runs. At its end the rules are looked at once more."""
    settings = crawl.settings
    async with AsyncExitStack() as stack:
        if settings.metrics.address not in ("", "off"):
            exposing = Exposing(crawl.observe, crawl.clock.monotonic, settings.metrics.hosts)
            url = await stack.enter_async_context(exposing.serving(settings.metrics.address))
            stack.callback(crawl.url_file.unlink, missing_ok=True)
            crawl.url_file.write_text(f"{url}\n", encoding="ascii")
            log.warning("metrics: %s", url)
        alerting = Alerting(crawl)
        tasks = [asyncio.create_task(alerting.run()), asyncio.create_task(alerting.notifier.run())]
        try:
            yield alerting
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await alerting.end()


class Alerting:
    """The rules over the metrics of a crawl."""

    def __init__(self, crawl: Watch) -> None:
        self._crawl = crawl
        rules = chosen(crawl.settings.alerts)
        self._numbers = Numbers(metrics_of(rules))
        self.notifier = Notifier(crawl.alerts_file, crawl.settings, crawl.clock, crawl.warn)
        self._alerts = Alerts(rules, self.notifier.firing, crawl.clock.now())

    async def run(self) -> None:
        """Look at the rules now and then. Ends by cancellation."""
        while True:
            self.look(self._crawl.observe())
            await asyncio.sleep(self._crawl.settings.alerts.every)

    def look(self, seen: Observation) -> None:
        """Look at the rules once."""
        self._numbers.note(seen)
        changed = self._alerts.look(self._numbers)
        for alert in changed:
            state = "alert" if alert.ended is None else "alert is over"
            self._crawl.warn(f"{state}: {alert.name}: {alert.summary}")
        if changed:
            bodies = [as_fields(alert, self._crawl.name) for alert in changed]
            self.notifier.tell(self._alerts.firing, bodies)

    async def end(self) -> None:
        """The last look, at what the crawl has become, and the last messages."""
        seen = self._crawl.observe()
        last = max(seen.at, self._numbers.now + 0.001)  # a short crawl ends soon after the first look
        self.look(replace(seen, at=last))
        with suppress(asyncio.CancelledError):
            await self.notifier.flush(_LAST)
