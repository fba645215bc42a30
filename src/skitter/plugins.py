"""User code: modules that a person names in `crawl.plugins` or with `--with`, and entry points of the group "skitter".

`load` imports them in this process; every process that judges links does that before its first visit. `check` imports
them first in a process of its own, so that a plug-in that raises, crashes or hangs at import is one clear line, before
anything is fetched or written. Plug-ins run with the rights of the crawler.

The first use is `schedule.strategy = "module:function"`: a function that gets a `FoundLink` and returns its score.
"""

import faulthandler
import importlib.util
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import IO, TypeVar

from msgspec import Struct

from skitter.model import Hints
from skitter.settings import Settings, SettingsError
from skitter.settings.rules import is_file_name

T = TypeVar("T")

GROUP = "skitter"  # of entry points
DEADLINE = 10.0  # seconds for importing all plug-ins
_GRACE = 5.0  # seconds after which a process that ignores the deadline is killed
_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+)')
_ELSEWHERE = (__file__, "<frozen")
_OURS = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  compared with the names in tracebacks


class PluginError(SettingsError):
    """A plug-in cannot be used. The message names its file and line."""


class FoundLink(Struct, frozen=True, kw_only=True, gc=False):
    """A link as a scorer sees it. More fields may be added in later versions."""

    url: str  # what would be fetched
    host: str
    depth: int  # links between a seed and this page
    parent: str = ""  # URL of the page it was found on; empty for a seed
    parent_score: float = 0.0
    in_links: int = 0  # links to it that this process has seen while it waits, including this one
    seed: bool = False
    hints: Hints | None = None  # what the page or the seed file says about it: rel, lastmod, priority


Scorer = Callable[[FoundLink], float]
"""A user's function: the higher the score, the sooner the link is fetched, within its level and host."""


def is_own(strategy: str) -> bool:
    """Whether a strategy is a user's function, module:function."""
    return ":" in strategy


class Plugins:
    """The imported plug-ins, by the name that "module:function" calls them: the stem of a file, or a module."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self._modules = modules

    def scorer(self, strategy: str) -> Scorer | None:
        """The function that a strategy names; None for one of Skitter's own."""
        if not is_own(strategy):
            return None
        name, _, function = strategy.partition(":")
        setting = f'schedule.strategy = "{strategy}"'
        module = self._modules.get(name) or _imported(name, setting)
        where = getattr(module, "__file__", None) or name
        found: Scorer | None = getattr(module, function, None)
        if found is None:
            raise PluginError(f"{where}: has no function {function} ({setting}){_known(module)}")
        if not callable(found):
            raise PluginError(f"{where}: {function} is not a function ({setting}){_known(module)}")
        if inspect.iscoroutinefunction(found):
            line = inspect.getsourcelines(found)[1]
            raise PluginError(
                f"{where}:{line}: {function} must be a plain function, without async ({setting})"
            )
        return found


def _known(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    return f"; its functions are {', '.join(names[:10])}" if names else ""


# ------------------------------------------------------------------------------------------------ to modules


def used(settings: Settings) -> bool:
    """Whether there is user code to import."""
    return (
        bool(settings.crawl.plugins)
        or is_own(settings.schedule.strategy)
        or _has_entry_points(tuple(sys.path))
    )


def load(settings: Settings, before: Callable[[str], None] = lambda _: None) -> Plugins:
    """Import the plug-ins in this process, once. `before` hears which one is next. Raises PluginError."""
    modules: dict[str, ModuleType] = {}
    for name in settings.crawl.plugins:
        before(name)
        module = _from_file(Path(name)) if is_file_name(name) else _imported(name, "crawl.plugins")
        short = module.__name__
        if short in modules and modules[short] is not module:
            raise PluginError(f"{name}: another plug-in has the name {short}; rename one of them")
        modules[short] = module
    if _has_entry_points(tuple(sys.path)):
        modules |= _from_entry_points(before)
    before(settings.schedule.strategy)
    plugins = Plugins(modules)
    plugins.scorer(settings.schedule.strategy)
    return plugins


def _from_file(path: Path) -> ModuleType:
    name = path.name.removesuffix(".py")
    there = sys.modules.get(name)
    if there is not None and getattr(there, "__file__", None) == str(path):
        return there
    if not path.is_file():
        raise PluginError(
            f"{path}: the plug-in is not there; say where it is now with --with FILE, or in crawl.plugins"
        )
    if there is not None or _is_taken(name, path):
        raise PluginError(f"{path}: there is a module {name} already, which it would hide; rename the file")
    loader = SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None  # noqa: S101  it has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        _guarded(lambda: loader.exec_module(module), str(path))
    except PluginError:
        del sys.modules[name]
        raise
    return module


def _is_taken(name: str, path: Path) -> bool:
    """Whether `import name` would find something else."""
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() != path.resolve()


def _imported(name: str, setting: str) -> ModuleType:
    def fetch() -> ModuleType:
        try:
            return import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
                raise
            raise PluginError(
                f"{setting}: there is no module {name}; name its file with --with FILE or in crawl.plugins, or install it"
            ) from None

    return _guarded(fetch, name)


def _from_entry_points(before: Callable[[str], None]) -> dict[str, ModuleType]:
    from importlib.metadata import entry_points  # noqa: PLC0415  it takes 40 ms to load

    modules = {}
    for point in entry_points(group=GROUP):
        whose = point.dist.name if point.dist else "a package"
        label = f"entry point {point.name} of {whose}"
        before(label)
        try:
            _guarded(point.load, label)
            modules[point.name] = _guarded(partial(import_module, point.module), label)
        except PluginError as problem:
            raise PluginError(f"{problem} ({label}; repair or uninstall {whose})") from None
    return modules


@cache
def _has_entry_points(path: tuple[str, ...]) -> bool:
    """Whether a package on the path has entry points of our group.

    A crawl without any pays for this look alone: a millisecond or three, where `importlib.metadata` takes 40. A forked worker
    knows it from its parent.
    """
    for folder in path:
        try:
            entries = [entry for entry in os.listdir(folder or ".") if entry.endswith(("-info",))]  # noqa: PTH208  no need for objects
        except OSError:
            continue
        for entry in entries:
            try:
                with open(os.path.join(folder or ".", entry, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123  faster
                    if b"[skitter]" in file.read():
                        return True
            except OSError:
                continue
    return False


# ------------------------------------------------------------------------------------------------ what went wrong


def _guarded(work: Callable[[], T], what: str) -> T:
    """Run user code at import; whatever it raises becomes a PluginError with its file and line."""
    try:
        return work()
    except (PluginError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise PluginError(f"{error.filename or what}:{error.lineno or 1}: {described(error)}") from None
    except BaseException as error:  # noqa: BLE001  user code: also when it calls sys.exit()
        raise PluginError(f"{place_of(error, what)}: {described(error)}, when it was imported") from None


def described(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # noqa: BLE001  an exception of the user's own, whose text is code too
        text = ""
    return f"{type(error).__name__}: {' '.join(text.split())}" if text else type(error).__name__


def place_of(error: BaseException, what: str) -> str:
    """FILE:LINE of user code that raised: the last line in `what` if it is a file, else the last that is not ours."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    return _place(reversed(frames), what)


def _place(frames: Iterator[tuple[str, int | None]], what: str) -> str:
    """The place in frames, the innermost first."""
    outside = [frame for frame in frames if not frame[0].startswith(_ELSEWHERE) and not _is_ours(frame[0])]
    chosen = next((frame for frame in outside if frame[0] == what), outside[0] if outside else None)
    return f"{chosen[0]}:{chosen[1]}" if chosen else what


def _is_ours(file: str) -> bool:
    return file.startswith(f"{_OURS}{os.sep}") or file.endswith("importlib/__init__.py")


# ------------------------------------------------------------------------------------------------ trying it first


def check(settings: Settings) -> None:
    """Import the plug-ins in a process of its own. Raises PluginError if that fails, or takes too long."""
    if not used(settings):
        return
    asked = json.dumps([sys.path, list(settings.crawl.plugins), settings.schedule.strategy, DEADLINE])
    program = "import json, sys; asked = json.loads(sys.argv[1]); sys.path[:] = asked[0]; from skitter.plugins import tried; tried(*asked[1:])"
    with tempfile.TemporaryFile() as answer:
        try:
            done = subprocess.run(  # noqa: S603  our own program
                [sys.executable, "-P", "-c", program, asked],
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                timeout=DEADLINE + _GRACE,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            done = 1
        answer.seek(0)
        said = answer.read().decode(errors="replace").splitlines()
    if done == -signal.SIGINT:
        raise KeyboardInterrupt
    if problem := _problem(said, done):
        raise PluginError(problem)


def tried(plugins: list[str], strategy: str, seconds: float) -> None:
    """The child of `check`: import, and write to standard output what is being done and what went wrong."""
    from msgspec.structs import replace  # noqa: PLC0415  for this process alone

    report = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)  # what a plug-in prints is not a report

    def say(kind: str, text: str) -> None:
        report.write(json.dumps([kind, text]) + "\n")
        report.flush()

    default = Settings()
    settings = replace(
        default,
        crawl=replace(default.crawl, plugins=tuple(plugins)),
        schedule=replace(default.schedule, strategy=strategy),
    )
    try:
        with deadline(seconds, report):
            load(settings, lambda name: say("importing", name))
    except PluginError as problem:
        say("problem", str(problem))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    else:
        say("done", "")
    report.flush()
    os._exit(0)  # threads that a plug-in has started do not matter


@contextmanager
def deadline(seconds: float = DEADLINE, file: IO[str] | None = None) -> Iterator[None]:
    """End this process if the block takes longer than this, and write to `file` where it was.

    The timer is a thread that needs no interpreter, so it also ends an import that never lets go of it.
    """
    with Path(os.devnull).open("w", encoding="ascii") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file or nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def _problem(said: list[str], code: int) -> str:
    """What the child of `check` has met; empty if all is well."""
    what, frames, timed_out = "crawl.plugins", [], False
    for line in said:
        if line.startswith('["'):
            kind, text = json.loads(line)
            if kind == "done":
                return ""
            if kind == "problem":
                return str(text)
            what = text
        elif line.startswith("Timeout ("):
            timed_out = True
        elif found := _FRAME.search(line):
            frames.append((found["file"], int(found["line"])))
    if timed_out or frames:
        return f"{_place(iter(frames), what)}: the plug-in was still being imported after {DEADLINE:g} s"
    return died(what, code)


def died(what: str, code: int) -> str:
    """The message about a process that ended while it imported a plug-in."""
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}, as after {DEADLINE:g} s"
    return f"{what}: the process that imported the plug-in has ended ({how})"
