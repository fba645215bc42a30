"""Flags of `crawl` and `resume`: each is a short name for a setting and uses the setting's help."""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from skitter.cli.usage import Parser, UsageError
from skitter.settings import Settings
from skitter.settings.file import build, given
from skitter.settings.values import KEYS, show


def is_address(word: str) -> bool:
    """Whether a word is where metrics may be served: HOST:PORT, PORT or off."""
    return (
        word == "off" or re.fullmatch(r"(?:\[[0-9a-fA-F:.]+\]:|[A-Za-z0-9.-]*:)?[0-9]{1,5}", word) is not None
    )


class Flag(NamedTuple):
    """A flag for one setting; with `many` it may be repeated, and without a metavar it switches the setting on."""

    key: str
    metavar: str
    many: bool = False
    alone: tuple[str, ...] = ()  # its values, if it may stand alone: the first is what it means then
    takes: Callable[[str], bool] | None = None  # … and what else may be its value


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
    "--per-address": Flag("politeness.per_address", "N"),
    "--address-delay": Flag("politeness.address_delay", "TIME"),
    "--concurrency": Flag("crawl.concurrency", "N"),
    "--workers": Flag("crawl.workers", "N"),
    "--shards": Flag("crawl.shards", "N"),
    "--strategy": Flag("schedule.strategy", "NAME"),
    "--with": Flag("crawl.plugins", "FILE", many=True),
    "--user-agent": Flag("fetch.user_agent", "TEXT"),
    "--contact": Flag("fetch.contact", "TEXT"),
    "--allow-private": Flag("fetch.allow_private", "CIDR", many=True),
    "--resolve": Flag("fetch.resolve", "HOST:ADDRESS", many=True),
    "--sitemaps": Flag("scope.sitemaps", "WHICH"),
    "--assets": Flag("archive.assets", "[all|same-host|off]", alone=("all", "same-host", "off")),
    "--main": Flag("parse.main", ""),
    "--render": Flag("fetch.render", "WHEN"),
    "--metrics": Flag("metrics.address", "[ADDRESS]", alone=("127.0.0.1:9464", "off"), takes=is_address),
}


def add_settings(parser: Parser) -> None:
    """Add a flag for each common setting, and --set for all others."""
    for name, flag in FLAGS.items():
        key = KEYS[flag.key]
        shown = "" if key.default in (None, (), "") else show(key.kind, key.default).strip('"')
        help_text = key.doc + (f" (default: {shown})" if shown else "")
        if not flag.metavar:
            parser.add_argument(name, action="store_const", const="true", dest=flag.key, help=key.doc)
            continue
        parser.add_argument(
            name,
            action="append" if flag.many else "store",
            dest=flag.key,
            metavar=flag.metavar,
            help=help_text.replace("%", "%%") + ("; repeatable" if flag.many else ""),
        )
        if flag.alone:
            parser.alone[name] = flag.alone[0], flag.takes or flag.alone.__contains__
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="any setting, for example fetch.deadline=10s; repeatable",
    )


def add_manner(parser: Parser) -> None:
    """Add the flags for JSON output and verbosity."""
    parser.add_argument("--json", action="store_true", help="print only the report, as one JSON object")
    add_volume(parser)


def add_volume(parser: Parser) -> None:
    """Add the verbosity flags."""
    parser.add_argument("-v", "--verbose", action="store_true", help="show every request, on standard error")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only errors")


def resolve(arguments: argparse.Namespace, file: Path | None) -> Settings:
    """Combine the settings file, the environment and the command line."""
    return build(given_by(arguments, file))


def given_by(arguments: argparse.Namespace, file: Path | None) -> dict[str, object]:
    """The settings that were given explicitly, by dotted key; all others have their defaults."""
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
