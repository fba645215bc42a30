"""Shared by all commands: exit codes, and a parser with one-line errors and examples in its help."""

import argparse
import difflib
import textwrap
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import zip_longest
from typing import NoReturn


class Exit(IntEnum):
    """Exit codes. These numbers are a contract."""

    DONE = 0
    NO = 1  # the answer is no, or no page could be fetched
    USAGE = 2  # wrong usage or settings
    LIMIT = 3  # stopped at a limit, with work left
    STATE = 4  # disk full, directory in use or unreadable, engine lost; the state is safe
    INTERRUPTED = 130  # 128 + SIGINT, as shells count; the state is safe


class UsageError(Exception):
    """Wrong command line; the message says what to write instead."""


class Parser(argparse.ArgumentParser):
    """The flags of one command, with examples that a test runs."""

    def __init__(self, name: str, description: str, examples: Sequence[str]) -> None:
        shown = "\n".join(f"  {example}" for example in examples)
        super().__init__(
            prog=f"skitter {name}".rstrip(),
            description=textwrap.fill(description, 100),
            epilog=f"examples:\n{shown}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # a flag added later must not change what an abbreviation means
        )
        self.examples = tuple(examples)
        # Flags that may stand alone: what each means then, and whether a word is its value.
        self.alone: dict[str, tuple[str, Callable[[str], bool]]] = {}

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. Flags may appear anywhere among them."""
        return self.parse_intermixed_args(list(self._spelt_out(words)))

    def _spelt_out(self, words: Sequence[str]) -> Iterator[str]:
        """The words, with its value for a flag that stands alone: a URL after it is not its value."""
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            alone = self.alone.get(word)
            yield word if alone is None or alone[1](following) else f"{word}={alone[0]}"

    def error(self, message: str) -> NoReturn:
        """Raise the message without argparse's usage lines, which would hide it."""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if message.startswith("unrecognized") and near else ""
        raise UsageError(f"{message}{hint} (see {self.prog} --help)")
