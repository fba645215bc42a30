"""Shared by all commands: exit codes, and a parser with one-line errors and examples in its help."""

import argparse
import difflib
import textwrap
from collections.abc import Sequence
from enum import IntEnum
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

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments. Flags may appear anywhere among them."""
        return self.parse_intermixed_args(words)

    def error(self, message: str) -> NoReturn:
        """Raise the message without argparse's usage lines, which would hide it."""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0].partition("=")[0]
        near = difflib.get_close_matches(unknown, self._option_string_actions, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]}?" if message.startswith("unrecognized") and near else ""
        raise UsageError(f"{message}{hint} (see {self.prog} --help)")
