"""The process of a fleet's worker: `python -m skitter.compose.fleet_worker SOCKET`."""

import asyncio
import os
import signal
import socket
import sys
from functools import partial

from skitter.compose import open_shards
from skitter.fleet.messages import Broken, Line, Message, Start
from skitter.fleet.worker import Worker
from skitter.ports import StateError
from skitter.runtime.process import run, unwrapped
from skitter.settings import SettingsError


async def _main(handle: int) -> int:
    line = Line(*await asyncio.open_connection(sock=socket.socket(fileno=handle)))
    start: Message | None = await line.hear()
    if not isinstance(start, Start):
        return 1  # the parent is gone
    try:
        await unwrapped(Worker(line, start, partial(open_shards, workers=start.workers)).work())
    except SettingsError as problem:
        line.say(Broken(str(problem), settings=True))
    except StateError as problem:
        line.say(Broken(str(problem)))
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        line.say(Broken(f"{where}{problem.strerror or problem}"))
    finally:
        await line.close()
    return 0


def main() -> int:
    """Work until the parent says stop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent receives them, and tells the user
    return run(_main(int(sys.argv[1])))


if __name__ == "__main__":
    # Everything is saved and closed. The interpreter would first free every object, which takes 50 ms; the
    # kernel does not.
    os._exit(main())
