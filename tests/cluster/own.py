"""Separate engines for a test, beside those of `make services` and from the same programs; removed after the test."""

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from scripts.engines.engine import Engine
from scripts.engines.place import Place, find_place
from scripts.engines.processes import Process, identify, stop, until

PATIENCE = 120.0  # seconds: a bound for loops, not a promise


@contextmanager
def own_place() -> Iterator[Place]:
    """A directory that the engines' user can reach."""
    usual = find_place(os.environ, os.geteuid())
    place = replace(usual, directory=usual.directory / f"own-{uuid.uuid4().hex[:8]}")
    place.give(place.directory)
    try:
        yield place
    finally:
        shutil.rmtree(place.directory)


@contextmanager
def started(engine: Engine) -> Iterator[Process]:
    """Installed, started, and answering; ended afterwards, if it has not ended yet."""
    engine.install()
    with (engine.home / "log").open("wb") as log:
        child = subprocess.Popen(
            engine.command(),
            cwd=engine.home,
            env=engine.place.variables(engine.home) | engine.variables(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **engine.place.identity(),
        )
    process = identify(child.pid)
    assert process is not None, "our own child stays in /proc until we wait for it"
    try:
        assert until(lambda: child.poll() is not None or _answers(engine), PATIENCE), "it does not answer"
        assert child.poll() is None, (engine.home / "log").read_text()[-2000:]
        yield process
    finally:
        stop(process, engine.politely, PATIENCE)
        child.wait()


def _answers(engine: Engine) -> bool:
    try:
        return engine.answers()
    except OSError:
        return False
