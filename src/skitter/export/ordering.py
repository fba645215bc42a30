"""Sorting any number of lines: what does not fit into memory is sorted in runs on disk, and merged."""

from collections.abc import Iterator
from contextlib import ExitStack
from heapq import merge
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self, TextIO

RUN = 32 << 20  # characters sorted in memory at a time


class Ordered:
    """Collects lines and returns them sorted. Lines contain no line ends. Use it in a `with`."""

    def __init__(self, *, reverse: bool = False) -> None:
        self._reverse = reverse
        self._run: list[str] = []
        self._size = 0
        self._runs: list[TextIO] = []
        self._files = ExitStack()

    def add(self, line: str) -> None:
        """Add a line."""
        self._run.append(line)
        self._size += len(line)
        if self._size >= RUN:
            self._spill()

    def _spill(self) -> None:
        self._run.sort(reverse=self._reverse)
        made = TemporaryFile("w+", encoding="utf-8", errors="surrogatepass", newline="\n")  # noqa: SIM115  see __exit__
        file = self._files.enter_context(made)
        file.writelines(f"{line}\n" for line in self._run)
        file.seek(0)
        self._runs.append(file)
        self._run, self._size = [], 0

    def lines(self) -> Iterator[str]:
        """All lines, sorted."""
        self._run.sort(reverse=self._reverse)
        runs = [(line.removesuffix("\n") for line in file) for file in self._runs]
        return merge(*runs, self._run, reverse=self._reverse)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
