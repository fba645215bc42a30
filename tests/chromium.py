"""A real browser for tests: headless Chromium, told what to do by the DevTools protocol over a pipe."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 120  # seconds: only a hang fails by it
QUIET = 0.5  # seconds without a request after which a page counts as loaded

needs_chromium = pytest.mark.skipif(
    PROGRAM is None and "SKITTER_TEST_REQUIRE" not in os.environ,
    reason="needs a browser: apt-get install chromium",
)
_PAINTED = (
    "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 100))"
)
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-extensions",
    ),
    *("--disable-dev-shm-usage", "--mute-audio", "--remote-debugging-pipe", "--force-color-profile=srgb"),
)


class Chromium:
    """One browser. Pages and their frames are sessions; what they request is remembered."""

    def __init__(self, process: "subprocess.Popen[bytes]", write: int, read: int) -> None:
        self._process, self._write, self._read = process, write, read
        self._buffer = b""
        self._number = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._open: set[str] = set()
        self._frames: list[str] = []  # sessions of frames with a process of their own
        self._busy = 0.0
        self.session = self._target = ""
        self.urls: dict[str, str] = {}  # by request
        self.failed: dict[str, str] = {}  # what was asked for in vain, by URL
        self.loaded = False
        self.console: list[str] = []

    def call(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        number = self._send(method, session, params)
        self.until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer)
        return dict(answer["result"])

    def _send(self, method: str, session: str, params: dict[str, object]) -> int:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._number

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline, f"the browser hangs; open requests: {sorted(self._open)[:5]}"
            if select.select([self._read], [], [], 0.05)[0]:
                piece = os.read(self._read, 1 << 20)
                assert piece, "the browser has died"
                *whole, self._buffer = (self._buffer + piece).split(b"\0")
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self._heard(message["method"], message["params"], message.get("sessionId", ""))

    def _heard(self, method: str, params: dict[str, Any], session: str) -> None:
        request = params.get("requestId", "")  # that of a frame begins in one session and ends in another
        if method == "Target.attachedToTarget":
            self._watch(params["sessionId"])
            if params["targetInfo"]["type"] in ("page", "iframe"):
                self._frames.append(params["sessionId"])
        elif method == "Target.detachedFromTarget":
            self._frames = [each for each in self._frames if each != params["sessionId"]]
        elif method == "Network.requestWillBeSent":
            self.urls[params["requestId"]] = params["request"]["url"]
            self._open.add(request)
            self._busy = time.monotonic()
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.failed[params["response"]["url"]] = str(params["response"]["status"])
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self._open.discard(request)
            self._busy = time.monotonic()
            if method.endswith("Failed"):
                url = self.urls.get(params["requestId"], params["requestId"])
                self.failed[url] = params.get("blockedReason") or params["errorText"]
        elif method == "Page.loadEventFired" and session == self.session:
            self.loaded = True
        elif method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(each.get("value", "")) for each in params["args"]))

    def _watch(self, session: str) -> None:
        attach: dict[str, object] = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        for method in ("Network.enable", "Page.enable", "Runtime.enable"):
            self._send(method, session, {})
        self._send("Target.setAutoAttach", session, attach)
        self._send("Runtime.runIfWaitingForDebugger", session, {})

    def open(self, url: str, width: int = 1200, height: int = 900, *, settle: bool = True) -> None:
        """Load a page in a new tab, with all that it asks for."""
        if self.session:
            self.call("Target.closeTarget", targetId=self._target)
        self._open.clear()
        self._frames.clear()
        self.urls, self.failed, self.console, self.loaded = {}, {}, [], False
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        self._watch(self.session)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", self.session, **metrics)
        self.loaded = False
        self.call("Page.navigate", self.session, url=url)
        if settle:
            self.settle()

    def settle(self) -> None:
        """Until the page has loaded and nothing is under way."""
        self._busy = time.monotonic()
        self.until(lambda: self.loaded and not self._open and time.monotonic() - self._busy > QUIET)

    def until_quiet(self, seconds: float) -> None:
        """Hear what happens for a while."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", self.session, expression=script, returnByValue=True, awaitPromise=True
        )
        return answer["result"].get("value")

    def picture(self, top: int = 0, width: int = 1200, height: int = 900) -> bytes:
        """What is seen, as PNG, once nothing changes any more: on a busy machine scripts run late."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        before = b""
        for _ in range(20):
            for session in [self.session, *self._frames]:
                self.call("Runtime.evaluate", session, expression=_PAINTED, awaitPromise=True)
            shot = base64.b64decode(
                self.call("Page.captureScreenshot", self.session, format="png", clip=clip)["data"]
            )
            if shot == before:
                break
            before = shot
            self.until_quiet(QUIET)
        return before


@contextmanager
def chromium(*flags: str) -> Iterator[Chromium]:
    """A browser with an empty profile."""
    assert PROGRAM is not None, "no browser; apt-get install chromium"
    theirs, write = os.pipe()
    read, theirs_too = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (theirs, theirs_too)]

    def wire() -> None:
        os.dup2(ends[0], 3)
        os.dup2(ends[1], 4)

    with tempfile.TemporaryDirectory(prefix="skitter-chromium-", ignore_cleanup_errors=True) as profile:
        command = [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", *flags]
        process = subprocess.Popen(
            command,
            preexec_fn=wire,  # noqa: PLW1509  it makes two system calls, and the pipes need these numbers
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs, theirs_too, *ends):
            os.close(end)
        try:
            yield Chromium(process, write, read)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(write)
            os.close(read)
