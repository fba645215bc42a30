"""A crawl directory: the settings it was made with, its roots, its lock, and where everything else lies.

    crawl.toml · scopes.txt · roots.txt · lock · state/NN/ · archive/NN-*.warc.gz · log/requests-NN.jsonl · search.sqlite
    commands.jsonl · control

Only `crawl` and `resume` take the lock; everything that reads works while a crawl runs. NN is the number of a shard.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from skitter.ports import StateError
from skitter.reporting.format import counted
from skitter.runtime import durable
from skitter.runtime.metrics import Metrics
from skitter.settings import Settings, SettingsError
from skitter.settings.file import dump, load
from skitter.settings.sites import judging_settings

# What a crawl directory may hold before its settings are written.
_OURS = frozenset(
    {
        "archive",
        "commands.jsonl",
        "control",
        "crawl.toml.new",
        "lock",
        "log",
        "roots.txt",
        "scopes.txt",
        "scopes.txt.new",
        "seeds",
        "state",
    }
)
# What is in the folder of a store that is gone, or was never started.
_NO_STORE = frozenset({"hand", "summary", "LOCK", "rocksdict-config.json"})
# Fixed once a crawl exists: with other values, keys would no longer find their records.
FIXED = ("urls",)
# The last line of crawl.toml. Without it, a truncated file would pass for one with default settings.
END_OF_SETTINGS = "# end of settings"
_ORPHANS = 30.0  # seconds to wait for the workers of a dead parent


class CrawlDirectory:
    """Paths and small files of one crawl."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings_file = path / "crawl.toml"
        self.scopes_file = path / "scopes.txt"
        self.roots_file = path / "roots.txt"
        self.statistics_file = path / "log" / "statistics.json"
        self.alerts_file = path / "log" / "alerts.json"  # those that are firing; see `control.notifying`
        self.metrics_file = path / "log" / "metrics.url"  # where they are served, while the crawl runs
        self.scorer_log = path / "log" / "scorer.jsonl"  # links that the user's own scorer failed for
        self.permits_file = path / "log" / "permits"  # of the workers of one run
        self.search_file = path / "search.sqlite"  # created and updated by `search`
        self.captures_file = path / "replay.sqlite"  # created and updated by `replay`
        self.archive = path / "archive"
        self.seeds = path / "seeds"  # seeds not stored yet; see `intake`
        self.commands_file = path / "commands.jsonl"  # what it was told while it ran; see `control`
        self.control_socket = path / "control"

    @property
    def exists(self) -> bool:
        """Whether there is a crawl here."""
        return self.settings_file.is_file()

    def state(self, shard: int) -> Path:
        """The folder of a shard's frontier and records."""
        return self.path / "state" / f"{shard:02d}"

    def files(self) -> list[str]:
        """The names of the archive files here."""
        return sorted(path.name for path in self.archive.glob("*.warc.gz"))

    def files_gone(self, shard: int, numbers: Sequence[int]) -> str:
        """A warning about missing archive files. Somebody may have moved them, so the crawl continues."""
        named = ", ".join(f"{shard:02d}-*-{number:05d}.warc.gz" for number in numbers[:3]) + (
            ", …" if len(numbers) > 3 else ""
        )
        return (
            f"{counted(len(numbers), 'file')} of the archive cannot be found ({named}), so the pages in it cannot be read; unless "
            f"you moved it away, see: skitter check {self.path}"
        )

    def request_log(self, shard: int) -> Path:
        """The shard's request log."""
        return self.path / "log" / f"requests-{shard:02d}.jsonl"

    def patterns_file(self, shard: int) -> Path:
        """What the shard has learnt about which URL patterns need a browser."""
        return self.path / "log" / f"patterns-{shard:02d}.jsonl"

    def prepare(self, *, state_elsewhere: bool = False) -> None:
        """Create what is missing. Refuses a directory with other files, or an archive without state.

        The state of a cluster's shards is on its engines: a worker's directory has none.
        """
        strangers = {entry.name for entry in self.path.iterdir()} - _OURS if self.path.is_dir() else set()
        if strangers and not self.exists:
            raise StateError(
                f"{self.path} is not empty and holds no crawl (there is {min(strangers)} in it); name another directory with -o"
            )
        if not state_elsewhere and not self.exists and self._shards_in_use():
            raise StateError(
                f"{self.path / 'state'} holds the state of a crawl, but its settings in {self.settings_file} are gone; bring "
                "them back, or start another crawl with -o"
            )
        if not state_elsewhere and (shard := self._without_state()) is not None:
            raise StateError(
                f"{self.archive} holds an archive, but its state in {self.state(shard)} is gone; move the archive away, "
                "bring the state back, or start another crawl with -o"
            )
        for folder in (self.path, self.path / "state", self.archive, self.path / "log"):
            durable.make_folder(folder)

    def accounts_file(self, groups: Sequence[str]) -> Path:
        """What shards have used of the budgets of these groups, for the workers of one run under the same settings."""
        layout = hashlib.blake2b(",".join(groups).encode(), digest_size=8).hexdigest()
        return self.permits_file.with_name(f"{self.permits_file.name}.accounts-{layout}")

    def forget_accounts(self) -> None:
        """Workers that are started from now on tell each other anew what they have used; the others keep what they have open."""
        for file in self.permits_file.parent.glob(f"{self.permits_file.name}.accounts-*"):
            file.unlink(missing_ok=True)

    def begin(self) -> None:
        """Under the lock, before seeds are kept: remove what is left of the last run, and of a crawl never created."""
        for file in self.permits_file.parent.glob(f"{self.permits_file.name}*"):
            file.unlink(missing_ok=True)
        if not self.exists and self.seeds.is_dir():
            shutil.rmtree(self.seeds)
        if not self.exists:
            self.commands_file.unlink(missing_ok=True)

    def make(self, settings: Settings) -> None:
        """Write the settings, and create a folder for each shard's state, before any of them is used.

        From here on there is a crawl to continue, so its seeds are kept before.
        """
        self._note_scope(settings)  # first: it must be known before a link is accepted under these settings
        self.write_settings(settings)
        for shard in range(max(1, settings.crawl.shards)):
            durable.make_folder(self.state(shard))

    def _without_state(self) -> int | None:
        """A shard with archive files and no store. Starting it again would delete them."""
        for shard in {int(number) for name in self.files() if (number := name.partition("-")[0]).isdigit()}:
            if not any(entry.name not in _NO_STORE for entry in self.state(shard).glob("*")):
                return shard
        return None

    def in_use(self) -> bool:
        """Whether a crawl runs here now."""
        try:
            with (self.path / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # it does not exist, or we may not read it
            return False
        return False

    def check_cluster(self, name: str) -> None:
        """Refuse the archive of another crawl: here, its answers would count as never settled and be cut off."""
        if not self.exists or not self.files():
            return
        made_by = self.read_settings().cluster
        if made_by.size == "none" or made_by.name != name:
            whose = "a crawl on one machine" if made_by.size == "none" else f"the cluster {made_by.name}"
            raise StateError(
                f"{self.archive} holds the archive of {whose}, not of {name}; name another directory with -o, or move it away"
            )

    def check_same_cluster(self, settings: Settings) -> None:
        """SettingsError unless this is the directory of a worker of this cluster."""
        other = self.read_settings().cluster
        if other.size == "none" or settings.cluster.size == "none":
            raise SettingsError(
                f"{self.path} is no directory of a worker of the same cluster; read one crawl at a time"
            )
        if (other.name, other.size) != (settings.cluster.name, settings.cluster.size):
            raise SettingsError(
                f"{self.path} is of the cluster {other.name}, not of {settings.cluster.name}; read one crawl at a time"
            )

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Lock the crawl: one run at a time. The lock is a file descriptor, and ends with the last process that has
        it.
        """
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._lock(handle)
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
            yield handle
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        patience = time.monotonic() + _ORPHANS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(handle, 32, 0).decode(errors="replace").strip()
                # Workers whose parent was killed give their shards back and exit. That takes a moment.
                if not _alive(owner) and time.monotonic() < patience:
                    time.sleep(0.05)
                    continue
                raise StateError(
                    f"{self.path} is in use by process {owner or 'unknown'}; wait for it, stop it, or choose another directory with -o"
                ) from None
            return

    def read_settings(self) -> Settings:
        """The settings the crawl was created with."""
        if not self.exists:
            raise StateError(
                f"{self.path} holds no crawl (there is no crawl.toml in it); start one with: skitter crawl URL -o {self.path}"
            )
        settings = load(self.kept_settings(), {}, {})
        self._check_shards(settings)
        return settings

    def kept_settings(self) -> Path | None:
        """The settings file of the crawl here; None if there is no crawl. An incomplete one is refused."""
        if not self.exists:
            return None
        lines = self.settings_file.read_bytes().rstrip().splitlines()
        if not lines or lines[-1].strip() != END_OF_SETTINGS.encode():
            raise StateError(
                f"{self.settings_file} does not end with the line {END_OF_SETTINGS!r}, so a part of it may be lost; if it is "
                "whole, add that line; else write the settings again that the crawl was made with, or start another crawl with -o"
            )
        return self.settings_file

    def _check_shards(self, settings: Settings) -> None:
        """All shard folders are created before one is used: others, or fewer, belong to other settings."""
        if settings.cluster.size != "none":
            return
        made = {entry.name for entry in self.path.glob("state/*") if entry.is_dir()}
        wanted = {self.state(shard).name for shard in range(max(1, settings.crawl.shards))}
        used = self._shards_in_use()
        if used - wanted or (used and wanted - made):
            raise StateError(
                f"{self.settings_file} says crawl.shards = {settings.crawl.shards}, and {self.path / 'state'} holds "
                f"{', '.join(sorted(made))}; bring back what was changed or lost, or start another crawl with -o"
            )

    def _shards_in_use(self) -> set[str]:
        """The names of the folders in state/ that are not empty."""
        return {entry.name for entry in self.path.glob("state/*") if entry.is_dir() and any(entry.iterdir())}

    def shortage(self, least: int) -> str:
        """A message if less than that many bytes are free on its disk (`crawl.min_free_disk`); else empty."""
        free = shutil.disk_usage(self.path).free
        if free >= least:
            return ""
        return f"only {free >> 20} MiB are free on the disk of {self.path} (crawl.min_free_disk)"

    def write_settings(self, settings: Settings) -> None:
        """Write the settings, atomically."""
        durable.write(self.settings_file, f"{dump(settings)}\n{END_OF_SETTINGS}\n".encode())

    def fitted(self, settings: Settings, workers: int) -> Settings:
        """The settings with the crawl's number of shards; for a new crawl one per worker, unless they say otherwise.

        Raises SettingsError if they differ where they may not from those the crawl was created with.
        """
        if settings.cluster.size != "none":
            raise SettingsError(
                f"cluster.size is {settings.cluster.size}, and this would crawl on one machine; bring the seeds with "
                "`skitter cluster add` and start workers with `skitter work`, or leave [cluster] out"
            )
        shards = settings.crawl.shards or workers
        if self.exists:
            made_with = self.read_settings()
            for section in FIXED:
                if getattr(settings, section) != getattr(made_with, section):
                    raise SettingsError(self._fixed(f"the settings in [{section}] differ"))
            shards = max(1, made_with.crawl.shards)
            if settings.crawl.shards not in (0, shards):
                raise SettingsError(self._fixed(f"crawl.shards = {settings.crawl.shards} differs"))
        return replace(settings, crawl=replace(settings.crawl, shards=shards))

    def _fixed(self, what: str) -> str:
        return (
            f"{what} from what {self.path} was made with, and would no longer find its URLs; "
            f"leave it as it is in {self.settings_file}, or start another crawl with -o"
        )

    def write_statistics(self, metrics: Metrics) -> None:
        """Write the numbers that are only in memory to a file, for `status`, which is another process."""
        draft = self.statistics_file.with_suffix(".json.new")
        draft.write_bytes(msgspec.json.encode(metrics))
        draft.replace(self.statistics_file)

    def read_statistics(self) -> Metrics:
        """The numbers as last written; none before the first second of a crawl."""
        try:
            return msgspec.json.decode(self.statistics_file.read_bytes(), type=Metrics)
        except (FileNotFoundError, msgspec.DecodeError):  # of another version, perhaps
            return Metrics()

    @property
    def scope_changed(self) -> bool:
        """Whether the crawl ran under several settings of [scope]: waiting URLs may have been accepted under others."""
        return len(self._scopes()) > 1

    def _scopes(self) -> list[str]:
        """A digest of each [scope] that the crawl ran under. crawl.toml cannot tell: people may edit it."""
        return self.scopes_file.read_text(encoding="ascii").split() if self.scopes_file.is_file() else []

    def _note_scope(self, settings: Settings) -> None:
        scope = hashlib.sha256(judging_settings(settings)).hexdigest()[:16]
        known = self._scopes() or (
            ["unknown"] if self.exists else []
        )  # created by a version that did not record it
        if scope not in known:
            durable.write(self.scopes_file, "".join(f"{each}\n" for each in [*known, scope]).encode())

    def roots(self) -> list[str]:
        """The roots of the scope: the seeds, and the targets of their redirects."""
        if not self.roots_file.is_file():
            return []
        whole, _, _ = self.roots_file.read_text(encoding="utf-8").rpartition("\n")  # see _cut_torn_line
        return whole.split("\n") if whole else []

    def add_roots(self, roots: Iterable[str]) -> None:
        """Store more roots before anything depends on them: they are on the disk when this returns."""
        with self.roots_file.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # every worker appends to it
            _cut_torn_line(file)
            is_new = file.seek(0, os.SEEK_END) == 0
            file.write("".join(f"{root}\n" for root in roots).encode())
            file.flush()
            os.fsync(file.fileno())
            if is_new:
                durable.sync_folder(self.path)


def _cut_torn_line(file: BinaryIO) -> None:
    """Remove a last line torn by a crash. Nothing depends on it yet, and half a URL is another one."""
    if file.seek(0, os.SEEK_END) == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
