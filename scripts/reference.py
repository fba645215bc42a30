"""Write docs/reference: every setting from the settings tree, every command from its parser.

    python scripts/reference.py            write the files
    python scripts/reference.py --check    exit 1 if one of them is not current

Nothing in there is written by hand, so nothing in there can be out of date; tests/unit/test_docs.py sees to that.
"""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from skitter.cli import COMMANDS
from skitter.cli.usage import Exit, Parser
from skitter.settings import SECTIONS
from skitter.settings.rules import RANGES
from skitter.settings.values import KEYS, Key, optional, show

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
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
        "`none` takes a limit away. `crawl.toml` in a crawl directory holds every setting as resolved.",
        "",
    ]
    for section, cls in SECTIONS.items():
        lines += [f"## [{section}]", "", (cls.__doc__ or "").strip(), ""]
        lines += ["| key | default | meaning | variable |", "|---|---|---|---|"]
        lines += [_setting(key) for key in KEYS.values() if key.section == section]
        lines.append("")
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


def pages() -> dict[Path, str]:
    """Every file of the reference and what belongs in it."""
    return {FOLDER / "settings.md": settings(), FOLDER / "commands.md": commands()}


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
