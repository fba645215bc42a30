"""What takes long is done by the command line, in a process of its own: it cannot disturb the server, and has limits."""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from skitter.serve.catalogue import Served
from skitter.serve.problems import ProblemError, bad_request
from skitter.serve.shapes import Found, SearchAsked

_AT_ONCE = 2
_PATIENCE = 120.0  # seconds
_LONGEST = 16 << 20  # octets of an answer


class Commands:
    """Runs reading commands, a few at a time."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def search(self, served: Served, asked: SearchAsked) -> Found:
        """Full-text search over the pages of a crawl; its index is brought up to date first."""
        named = [str(served.path)] if served.path is not None else ["--config", str(served.config)]
        numbers = [f"--limit={asked.limit}", f"--offset={asked.offset}", "--json", "--quiet"]
        words = f" {asked.q}"  # with a blank in front, nothing that is searched for is an option
        code, said, complaint = await self._run(["search", *numbers, *named, words])
        if code == 2:
            raise bad_request(complaint)
        if code not in (0, 1) or not said:
            raise ProblemError(500, "The search failed", complaint)
        found: dict[str, Any] = json.loads(said)
        return Found(found["total"], found["results"])

    async def _run(self, words: Sequence[str]) -> tuple[int, bytes, str]:
        """The exit code, what was printed, and the last line of complaint."""
        async with self._places:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "skitter",
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(_PATIENCE):
                    said, complaint = await process.communicate()
            except TimeoutError:
                raise ProblemError(
                    503, "It takes too long", f"no answer within {_PATIENCE:.0f} s", {"Retry-After": "60"}
                ) from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if len(said) > _LONGEST:
            raise ProblemError(500, "The answer is too long")
        lines = complaint.decode("utf-8", "replace").strip().splitlines()
        return process.returncode or 0, said, lines[-1].removeprefix("skitter: ") if lines else ""
