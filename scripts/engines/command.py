"""`scripts/services`: starts and stops engines, and injects faults.

Examples:
  scripts/services up                  every engine; those that are up already are left alone
  scripts/services up redis postgres   only these
  scripts/services kill kafka          kill -9; `up kafka` brings it back with its data
  scripts/services freeze redis        it keeps its connections and says nothing more, until `thaw redis`
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import TypeVar

from .engine import Engine
from .kafka import Kafka
from .opensearch import OpenSearch
from .place import PROJECT, EngineError, Place, check_reachable, find_place, is_free, tail, write_env
from .postgres import Postgres
from .processes import Process, family, kill, launch, recall, stop, until
from .redis import Redis
from .s3 import S3

ENGINES: dict[str, type[Engine]] = {kind.name: kind for kind in (Postgres, Redis, Kafka, OpenSearch, S3)}
PATIENCE = 120.0  # seconds for an engine to answer; the slowest needs eight here, but the machine may be busy
MEBIBYTE = 1 << 20
T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; 1 if an engine is not in the desired state."""
    options = parser().parse_args(arguments)
    place = find_place(os.environ, os.geteuid())
    names = options.names or list(ENGINES)
    try:
        check_reachable(place)
        with place.alone(place.directory):
            return VERBS[options.verb](place, [ENGINES[name](place) for name in names])
    except EngineError as trouble:
        print(trouble, file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The command line."""
    shape = argparse.ArgumentParser(
        prog="scripts/services", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = shape.add_subparsers(dest="verb", required=True, metavar="verb")
    for verb, act in VERBS.items():
        names = verbs.add_parser(verb, help=act.__doc__)
        names.add_argument("names", nargs="+" if verb in CHAOS else "*", type=known, metavar="name")
    shape.epilog = "names: " + "; ".join(f"{kind.name} ({kind.about})" for kind in ENGINES.values())
    return shape


def known(name: str) -> str:
    """A name on the command line. (`choices` would refuse an empty list of names.)"""
    if name not in ENGINES:
        raise argparse.ArgumentTypeError(f"no engine is called {name}; there are {', '.join(ENGINES)}")
    return name


@dataclass(frozen=True)
class Start:
    """An engine that was started, and when."""

    engine: Engine
    process: Process
    since: float


def up(place: Place, engines: Sequence[Engine]) -> int:
    """start what is not running, installing it first if need be, and wait until it answers"""
    since = time.monotonic()
    wanted = side_by_side(engines, install)  # all before the first start, so that a start's time is its own
    print(f"  starting {', '.join(engine.name for engine in wanted)} …", flush=True)
    started = attempt(wanted, lambda engine: start(place, engine))
    answering = await_answers(started)
    write_addresses(place)
    print(f"{answering} of {len(engines)} up after {time.monotonic() - since:.1f} s", flush=True)
    return 0 if answering == len(engines) else 1


def side_by_side(engines: Sequence[Engine], act: Callable[[Engine], T]) -> list[T]:
    """Like `attempt`, with all engines at once: one downloads while another is built."""
    with ThreadPoolExecutor(max(1, len(engines))) as threads:
        done = list(threads.map(lambda engine: attempt([engine], act), engines))
    return [each for some in done for each in some]


def attempt(engines: Sequence[Engine], act: Callable[[Engine], T]) -> list[T]:
    """Run the step for every engine. A failing one is reported and left out; the others are useful without it."""
    done = []
    for engine in engines:
        try:
            done.append(act(engine))
        except EngineError as trouble:
            print(f"{engine.name}: {trouble}", file=sys.stderr)
    return done


def install(engine: Engine) -> Engine:
    """Install what a start will need."""
    process = recall(engine.home / "pid")
    if process is None or process.state is None:
        engine.install()
    return engine


def start(place: Place, engine: Engine) -> Start:
    """Start one engine, unless it is running."""
    since = time.monotonic()
    process = recall(engine.home / "pid")
    if process is not None and process.state is not None:
        thaw_one(process)
        return Start(engine, process, since)
    if process is not None:
        # PostgreSQL does not start while its predecessor's process id is in use.
        until(lambda: process.buried, 10)
    if taken := [port for port in engine.ports.values() if not is_free(port)]:
        raise EngineError(
            f"port {taken[0]} is taken by another process; end it, or remove {place.directory}/ports.json"
        )
    return Start(engine, launch(place, engine.command(), engine.home, engine.variables()), since)


def await_answers(pending: Sequence[Start]) -> int:
    """Report for each engine, as soon as it is known, that it answers or why not. Returns how many do."""
    waiting, answering, deadline = list(pending), 0, time.monotonic() + PATIENCE
    while waiting:
        for each in list(waiting):
            alive = each.process.state is not None
            if alive and answers(each.engine):
                waiting.remove(each)
                answering += 1
                print(f"{line(each.engine, each.process)}  {time.monotonic() - each.since:.1f} s", flush=True)
            elif not alive or time.monotonic() > deadline:
                waiting.remove(each)
                log = each.engine.home / "log"
                what = f"does not answer after {PATIENCE:.0f} s" if alive else "ended at once"
                print(
                    f"{each.engine.name} {what}: {tail(log.read_text(errors='replace'), 8)} (all of it: {log})",
                    file=sys.stderr,
                )
        time.sleep(0.05)
    return answering


def answers(engine: Engine) -> bool:
    """Whether it answers now."""
    try:
        return engine.answers()
    except (OSError, HTTPException):
        return False


def line(engine: Engine, process: Process) -> str:
    """Name, version, address and process id, in columns."""
    return f"{engine.name:<11}{engine.version:<8}{engine.address:<48}pid {process.pid:<8}"


def down(place: Place, engines: Sequence[Engine]) -> int:
    """stop what was started here; the data stays"""
    for engine in engines:
        note = engine.home / "pid"
        process = recall(note)
        if process is None:
            continue
        dead = process.state is None
        gently = stop(process, engine.politely, patience=30)
        note.unlink()
        print(
            f"{engine.name:<11}{'was dead already' if dead else 'stopped' if gently else 'did not stop in 30 s: killed'}"
        )
    write_addresses(place)
    return 0


def status(_: Place, engines: Sequence[Engine]) -> int:
    """one line per engine: its state and its memory"""
    for engine in engines:
        process = recall(engine.home / "pid")
        if process is None:
            print(f"{engine.name:<11}down")
        elif process.state is None:
            print(f"{engine.name:<11}died (it had process id {process.pid}); its log: {engine.home}/log")
        else:
            word = "frozen" if process.state == "T" else "up" if answers(engine) else "silent"
            print(f"{line(engine, process)}  {word}, {process.memory // MEBIBYTE} MiB")
    return 0


def restart(place: Place, engines: Sequence[Engine]) -> int:
    """stop, then start on the same port with the same data"""
    return down(place, engines) or up(place, engines)


def kill_all(_: Place, engines: Sequence[Engine]) -> int:
    """kill -9, the engine and everything it started"""
    for engine in engines:
        head = running(engine)
        head.signal(signal.SIGSTOP)  # so that it starts nothing while we list its children
        kill(family(head))
        print(f"{engine.name:<11}killed")
    return 0


def freeze(_: Place, engines: Sequence[Engine]) -> int:
    """stop the engine's processes where they are, connections open"""
    for engine in engines:
        if not freeze_one(running(engine)):
            raise EngineError(f"{engine.name} could not be frozen")
        print(f"{engine.name:<11}frozen")
    return 0


def freeze_one(head: Process) -> bool:
    """Stop the parent first, so that it starts nothing we would miss; returns whether all have stopped."""
    head.signal(signal.SIGSTOP)
    members = family(head)
    for member in members:
        member.signal(signal.SIGSTOP)
    return until(lambda: all(member.state in ("T", None) for member in members), 30)


def thaw(_: Place, engines: Sequence[Engine]) -> int:
    """let a frozen engine go on"""
    for engine in engines:
        thaw_one(running(engine))
        print(f"{engine.name:<11}thawed")
    return 0


def thaw_one(head: Process) -> None:
    """Continue it; does nothing to one that is not frozen."""
    for member in family(head):
        member.signal(signal.SIGCONT)


def running(engine: Engine) -> Process:
    """The engine's process, which must exist."""
    process = recall(engine.home / "pid")
    if process is None or process.state is None:
        raise EngineError(f"{engine.name} is not running: scripts/services up {engine.name}")
    return process


def write_addresses(place: Place) -> None:
    """Write the env file: every engine that was started and not stopped. A killed one stays: its address is kept."""
    settings = {"SKITTER_SERVICES_DIR": str(place.directory)}
    for name, kind in ENGINES.items():
        process = recall(place.directory / name / "pid")
        if process is not None:
            engine, key = kind(place), f"SKITTER_TEST_{name.upper()}"
            settings[key] = engine.address
            settings |= {f"{key}_{more}": value for more, value in engine.settings().items()}
            settings[f"{key}_DATA"] = str(engine.data)
            settings[f"{key}_PID"] = str(process.pid)
            settings[f"{key}_RESTART"] = f"{PROJECT / 'scripts' / 'services'} restart {name}"
    write_env(place.env, settings)


VERBS: dict[str, Callable[[Place, Sequence[Engine]], int]] = {
    "up": up,
    "down": down,
    "status": status,
    "restart": restart,
    "kill": kill_all,
    "freeze": freeze,
    "thaw": thaw,
}
CHAOS = {"restart", "kill", "freeze", "thaw"}  # these want to know whom
