"""Blocking calls that the end of the process does not wait for, and closing with a deadline.

Before a process ends, asyncio and Python wait for the threads of every pool, without a limit. The client libraries of engines
may take that long: librdkafka's `close` waits for brokers that are away (confluentinc/librdkafka issue 4519), an upload for a
server that is slow. So what is called here runs in daemon threads. Whatever is not over when the process ends is left to
the operating system (`__main__`).
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")

CLOSING = 10.0  # seconds to close the clients of one engine
_Call = Callable[[], None]


class OneThread(Executor):
    """Runs calls one after the other, for libraries whose objects allow one caller at a time."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        _Aside(self._calls, name).start()

    def submit(self, fn: Callable[..., T], /, *args: object, **kwargs: object) -> "Future[T]":
        """Make a call."""
        answer: Future[T] = Future()
        self._calls.put(_call(answer, fn, args, kwargs))
        return answer

    async def call(self, function: Callable[..., T], *arguments: object) -> T:
        """The result. A cancelled caller does not stop a call that has begun."""
        return await asyncio.get_running_loop().run_in_executor(self, function, *arguments)

    def end(self) -> None:
        """End the thread after the calls that were made."""
        self._calls.put(None)


class _Aside(threading.Thread):
    """The thread. It knows nothing of who made it, so that nothing is kept alive by a call that does not end."""

    def __init__(self, calls: "queue.SimpleQueue[_Call | None]", name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._calls = calls
        self.busy = False

    def run(self) -> None:
        while (call := self._calls.get()) is not None:
            self.busy = True
            call()
            del call  # with what it refers to
            self.busy = False


def _call(answer: "Future[T]", function: Callable[..., T], args: Any, kwargs: Any) -> _Call:  # noqa: ANN401
    def run() -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            result = function(*args, **kwargs)
        except BaseException as problem:  # noqa: BLE001  for the caller to handle
            answer.set_exception(problem)
        else:
            answer.set_result(result)

    return run


async def aside(function: Callable[..., T], *arguments: object) -> T:
    """`asyncio.to_thread` for a call that may take longer than anybody wants to wait at the end."""
    thread = OneThread(getattr(function, "__name__", "aside"))
    try:
        return await thread.call(function, *arguments)
    finally:
        thread.end()


def leave(function: Callable[[], object], name: str) -> None:
    """Make a call in a thread of its own, which nobody waits for."""
    thread = OneThread(name)
    thread.submit(function)
    thread.end()


async def closed(engine: str, *closing: Awaitable[object], within: float | None = None) -> bool:
    """Wait until all of it is closed, for `within` seconds (CLOSING); returns whether it is.

    Never fails: nobody can do anything about a client that does not close, so it is said in one line and left alone.
    """
    seconds = CLOSING if within is None else within
    tasks = [asyncio.ensure_future(each) for each in closing]
    try:
        await asyncio.wait(tasks, timeout=seconds)
    finally:
        late = [task for task in tasks if task.cancel()]
    problems = [f"no answer within {seconds:g} s" for _ in late]
    problems += [problem for task in tasks if task not in late and (problem := _problem(task))]
    if problems:
        logging.getLogger("skitter").warning(
            "%s: %d of %d connections could not be closed (%s); they end with the process",
            engine, len(problems), len(tasks), problems[0],
        )  # fmt: skip
    return not problems


def _problem(task: "asyncio.Future[object]") -> str:
    """What went wrong, in one line; empty if nothing did."""
    if task.cancelled():
        return "broken off"
    problem = task.exception()
    return "" if problem is None else " ".join(f"{problem or type(problem).__name__}".split())


def is_any_left() -> bool:
    """Whether a call has not come to its end. An interpreter that ends now would disturb it, and perhaps crash."""
    return any(thread.busy for thread in threading.enumerate() if isinstance(thread, _Aside))
