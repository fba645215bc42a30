"""Shared by all commands: exit codes, and a parser with one-line errors and examples in its help."""

import argparse
import difflib
import re
import textwrap
from collections.abc import Iterator, Sequence
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


_TIME = "TIME"  # among the values of a flag that may stand alone: a duration
_A_TIME = re.compile(r"\d+(?:\.\d+)?(?:ms|s|m|h|d)")


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
        self.alone: dict[
            str, tuple[str, ...]
        ] = {}  # flags that may stand alone: what it means then, and their other values

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. Flags may appear anywhere among them."""
        return self.parse_intermixed_args(list(self._spelt_out(words)))

    def _spelt_out(self, words: Sequence[str]) -> Iterator[str]:
        """The words, with its value for a flag that stands alone: a URL after it is not its value."""
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            values = self.alone.get(word)
            spelt = (
                values is None or following in values or (_TIME in values and _A_TIME.fullmatch(following))
            )
            yield word if spelt or values is None else f"{word}={values[0]}"

    def error(self, message: str) -> NoReturn:
        """Raise the message without argparse's usage lines, which would hide it."""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if message.startswith("unrecognized") and near else ""
        raise UsageError(f"{message}{hint} (see {self.prog} --help)")
