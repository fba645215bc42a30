"""One browser process: started without a network, watched, and killed with all its children.

Where bubblewrap works, the browser is in a network namespace with nothing in it: whatever a page tries, no packet leaves.
Elsewhere, switches send it to a proxy that does not exist and let it resolve no name.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from skitter.fetch.browser.finding import bubblewrap, walls
from skitter.fetch.browser.pipe import BrowserGone, Pipe

_START = 60.0  # seconds until a new browser must have answered; it takes 0.4
_INSIDE = "/tmp/browser"  # noqa: S108  in a /tmp of its own, which nobody else sees
_PATIENCE = 5.0  # seconds for a killed process to be gone
_LOOK = 0.02  # seconds between two looks whether it is
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIRST_FREE = (
    20  # the browser reads from descriptor 3 and writes to 4: ours are above, so that none is in the way
)

SWITCHES = (
    "--remote-debugging-pipe",
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-notifications",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--mute-audio",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--metrics-recording-only",
    "--dns-prefetch-disable",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-features=ServiceWorkerAutoPreload,Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider,Prerender2",
    "--hide-scrollbars",
    # A proxy that nobody is: what is not intercepted goes nowhere, even where bubblewrap does not work.
    "--proxy-server=127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


class BrowserProcess:
    """A running browser."""

    def __init__(self, pid: int, pipe: Pipe, folder: str, *, walled: bool, sandboxed: bool) -> None:
        self.pid, self.pipe, self._folder = pid, pipe, folder
        self._ended = False
        self.walled = walled  # it has no network, whatever its switches say
        self.sandboxed = sandboxed  # its own sandbox is on, too
        self.shown = 0  # pages

    @classmethod
    async def started(cls, program: str, agent: str, longest: int) -> "BrowserProcess":
        """Start a browser; `agent` is how it calls itself before scripts. Raises BrowserGone if it does not answer.

        Its own sandbox needs namespaces of its own, and another user than root. Where it has none, it runs without.
        """
        bwrap = await asyncio.to_thread(bubblewrap)
        if bwrap or os.geteuid() != 0:
            try:
                return await cls._started(program, agent, longest, bwrap, sandboxed=True)
            except BrowserGone:
                pass
        return await cls._started(program, agent, longest, bwrap, sandboxed=False)

    @classmethod
    async def _started(
        cls, program: str, agent: str, longest: int, bwrap: str, *, sandboxed: bool
    ) -> "BrowserProcess":
        folder = "" if bwrap else tempfile.mkdtemp(prefix="skitter-browser-")
        command = [*(walls(bwrap, program) if bwrap else ()), program, *SWITCHES]
        command += [] if sandboxed else ["--no-sandbox"]
        command += [f"--user-data-dir={folder or _INSIDE}", f"--user-agent={agent}", "about:blank"]
        pipe = Pipe(longest)
        pid, read, write = _child(command)
        made = cls(pid, pipe, folder, walled=bool(bwrap), sandboxed=sandboxed)
        try:
            await pipe.open(read, write)
            async with asyncio.timeout(_START):
                await pipe.ask("Browser.getVersion")
        except (BrowserGone, TimeoutError):
            await made.kill()
            raise BrowserGone(f"{program} did not start") from None
        except BaseException:
            await made.kill()
            raise
        return made

    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return not self._has_ended() and not self.pipe.gone.is_set()

    def memory(self) -> int:
        """Bytes of memory that it and all its children have to themselves, about; 0 if that cannot be told."""
        total, left = 0, [self.pid]
        while left:
            pid = left.pop()
            with suppress(OSError, ValueError, IndexError):
                total += _own(pid)
                for task in Path(f"/proc/{pid}/task").iterdir():
                    left += map(int, (task / "children").read_text().split())
        return total

    async def kill(self) -> None:
        """End it at once with all its children. That is always safe."""
        if not self._has_ended():
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        await self.pipe.close()
        for _ in range(round(_PATIENCE / _LOOK)):
            if self._has_ended():
                break
            await asyncio.sleep(_LOOK)
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _has_ended(self) -> bool:
        """Whether it is gone; its process id may be somebody else's from then on."""
        if not self._ended:
            try:
                self._ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
            except ChildProcessError:
                self._ended = True
        return self._ended


def _own(pid: int) -> int:
    """Resident bytes of a process, without what it shares: the browser's code is mapped by each of its processes."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * _PAGE


def _child(command: list[str]) -> tuple[int, int, int]:
    """Start it with pipes on descriptors 3 and 4; returns its process id and our ends: to read from, and to write to."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for each in (theirs_in, theirs_out)]
    os.close(theirs_in)
    os.close(theirs_out)
    silent = os.open(os.devnull, os.O_RDWR)
    places = [(silent, 0), (silent, 1), (silent, 2), (moved[0], 3), (moved[1], 4)]
    # Nothing of our environment: there may be secrets in it.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in places],
            setpgroup=0,  # Ctrl-C is for the crawl; and all of it can be killed together
        )
    except BaseException:
        os.close(ours_in)
        os.close(ours_out)
        raise
    finally:
        for each in (*moved, silent):
            os.close(each)
    return pid, ours_in, ours_out
