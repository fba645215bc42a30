"""The flags of `crawl` and `resume`: each is a setting with a shorter name, and takes its help from there."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from skitter.cli.usage import Parser, UsageError
from skitter.settings import Settings
from skitter.settings.file import build, given
from skitter.settings.values import KEYS, show


class Flag(NamedTuple):
    """A flag that stands for a setting. Those with `many` may be given several times."""

    key: str
    metavar: str
    many: bool = False


FLAGS: Mapping[str, Flag] = {
    "--scope": Flag("scope.kind", "KIND"),
    "--include": Flag("scope.include", "RE", many=True),
    "--exclude": Flag("scope.exclude", "RE", many=True),
    "--max-pages": Flag("crawl.max_pages", "N"),
    "--max-depth": Flag("scope.max_depth", "N"),
    "--max-time": Flag("crawl.max_time", "TIME"),
    "--max-bytes": Flag("crawl.max_bytes", "SIZE"),
    "--delay": Flag("politeness.delay", "TIME"),
    "--per-host": Flag("politeness.per_host", "N"),
    "--concurrency": Flag("crawl.concurrency", "N"),
    "--workers": Flag("crawl.workers", "N"),
    "--shards": Flag("crawl.shards", "N"),
    "--strategy": Flag("schedule.strategy", "NAME"),
    "--user-agent": Flag("fetch.user_agent", "TEXT"),
    "--contact": Flag("fetch.contact", "TEXT"),
    "--allow-private": Flag("fetch.allow_private", "CIDR", many=True),
    "--resolve": Flag("fetch.resolve", "HOST:ADDRESS", many=True),
}


def add_settings(parser: Parser) -> None:
    """One flag per setting that is often set, and --set for all the others."""
    for name, flag in FLAGS.items():
        key = KEYS[flag.key]
        shown = "" if key.default in (None, (), "") else show(key.kind, key.default).strip('"')
        help_text = key.doc + (f" (default: {shown})" if shown else "")
        parser.add_argument(
            name,
            action="append" if flag.many else "store",
            dest=flag.key,
            metavar=flag.metavar,
            help=help_text.replace("%", "%%") + ("; may be given several times" if flag.many else ""),
        )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="any setting, for example fetch.deadline=10s; may be given several times",
    )


def add_manner(parser: Parser) -> None:
    """How much is said, and how."""
    parser.add_argument(
        "--json", action="store_true", help="print the report as one JSON object, and nothing else"
    )
    add_volume(parser)


def add_volume(parser: Parser) -> None:
    """How much is said."""
    parser.add_argument("-v", "--verbose", action="store_true", help="show every request, on standard error")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")


def resolve(arguments: argparse.Namespace, file: Path | None) -> Settings:
    """The settings: the file, the environment, and what was given on the command line."""
    return build(given_by(arguments, file))


def given_by(arguments: argparse.Namespace, file: Path | None) -> dict[str, object]:
    """What was said of the settings, by dotted key: in the file, the environment, or on the command line."""
    overrides: dict[str, object] = {}
    flags: dict[str, str] = {}
    for assignment in arguments.set:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(
                f"--set: {assignment!r} has no value; write for example --set fetch.deadline=10s"
            )
        overrides[key.strip()] = value
    for name, flag in FLAGS.items():
        value = getattr(arguments, flag.key)
        if value is not None:
            overrides[flag.key] = value
            flags[flag.key] = name
    return given(file, os.environ, overrides, flags)
