"""What was learnt about patterns of URLs, kept in a file of their shard, so that a restart samples none of them again.

Every rendering adds a line: a pattern, pages rendered, pages that gained something. It is written at once and not synced: it
survives `kill -9`, and what a power loss takes is sampled again. A file with many more lines than patterns is written anew.
"""

from pathlib import Path

import msgspec

from skitter.crawl.rendering.learning import MOST, Learning, Pattern

_MOST_SHARDS = 10  # that share the memory for patterns; with more, each has a tenth of it
_Line = tuple[str, str, bool, int, int]  # host, path, shell, rendered, gained
_LINE = msgspec.json.Decoder(_Line)


class Remembering:
    """What one shard has learnt, in memory and in its file."""

    def __init__(self, file: Path, shards: int) -> None:
        self._file = file
        self._most = MOST // min(max(1, shards), _MOST_SHARDS)
        self.learning = Learning(self._most)
        self._lines = 0
        self._read()

    def learn(self, pattern: Pattern, *, gained: bool) -> None:
        """A page of a pattern was rendered."""
        self.learning.learn(pattern, 1, int(gained))
        with self._file.open("ab") as file:
            file.write(_line(pattern, 1, int(gained)))
        self._lines += 1
        if self._lines > 2 * self._most:
            self._write()

    def _read(self) -> None:
        try:
            kept = self._file.read_bytes()
        except FileNotFoundError:
            return
        for line in kept.splitlines():
            try:
                host, path, shell, rendered, gained = _LINE.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):  # cut off, or damaged: learnt again
                continue
            self.learning.learn(Pattern(host, path, shell), rendered, gained)
        self._write()  # so that the next line does not follow half a line

    def _write(self) -> None:
        lines = [_line(*learnt) for learnt in self.learning.learnt()]
        draft = self._file.with_name(f"{self._file.name}.new")
        draft.write_bytes(b"".join(lines))
        draft.replace(self._file)
        self._lines = len(lines)


def _line(pattern: Pattern, rendered: int, gained: int) -> bytes:
    return msgspec.json.encode((*pattern, rendered, gained)) + b"\n"
