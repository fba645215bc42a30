"""What a job is, and one run of it: the values that the store keeps."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from skitter.settings import SettingsError


class BadJob(SettingsError):  # noqa: N818  it names the thing, as BadSeed does
    """A job that cannot be: the message says what is wrong, and what to write instead."""


class Kind(StrEnum):
    """What each run of a job does."""

    NEW = "new"  # a crawl of its own, in a directory of its own
    REFRESH = "refresh"  # the job's one crawl: its pages are fetched again
    CONTINUE = "continue"  # the job's one crawl goes on where it stopped


class Overlap(StrEnum):
    """What becomes of a run that is due while the last one is not over."""

    SKIP = "skip"
    QUEUE = "queue"  # one waits; while it does, others are skipped


class State(StrEnum):
    """Where a run is. The last five are final."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # somebody asked for it
    SKIPPED = "skipped"  # due while another run of the job was not over
    MISSED = "missed"  # due while no scheduler ran


UNFINISHED = (State.WAITING, State.RUNNING)


class Crawl(Struct, frozen=True, omit_defaults=True):
    """What to crawl: the words of `skitter crawl`, read."""

    urls: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()  # files
    sitemaps: tuple[str, ...] = ()
    config: str = ""  # a settings file
    settings: Mapping[str, str] = field(default_factory=dict)  # by dotted key, as --set reads them
    folder: str = ""  # relative file names begin here


class Notice(Struct, frozen=True, omit_defaults=True):
    """Who hears of the end of a run."""

    webhook: str = ""  # a URL
    secret_file: str = ""  # the key that signs what the webhook gets
    command: str = ""  # a program, with its arguments


class Keep(Struct, frozen=True, omit_defaults=True):
    """How long the crawls of old runs are kept; what is not set does not limit."""

    runs: int | None = None
    seconds: float | None = None


class Job(Struct, frozen=True, kw_only=True):
    """A crawl that is started again and again."""

    name: str
    crawl: Crawl
    kind: Kind = Kind.NEW
    line: str = ""  # when, as a cron line; empty: by hand only
    zone: str = "UTC"
    overlap: Overlap = Overlap.SKIP
    deadline: float | None = None  # seconds after which a missed run is not made up for
    keep: Keep = Keep()
    notice: Notice = Notice()
    created_at: float = 0.0
    # What the store looks at.
    paused: bool = False
    next_due: float | None = None  # the first due time that nothing was decided about yet
    home: str = ""  # the root that has its one crawl; empty: any
    version: int = 1  # changes with every edit


class Run(Struct, frozen=True, kw_only=True):
    """One run of a job. There is at most one for a job and a due time."""

    id: str
    job: str
    due: float
    kind: Kind = Kind.NEW
    by_hand: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str = ""  # why it is in its state, in words
    report: str = ""  # of the crawl, as JSON
    directory: str = ""  # of the crawl, below the root; empty: there is none, or not any more
    # What the store looks at.
    state: State = State.WAITING
    not_before: float = 0.0  # waiting: until then
    owner: str = ""  # the scheduler that runs it
    home: str = ""  # the root that has its crawl
    lease_until: float = 0.0  # running: after this, another scheduler goes on with it
    tries: int = 0
    stop_asked: bool = False
    tell_at: float | None = None  # when to tell of its end next; None: nothing to tell
    tell_tries: int = 0

    @property
    def final(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state not in UNFINISHED


class Ended(Struct, frozen=True):
    """How a process that crawled has ended."""

    exit_code: int  # negative: the signal that killed it
    report: str = ""
    complaint: str = ""  # its last line, if it ended early
