"""The parent process: starts the workers, and presents them as one crawl.

Each worker is a process with a socket. The parent listens to all of them, passes links between them, asks all of them
for their state several times a second, and decides from the answers (see `crawl.done` and `crawl.limits`). A worker
that dies, or no longer answers, is started again: its store recovers what it was doing, and sets aside a page that
kills again and again. If the parent dies, its workers save what they have and exit.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skitter import plugins, schedule
from skitter.control.desk import Desk, paused_words
from skitter.control.log import CommandLog
from skitter.control.orders import Answer
from skitter.control.server import ControlServer
from skitter.control.watching import Watch, watched
from skitter.crawl.directory import CrawlDirectory
from skitter.crawl.done import SeedsAre, Snapshot, why_it_ended, why_over
from skitter.crawl.limits import grace_is_over, limit_reached, may_complete
from skitter.events import Event, Events, Stopped, Warned
from skitter.fetch.check import check
from skitter.fleet.carrier import Carrier
from skitter.fleet.control import FleetControl
from skitter.fleet.messages import (
    Account,
    Again,
    Applied,
    Broken,
    Carried,
    Carry,
    Ended,
    Go,
    Halt,
    Heard,
    Idle,
    Importing,
    Message,
    Ready,
    Roots,
    Seeded,
    Start,
)
from skitter.fleet.observing import FleetObserver
from skitter.fleet.processes import COMMAND, WorkerProcess, can_fork, cores
from skitter.fleet.reloading import Reloading
from skitter.fleet.rounds import Rounds
from skitter.fleet.seeding import Seeding
from skitter.model import Counts, Link, Stop
from skitter.ports import Command, Do, StateError
from skitter.reporting.observation import Observation
from skitter.reporting.report import TOP_HOSTS, WARNINGS, Report, Run, link_remarks, total
from skitter.runtime.clock import SystemClock
from skitter.runtime.metrics import Metrics, added_up
from skitter.runtime.process import unwrapped
from skitter.seeds import BadSeed
from skitter.seeds.intake import Intake
from skitter.settings import Settings, SettingsError
from skitter.settings.sites import wants_assets

_ROUND_EVERY = 0.25  # seconds between two questions while there is work
_SOON = 0.01  # … and when a worker says that there is none
_DEATHS = 16  # deaths without progress after which a worker is not started again. A page that kills it is given up sooner
_LONGEST_PAUSE = 5.0  # seconds before a worker is started again
_STATISTICS_EVERY = 1.0


@contextmanager
def assembled(
    path: Path,
    settings: Settings,
    events: Events,
    *,
    keep: Callable[[Intake], None] = lambda _: None,
    command: Sequence[str] = COMMAND,
    tell_requests: bool = False,
) -> Iterator["Fleet"]:
    """Open a crawl directory, new or old, for a fleet of as many workers as the settings say, by default one per
    core.

    `keep` copies seeds into it.
    """
    check(settings)
    schedule.check(settings.schedule)
    plugins.check(settings)
    if settings.parse.main or settings.parse.ocr:
        from skitter import parse  # noqa: PLC0415  the parent parses nothing

        parse.check(settings.parse)
    directory = CrawlDirectory(path)
    wanted = settings.crawl.workers or cores()
    settings = directory.fitted(settings, wanted)
    directory.prepare()
    with directory.locked() as lock:
        directory.begin()
        workers = min(wanted, settings.crawl.shards)
        if workers < settings.crawl.workers:
            text = (
                f"{path} has {settings.crawl.shards} shards, so no more than {workers} workers can share it"
            )
            events.emit(Warned(text))
        fleet = Fleet(
            directory,
            settings,
            events,
            lock=lock,
            workers=workers,
            command=command,
            tell_requests=tell_requests,
        )
        keep(fleet.intake)
        directory.make(settings)
        if command is COMMAND and can_fork():
            for worker in fleet.workers:
                worker.fork(lock)
        try:
            yield fleet
        finally:
            for worker in fleet.workers:
                worker.dismiss()


class Fleet:
    """Runs a crawl on N workers."""

    def __init__(
        self,
        directory: CrawlDirectory,
        settings: Settings,
        events: Events,
        *,
        lock: int,
        workers: int,
        command: Sequence[str] = COMMAND,
        tell_requests: bool = False,
    ) -> None:
        """`lock` is the descriptor that locks the directory; workers keep it too."""
        self.settings = settings
        self.workers = [
            WorkerProcess(number, range(number, settings.crawl.shards, workers)) for number in range(workers)
        ]
        self._directory = directory
        self._events = events
        self._lock = lock
        self._command = command
        self._tell_requests = tell_requests
        self._carrier = Carrier({shard: worker for worker in self.workers for shard in worker.shards})
        self._started = 0
        self.intake = Intake(directory.seeds, settings.urls)
        self._seeding = Seeding(self.intake, self.workers[0].say)
        self._rounds = Rounds(self.workers, self._carrier, settings.crawl, events)
        self._look = asyncio.Event()
        self._stop: Stop | None = None
        self._at_once = False
        self._broken: StateError | SettingsError | None = None
        self._warnings: list[str] = []
        self._said_once: set[str] = set()
        events.subscribe(self._remember)
        self._log = CommandLog(directory.commands_file)
        self._server = ControlServer(events)
        self._reloading = Reloading(directory, self.workers)
        self._clock = SystemClock()
        self._observer = FleetObserver(self.workers, directory.path, self._clock)
        self._control = FleetControl(
            self, self.workers, self._log, self._seeding, self.intake, lambda: self._stop is not None
        )

    # -- from outside ----------------------------------------------------------------------------------------

    async def run(self, seeds: Iterable[Link | BadSeed] = ()) -> Report:
        """Crawl until nothing is left, a limit is reached or `stop` is called. More seeds are kept in `intake`."""
        started, began = time.time(), time.monotonic()
        await asyncio.to_thread(self.intake.keep_links, seeds)
        if self.paused:
            self._events.emit(Warned(paused_words(self._directory.path)))
        desk = Desk(self._log, self.settings.urls, self._control)
        async with self._server.serving(self._directory.control_socket, desk):
            try:
                async with watched(self._watched()):
                    await unwrapped(self._run(began))
            finally:
                self.intake.close()
            self._warn([*self.intake.left_out(), *self.intake.broken_off(now=True)])
            if self._broken is not None:
                raise self._broken
            report = self._report(Run(started, began, sum(worker.had or 0 for worker in self.workers)))
            self._events.emit(Stopped(report.outcome, self.counts))
        return report

    async def _run(self, began: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            others = [
                tasks.create_task(self._take_in_seeds()),
                tasks.create_task(self._ask_round_after_round(began)),
            ]
            await asyncio.gather(*(tasks.create_task(self._keep_alive(worker)) for worker in self.workers))
            for other in others:
                other.cancel()

    def observe(self) -> Observation:
        """The crawl as it is now, for its metrics and alerts."""
        finished = self._stop is Stop.DONE and all(worker.ended is not None for worker in self.workers)
        return self._observer.observe(self.settings, self.counts, paused=self.paused, finished=finished)

    def _watched(self) -> Watch:
        return Watch(
            settings=self.settings,
            clock=self._clock,
            observe=self.observe,
            warn=lambda text: self._events.emit(Warned(text)),
            name={"crawl": self._directory.path.absolute().name},
            alerts_file=self._directory.alerts_file,
            url_file=self._directory.metrics_file,
        )

    def stop(self, why: Stop = Stop.INTERRUPTED) -> None:
        """Finish what is in flight, save, and let `run` return. The first reason counts."""
        self._stop = self._stop or why
        self._halt()

    def stop_at_once(self) -> None:
        """Cancel what is in flight. No data is lost."""
        self._at_once = True
        self.stop()

    async def reload(self, words: str) -> Answer:
        """Take over other settings, given as TOML. SettingsError if they cannot be used."""
        settings, changes = await self._reloading.judged(words, self.settings)
        if not changes:
            return Answer(said="nothing has changed", changed=0)
        self._directory.make(settings)  # if that fails, those of before are still in force
        self.settings = settings
        self._rounds.limits = settings.crawl
        return await self._reloading.replace(changes)

    def pause(self) -> None:
        """Pause before it runs, as `skitter pause` would."""
        if not self.paused:
            self._log.append(Command(0, Do.PAUSE, at=time.time()))

    @property
    def paused(self) -> bool:
        """Whether a person has paused the crawl."""
        return self._log.paused

    @property
    def counts(self) -> Counts:
        """The counts of the crawl, as last reported by the workers."""
        return total([worker.counts for worker in self.workers])

    @property
    def pages_of_this_run(self) -> int:
        """Pages stored since the workers were first opened, as last reported."""
        return sum(worker.counts.pages - worker.had for worker in self.workers if worker.had is not None)

    @property
    def accounts(self) -> list[Account]:
        """The last answers of the workers."""
        return [worker.account for worker in self.workers if worker.account is not None]

    # -- the life of a worker --------------------------------------------------------------------------------

    async def _keep_alive(self, worker: WorkerProcess) -> None:
        """Start a worker, and again whenever it dies, until it has ended properly."""
        while worker.ended is None and self._broken is None:
            self._started += 1
            worker.life = self._started
            path, shards = str(self._directory.path), list(worker.shards)
            orders = Start(
                path, shards, len(self.workers), self._started, self._tell_requests, self._seeding.held
            )
            await worker.start(self._command, self._lock, orders)
            await self._listen(worker)
            code = await worker.hung_up()
            self._carrier.forget(worker.shards)
            self._rounds.answered()
            if worker.importing:
                self._break(SettingsError(plugins.died(worker.importing, code)))
            if worker.ended is None and self._broken is None and not self._reloading.left(worker):
                self._note_death(worker, code)
                await asyncio.sleep(min(_LONGEST_PAUSE, 0.05 * 2**worker.deaths))

    async def _listen(self, worker: WorkerProcess) -> None:
        line = worker.line
        while line is not None and (message := await line.hear()) is not None:
            self._hear(worker, message)

    def _note_death(self, worker: WorkerProcess, code: int) -> None:
        worker.deaths += 1
        self._observer.deaths += 1
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._events.emit(Warned(f"worker {worker.number} died ({how}); it is started again"))
        if worker.deaths >= _DEATHS:
            text = f"worker {worker.number} died {_DEATHS} times without getting anywhere, last with {how}"
            self._break(StateError(text))

    def _break(self, problem: StateError | SettingsError) -> None:
        """Nothing can go on. Let the others save what they have."""
        self._broken = self._broken or problem
        self.stop(Stop.INTERRUPTED)

    def _halt(self) -> None:
        if self._stop is not None:
            self._tell_everybody(Halt(self._stop, self._at_once))

    # -- what workers say ------------------------------------------------------------------------------------

    def _hear(self, worker: WorkerProcess, message: Message) -> None:  # noqa: C901, PLR0912  one arm per message
        match message:
            case Carry():
                self._carrier.carry(message)
            case Carried():
                self._carrier.carried(message)
            case Account():
                self._note(worker, message)
            case Idle():
                self._look.set()
            case Heard(Warned(_, once)) if once in self._said_once:
                pass
            case Heard(event):
                if isinstance(event, Warned) and event.once:
                    self._said_once.add(event.once)
                self._events.emit(event)
            case Roots():
                self._tell_everybody(message, but=worker)
            case Seeded(number):
                if self._seeding.seeded(number):
                    self._tell_everybody(Go())
            case Ready():
                self._welcome(worker, message)
            case Applied():
                self._control.applied(worker, message)
                self._look.set()
            case Ended() if self._stop is None and self._reloading.is_leaving(worker):
                worker.counts, worker.ready = message.counts, False
                self._rounds.answered()
            case Ended():
                worker.ended, worker.counts, worker.ready = message, message.counts, False
                self._rounds.answered()
                if self._stop is None:  # it reached a limit of its own, such as a full disk
                    self.stop(message.why)
            case Importing(plugin):
                worker.importing = plugin
            case Broken(problem, wrong_settings):
                worker.importing = ""
                self._break(SettingsError(problem) if wrong_settings else StateError(problem))
            case _:
                raise AssertionError(message)

    def _note(self, worker: WorkerProcess, account: Account) -> None:
        if account.counts.requests + account.counts.failed > worker.counts.requests + worker.counts.failed:
            worker.deaths = 0
        worker.account, worker.counts = account, account.counts
        self._observer.heard(worker, account)
        self._rounds.answered()

    def _welcome(self, worker: WorkerProcess, message: Ready) -> None:
        counts = message.counts
        worker.ready, worker.counts = True, counts
        self._control.welcome(worker, message)
        worker.had = counts.pages if worker.had is None else worker.had
        self._tell_everybody(Again(list(worker.shards)), but=worker)
        if worker is self.workers[0]:
            self._seeding.again()
        if not self._seeding.held:
            worker.say(Go())
        self._reloading.welcome(worker, message)
        self._halt()
        self._look.set()

    def _tell_everybody(self, message: Message, but: WorkerProcess | None = None) -> None:
        for worker in self.workers:
            if worker is not but:
                worker.say(message)

    # -- seeds -----------------------------------------------------------------------------------------------

    async def _take_in_seeds(self) -> None:
        self._warn(self.intake.broken_off(now=False))
        while True:
            await self._seeding.run()
            self._tell_everybody(Go())
            self._look.set()
            await self._seeding.more_come()

    # -- rounds ----------------------------------------------------------------------------------------------

    async def _ask_round_after_round(self, began: float) -> None:
        before: Snapshot | None = None
        told = 0.0
        while True:
            now = await self._rounds.ask(self._seeding)
            if now is None:
                before = None
            elif self._stop is None:
                if self.paused:  # a limit may end it, but not that nothing is left to do
                    before = None
                self._decide(before, now, time.monotonic() - began)
                before = None if self.paused else now
            over = self._stop is Stop.LIMIT and grace_is_over(self.settings.crawl, time.monotonic() - began)
            if over and not self._at_once:
                self.stop_at_once()
            if time.monotonic() >= told + _STATISTICS_EVERY:
                told = time.monotonic()
                self._write_statistics(added_up([account.metrics for account in self.accounts]))
            quiet = before is not None and before.quiet and self._seeding.state is SeedsAre.STORED
            with suppress(TimeoutError):
                async with asyncio.timeout(_SOON if quiet else _ROUND_EVERY):
                    await self._look.wait()
            self._look.clear()

    def _decide(self, before: Snapshot | None, now: Snapshot, elapsed: float) -> None:
        counts = [part.counts for part in now.parts.values()]
        received = sum(each.bytes for each in counts)
        limit = limit_reached(
            self.settings.crawl,
            pages=sum(each.pages for each in counts),
            received=received,
            elapsed=elapsed,
        )
        completing = bool(limit) and wants_assets(self.settings)
        completing = completing and may_complete(self.settings.crawl, received=received, elapsed=elapsed)
        complete = before is not None and before.quiet and now.quiet and now.same_as(before)
        if why := why_over(before, now, at_limit=bool(limit) and (not completing or complete)):
            self.stop(Stop.LIMIT if completing and why is Stop.DONE else why)
        self._rounds.completing = completing

    # -- the end ---------------------------------------------------------------------------------------------

    def _write_statistics(self, measured: Metrics) -> None:
        with suppress(OSError):  # a full disk must not fail the crawl over numbers
            self._directory.write_statistics(measured)

    def _report(self, run: Run) -> Report:
        ends = [worker.ended for worker in self.workers if worker.ended is not None]
        hosts = [host for end in ends for host in end.hosts]
        hosts.sort(key=lambda host: (host.pages, host.requests, host.host), reverse=True)
        work_left = self._seeding.state is not SeedsAre.STORED or any(end.work_left for end in ends)
        why = why_it_ended(self._stop, work_left=work_left)
        measured = added_up([end.metrics for end in ends])
        self._write_statistics(measured)
        for text in link_remarks(measured.links):
            self._events.emit(Warned(text))
        return run.report(
            why,
            self.counts,
            (time.time(), time.monotonic()),
            directory=str(self._directory.path),
            hosts=hosts[:TOP_HOSTS],
            warnings=self._warnings,
            metrics=measured,
            limits=self.settings.crawl,
            failed={origin: why for end in ends for origin, why in end.failed.items()},
        )

    def _warn(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._events.emit(Warned(text))

    def _remember(self, event: Event) -> None:
        if isinstance(event, Warned) and len(self._warnings) < WARNINGS:
            self._warnings.append(event.text)
