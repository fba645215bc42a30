"""Generates docs/reference, the keywords of `skitter.crawl()`, and the rules and dashboard in deploy/.

    python scripts/reference.py            write the files
    python scripts/reference.py --check    exit 1 if one of them is outdated

Nothing in there is written by hand, so nothing can be outdated; tests/unit/test_docs.py checks that.
"""

import argparse
import re
import runpy
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import get_args

from skitter.cli import COMMANDS
from skitter.cli.usage import Exit, Parser
from skitter.links.scope import KINDS
from skitter.reasons import TABLE, Entry
from skitter.reporting import exposition
from skitter.reporting.alerting.prometheus import rule_file
from skitter.runtime.metrics import Metric, described
from skitter.settings import SECTIONS, Bytes, GroupSettings, Seconds
from skitter.settings.alerts import AlertsSettings
from skitter.settings.keywords import LONG, SHORT
from skitter.settings.overlays import may_overlay
from skitter.settings.rules import RANGES
from skitter.settings.values import GROUP_KEYS, KEYS, Key, optional, show

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
OPTIONS = ROOT / "src" / "skitter" / "api" / "options.py"
RULE_FILE = ROOT / "deploy" / "prometheus" / "skitter.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "skitter.json"
MADE = "<!-- made by scripts/reference.py; do not edit -->"

EXITS = {
    Exit.DONE: "done",
    Exit.NO: "the answer is no, or not one page could be fetched",
    Exit.USAGE: "wrong usage or settings; nothing was done",
    Exit.LIMIT: "stopped at a limit, with work left",
    Exit.STATE: "disk full, directory in use or unreadable, engine lost; the state is safe",
    Exit.INTERRUPTED: "interrupted; the state is safe",
}


def settings() -> str:
    """The reference of all settings."""
    lines = [
        MADE,
        "",
        "# Settings",
        "",
        "Settings come from a TOML file (`--config`), then from the environment, then from flags; the later wins. Any setting",
        "can be given as `--set section.key=value`. A key that does not exist is an error, wherever it stands.",
        "",
        "Durations are written `250ms`, `1s`, `5m`, `24h` or `7d`, sizes `500kB` or `10MiB`; plain numbers are seconds and bytes.",
        'In the environment and in `--set`, a list is written like a TOML array, `["one", "two"]`; a single item may stand bare.',
        "`none` takes a limit away; in a file it stands in quotes. `crawl.toml` in a crawl directory holds every setting as resolved. It may be changed by hand",
        "between two runs, or while it runs for `skitter reload DIR`, and must keep its last line, which says that it is whole.",
        "",
    ]
    for section, cls in SECTIONS.items():
        lines += [f"## [{section}]", "", (cls.__doc__ or "").strip(), ""]
        lines += ["| key | default | meaning | variable |", "|---|---|---|---|"]
        lines += [_setting(key) for key in KEYS.values() if key.section == section]
        lines.append("")
    lines += [
        "## [[site]]",
        "",
        "Settings of single sites: `match` is a pattern, and the other keys are settings by their dotted names, which hold for",
        "the URLs that it matches. Of several that match, the first that names a setting decides about it.",
        "",
        "```toml",
        "[[site]]",
        'match = "*.example.org/docs/*"',
        'politeness.delay = "5s"',
        "```",
        "",
        "A pattern is a host, perhaps with `https://` before it and a port and a path behind it. `*` stands for any",
        "characters. Without a path it matches the whole site; with one, path and query must match from the first character",
        "to the last. These settings may be set for a site:",
        "",
        *(f"- `{key}`" for key in KEYS if may_overlay(key)),
        "",
        "## [group.NAME]",
        "",
        (GroupSettings.__doc__ or "").strip(),
        "",
        "| key | default | meaning |",
        "|---|---|---|",
        *(_setting(key).rsplit(" | ", 1)[0] + " |" for key in GROUP_KEYS.values()),
        "",
    ]
    return "\n".join(lines)


def _setting(key: Key) -> str:
    default = (
        "not set" if key.default is None else f"`{_cell(' '.join(show(key.kind, key.default).split()))}`"
    )
    return f"| `{key.name}` | {default} | {_cell(key.doc)}{_bounds(key)} | `{key.variable}` |"


def _bounds(key: Key) -> str:
    allowed = RANGES.get(key.dotted)
    if allowed is None:
        return ""
    kind, _ = optional(key.kind)
    low = show(kind, allowed.low).strip('"')
    return (
        f" ({low} or more)"
        if allowed.high == float("inf")
        else f" ({low} to {show(kind, allowed.high).strip(chr(34))})"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def commands() -> str:
    """The reference of all commands."""
    lines = [MADE, "", "# Commands", ""]
    lines += ["Results go to standard output, progress and complaints to standard error.", ""]
    lines += [
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {int(code)} | {text} |" for code, text in EXITS.items()),
        "",
    ]
    for name in COMMANDS:
        parser = import_module(f"skitter.cli.{name}").parser()
        lines += [f"## skitter {name}", "", *_command(parser)]
    return "\n".join(lines)


def _command(parser: Parser) -> Iterator[str]:
    yield " ".join((parser.description or "").split())
    yield ""
    yield "| argument | meaning |"
    yield "|---|---|"
    for action in parser._actions:  # noqa: SLF001  argparse tells its flags in no other way
        if action.dest != "help":
            yield f"| `{_cell(_usage(action))}` | {_cell((action.help or '').replace('%%', '%'))} |"
    yield ""
    yield "```sh"
    yield from parser.examples
    yield "```"
    yield ""


def _usage(action: argparse.Action) -> str:
    metavar = str(action.metavar or "|".join(action.choices or ()))
    if not action.option_strings:
        return {"+": f"{metavar}...", "*": f"[{metavar}...]", "?": f"[{metavar}]"}.get(
            str(action.nargs), metavar
        )
    value = f" {metavar}" if metavar and action.nargs != 0 else ""
    return ", ".join(f"{flag}{value}" for flag in action.option_strings)


def reasons() -> str:
    """The reference of all reasons."""
    lines = [
        MADE,
        "",
        "# Reasons",
        "",
        "Whatever is refused, given up, set aside or postponed has a reason: one of the codes below, and a detail about this case.",
        "`skitter why DIR URL` shows both, the report and `skitter status` count URLs by code, and records of URLs in exports and",
        "`--json` have them as `reason`. There are no other codes, and a code never changes its spelling.",
        "",
        "A changed setting applies from the next run on, or from `skitter reload` on, also to URLs that were refused before (`scope`,",
        "`budget` and `trap`). Any other URL comes back when it is named as a seed; in a cluster, with `skitter cluster add`. NNN stands for the status of an",
        "answer: 429, or 500 and above.",
        "",
    ]
    for title, entries in groupby(TABLE.values(), lambda entry: entry.group):
        lines += [f"## {title}", "", "| code | what it means | what to do |", "|---|---|---|"]
        lines += [_reason(entry) for entry in entries]
        lines.append("")
    return "\n".join(lines)


def _reason(entry: Entry) -> str:
    return f"| `{entry.code}` | {_cell(entry.meaning)} | {_cell(_marked(entry.remedy))} |"


_TYPED = re.compile(
    r"skitter \w+ (?:URL -o DIR|DIR URL)|--[a-z-]+(?: (?:[A-Z]+|host|domain|any)\b)?|\b[a-z]+\.[a-z_]+"
)


def _marked(text: str) -> str:
    """Text with what one types, settings and commands, set as code."""
    return _TYPED.sub(lambda found: found[0] if found[0] == "robots.txt" else f"`{found[0]}`", text)


def metrics() -> str:
    """The reference of all metrics."""
    lines = [
        MADE,
        "",
        "# Metrics",
        "",
        "`skitter_crawl_…` are the counts of a crawl over all its runs: they are committed with every visit, and no crash loses",
        "one. All others are what the running processes have measured since they started, added up over workers. `skitter status -v`",
        "shows them, `skitter status --json`, `skitter cluster status --json` and the report (`--json`) have them by group and name.",
        "On one machine they are written to `log/statistics.json` about once a second. `--metrics` serves all of them to Prometheus:",
        "see [metrics and alerts](../metrics.md). There, statuses are told by class, reasons by their first word, and depths of ten and",
        "more together, so that their number stays small.",
        "",
        "| name | kind | meaning |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{each.name}` | {each.metric.kind} | {_cell(each.metric.help)}{_labelled(each.metric)} |"
        for each in (*described(), *exposition.described())
    ]
    return "\n".join(lines) + "\n"


def _labelled(metric: Metric) -> str:
    return f", by {metric.label}" if metric.label else ""


def options() -> str:
    """The keywords of `skitter.crawl()`, as a type that editors and type checkers know."""
    lines = [
        '"""The keywords of `skitter.crawl()`. Made by scripts/reference.py from the settings; do not edit."""',
        "",
        "from collections.abc import Mapping, Sequence",
        "from typing import Literal, TypedDict",
        "",
        "",
        "class Options(TypedDict, total=False):",
        '    """Settings of a crawl. Durations are seconds or text with a unit ("2s"), sizes are bytes or text ("10MiB")."""',
    ]
    for keyword, dotted in (*SHORT.items(), *LONG.items()):
        key = KEYS[dotted]
        lines += ["", f"    {keyword}: {_annotation(key)}", f'    """{key.doc}"""']
    lines += ["", "    site: Sequence[Mapping[str, object]]"]
    lines += [
        '    """settings of single sites, such as [{"match": "*.example.org", "politeness.delay": "5s"}]"""'
    ]
    lines += ["", "    group: Mapping[str, Mapping[str, object]]"]
    lines += [
        '    """hosts that count as one, such as {"cdn": {"hosts": ["*.cdn.example"], "delay": "2s"}}"""'
    ]
    return "\n".join(lines) + "\n"


_WORDS = {"scope.kind": KINDS}
_ANNOTATIONS = {
    Seconds: "str | float",
    Bytes: "str | int",
    str: "str",
    bool: "bool",
    int: "int",
    float: "float",
}


def _annotation(key: Key) -> str:
    """The type of an accepted argument, which is wider than what is stored."""
    if words := _WORDS.get(key.dotted):
        return "Literal[" + ", ".join(f'"{word}"' for word in words) + "]"
    kind, may_be_unset = optional(key.kind)
    of = get_args(kind)
    written = f"Sequence[{_ANNOTATIONS[of[0]]}]" if of else _ANNOTATIONS[kind]
    return f"{written} | None" if may_be_unset else written


def pages() -> dict[Path, str]:
    """Every generated file, with its content."""
    return {
        FOLDER / "settings.md": settings(),
        FOLDER / "commands.md": commands(),
        FOLDER / "reasons.md": reasons(),
        FOLDER / "metrics.md": metrics(),
        RULE_FILE: rule_file(AlertsSettings()),
        DASHBOARD: runpy.run_path(str(ROOT / "scripts" / "dashboard.py"))["dashboard"](),
        OPTIONS: options(),
    }


def main() -> int:
    """Write the reference, or check it."""
    stale = [
        path
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path} is not current; run: python scripts/reference.py")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
