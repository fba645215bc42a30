"""The command line: finds the command, runs it, and turns errors into one line and an exit code.

Each command is a module of the same name, imported only when used, so `skitter --version` loads no engine. It has
`parser()` and `run(arguments) -> exit code`. Results go to standard output, everything else to standard error.
"""

import difflib
import io
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import skitter
from skitter.cli import streams
from skitter.cli.usage import Exit, UsageError
from skitter.ports import EngineError, StateError
from skitter.reporting.format import printable
from skitter.runtime.hiding import hidden
from skitter.settings import SettingsError

COMMANDS: Mapping[str, str] = {
    "crawl": "crawl from these URLs into a directory",
    "resume": "continue a crawl where it stopped, however it stopped",
    "status": "state of a crawl, what to do next, and its numbers",
    "pause": "a running crawl fetches nothing new",
    "continue": "a paused crawl fetches again",
    "block": "no request to some hosts from now on",
    "unblock": "requests to blocked hosts again",
    "retry": "URLs that failed wait again",
    "add": "more seeds for a running crawl",
    "reload": "a running crawl takes over changed settings",
    "plan": "what a crawl would meet and cost, without fetching a page",
    "why": "every decision about a URL, and its reason",
    "patterns": "which URL patterns bring something, and which are parked",
    "pages": "list and filter the pages of a crawl",
    "show": "a stored page: its record, text, body, headers or links",
    "export": "write a crawl for other programs: JSON lines, CSV, WACZ and others",
    "replay": "show archived pages in a browser",
    "sql": "ask a crawl in SQL, or one of many named questions",
    "report": "what many checks find in a crawl, as text or as one HTML page",
    "changes": "what changed between two crawls",
    "check": "verify the stored state and archive of a crawl",
    "audit": "prove from its log that a crawl was polite",
    "search": "full-text search over the pages of a crawl",
    "index": "send the pages of a crawl to OpenSearch or Elasticsearch",
    "url": "fetched form, key, host and domain of a URL",
    "robots": "what a robots.txt says about URLs",
    "cluster": "set up, feed and watch a crawl on many machines",
    "work": "join a cluster as a worker",
    "identity": "make a key and pages by which sites recognise your crawler",
    "doctor": "check the installation and the engines",
}

_EXTRAS: Mapping[str, str] = {
    "asyncpg": "PostgreSQL",
    "confluent_kafka": "Kafka",
    "redis": "Redis",
    "obstore": "S3",
}
"""Libraries of the extra `cluster`, and the engine each one is for."""

_HELP = """\
Skitter, a polite web crawler that never loses work.

usage: skitter COMMAND [ARGUMENTS]
       skitter COMMAND --help
       skitter --version

commands:
{commands}

examples:
  skitter crawl https://example.org
  skitter status skitter-example.org
  skitter why skitter-example.org https://example.org/about
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    streams.provide()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a title the terminal cannot encode must not raise
    try:
        code = _run(words)
        sys.stdout.flush()
    except (UsageError, SettingsError, EngineError) as problem:
        return _complain(str(problem), Exit.USAGE)
    except StateError as problem:
        return _complain(str(problem), Exit.STATE)
    except BrokenPipeError:  # `skitter pages DIR | head` is not a failure
        streams.give_up(sys.stdout)
        return Exit.DONE
    except OSError as problem:
        streams.write(sys.stdout, "")  # if standard output itself cannot be written, give it up
        where = f"{problem.filename}: " if problem.filename else ""
        return _complain(f"{where}{problem.strerror or problem}", Exit.STATE)
    except KeyboardInterrupt as stopped:  # a crawl says how to continue
        return _complain(str(stopped) or "interrupted", Exit.INTERRUPTED)
    return code


def _run(words: Sequence[str]) -> int:
    if len(words) > 1 and words[0] == "help":
        words = [words[1], "--help"]
    if not words or words[0] in {"-h", "--help", "help"}:
        listed = "\n".join(f"  {name:<8} {summary}" for name, summary in COMMANDS.items())
        print(_HELP.format(commands=listed), end="", file=sys.stdout if words else sys.stderr)
        return Exit.DONE if words else Exit.USAGE
    name, *rest = words
    if name in {"-V", "--version"}:
        print(f"skitter {skitter.__version__}")
        return Exit.DONE
    if name not in COMMANDS:
        raise UsageError(_no_such_command(name))
    command = import_module(f"skitter.cli.{name}")
    try:
        arguments = command.parser().read(rest)
    except SystemExit:  # argparse has printed the help
        return Exit.DONE
    try:
        return int(command.run(arguments))
    except ModuleNotFoundError as missing:
        raise _lacking(missing) from None


def _no_such_command(name: str) -> str:
    if "." in name or "/" in name:
        return f"{name!r} is not a command; did you mean: skitter crawl {name}?"
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"commands are {', '.join(COMMANDS)}"
    return f"{name!r} is not a command; {hint}"


def _complain(message: str, code: Exit) -> int:
    shown = "\n".join(map(printable, hidden(message).split("\n")))  # may quote a server, a page or a file
    streams.write(sys.stderr, f"skitter: {shown}\n")
    return code


def _lacking(missing: ModuleNotFoundError) -> Exception:
    """Name the missing extra; any other missing library is a broken installation and is raised as it is."""
    library = (missing.name or "").partition(".")[0]
    if library not in _EXTRAS:
        return missing
    from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

    return EngineError(
        f"{_EXTRAS[library]}: the settings use it (cluster.size), but its library {library} is not installed; "
        f"install it with: {install_line('cluster')}"
    )
