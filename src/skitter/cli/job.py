"""`skitter job`: crawls that are started again and again, by hand or by the clock."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from skitter.cli.crawl import add_sources
from skitter.cli.usage import Parser

DEFAULT_ROOT = Path("skitter-jobs")


class JobParser(Parser):
    """The actions of `skitter job`, each with flags of its own."""

    def __init__(
        self, description: str, actions: Mapping[str, Callable[[], Parser]], examples: Sequence[str]
    ) -> None:
        super().__init__("job", description, examples)
        self.actions = actions
        self.add_argument("action", choices=tuple(actions), help="what to do; each has its own --help")
        self.add_argument("words", nargs="*", metavar="ARGUMENT", help="see skitter job ACTION --help")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Read the words of an action."""
        if not words or words[0] not in self.actions:
            return super().read(words)
        made = self.actions[words[0]]()
        arguments = made.read(words[1:])
        arguments.action = words[0]
        return arguments


def parser() -> JobParser:
    """The actions of `skitter job`."""
    return JobParser(
        "Crawls that are started again and again, by hand or by the clock. Jobs and the history of their runs are kept in a folder "
        "(--root) beside the crawls, or in PostgreSQL for schedulers on many machines (--cluster). `skitter job serve` runs what is "
        "due; several may run at once, and no run begins twice.",
        {
            "add": _add,
            "list": _list,
            "show": _show,
            "run": _run,
            "pause": _pause,
            "continue": _continue,
            "stop": _stop,
            "remove": _remove,
            "log": _log,
            "serve": _serve,
        },
        [
            'skitter job add news https://example.org --every "0 3 * * 1" --zone Europe/Berlin',
            "skitter job list",
            "skitter job run news",
            "skitter job log news",
            "skitter job serve",
        ],
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    import asyncio  # noqa: PLC0415  `skitter job --help` does without

    from skitter.cli.job_acting import ACTIONS  # noqa: PLC0415  slow to import

    return asyncio.run(ACTIONS[arguments.action](arguments))


def _made(action: str, description: str, examples: Sequence[str], *, named: bool = True) -> Parser:
    made = Parser(f"job {action}", description, examples)
    if named:
        made.add_argument("name", metavar="NAME", help="the job")
    made.add_argument(
        "--root",
        type=Path,
        default=DEFAULT_ROOT,
        metavar="FOLDER",
        help=f"where jobs and their crawls are kept (default: ./{DEFAULT_ROOT})",
    )
    made.add_argument(
        "--cluster",
        type=Path,
        metavar="FILE",
        help="settings file (TOML) with [cluster] and [postgres]: jobs are kept there, crawls still in --root",
    )
    made.add_argument("--json", action="store_true", help="answer as JSON")
    return made


def _add() -> Parser:
    made = _made(
        "add",
        "Keep a job: what to crawl (as in `skitter crawl`, with all its flags), when, and how. The crawl is checked now and run later. "
        "A run that is due while the last one is not over is skipped (--overlap). Of runs that came due while no scheduler ran, the latest is "
        "run once, the others are recorded as missed. Times are those of the zone: a run in the hour that summer time leaves out begins "
        "right after it, and one in the hour that comes twice begins the first time.",
        [
            'skitter job add news https://example.org --every "0 3 * * 1" --zone Europe/Berlin',
            'skitter job add nightly example.org --every "30 1 * * *" --kind continue --max-time 4h',
            "skitter job add shop example.org --max-pages 500 --every @daily --keep 14",
            "skitter job add docs --seeds urls.txt --config crawl.toml --every @weekly --webhook https://hooks.example.net/crawls --secret-file key",
            "skitter job add now-and-then example.org",
        ],
    )
    when = made.add_argument_group("when and how")
    when.add_argument(
        "--every",
        default="",
        metavar="LINE",
        help='a cron line: minute, hour, day, month, weekday, such as "0 3 * * 1"; or @hourly, @daily, @weekly, @monthly, @yearly (default: by hand only)',
    )
    when.add_argument(
        "--zone", default="UTC", metavar="ZONE", help="IANA time zone of the line (default: UTC)"
    )
    when.add_argument(
        "--kind",
        choices=["new", "refresh", "continue"],
        default="new",
        help="each run is a new crawl, fetches the pages of the job's one crawl again, or continues it (default: new)",
    )
    when.add_argument(
        "--overlap",
        choices=["skip", "queue"],
        default="skip",
        help="a run that is due while the last one is not over is skipped, or waits (default: skip)",
    )
    when.add_argument(
        "--deadline",
        default="none",
        metavar="TIME",
        help="how late a missed run may still begin (default: none, however late)",
    )
    when.add_argument(
        "--keep", type=int, metavar="N", help="remove the crawls of older runs; the newest N stay"
    )
    when.add_argument(
        "--keep-for", default="none", metavar="TIME", help="remove the crawls of runs that ended longer ago"
    )
    when.add_argument("--webhook", default="", metavar="URL", help="tell this URL, as JSON, how runs ended")
    when.add_argument(
        "--secret-file", default="", metavar="FILE", help="the key that signs what the webhook gets"
    )
    when.add_argument(
        "--command",
        default="",
        metavar="WORDS",
        help="run this command at the end of runs, with a line on its input",
    )
    when.add_argument(
        "--replace", action="store_true", help="in the place of the job of this name; its history stays"
    )
    add_sources(made)
    return made


def _list() -> Parser:
    return _made(
        "list",
        "All jobs: when each runs next, and how its last run ended.",
        ["skitter job list", "skitter job list --json --root /srv/crawls"],
        named=False,
    )


def _show() -> Parser:
    return _made(
        "show", "A job: what it crawls, its next runs, and its last ones.", ["skitter job show news"]
    )


def _run() -> Parser:
    made = _made(
        "run",
        "Run a job now, here, and wait for its end; exit codes are those of `skitter crawl`. Interrupted or killed, the run goes on when a "
        "scheduler finds it. With --queue a scheduler runs it.",
        ["skitter job run news", "skitter job run news --queue"],
    )
    made.add_argument("--queue", action="store_true", help="do not wait: a scheduler runs it")
    _add_running(made)
    return made


def _pause() -> Parser:
    return _made(
        "pause",
        "No more runs by the clock, until `skitter job continue`. A run that runs goes on.",
        ["skitter job pause news"],
    )


def _continue() -> Parser:
    return _made(
        "continue",
        "Runs by the clock again. What was due meanwhile is not made up for.",
        ["skitter job continue news"],
    )


def _stop() -> Parser:
    return _made(
        "stop",
        "Stop the run that runs or waits. Its crawl stays, and can be continued by hand. Exit code 1 if there is none.",
        ["skitter job stop news"],
    )


def _remove() -> Parser:
    return _made(
        "remove",
        "Forget a job and the history of its runs. Its crawls stay where they are.",
        ["skitter job remove news"],
    )


def _log() -> Parser:
    made = _made(
        "log",
        "The history of a job, the latest run first: when it was due, what became of it, and why. With --run, what the crawl of that run has said.",
        [
            "skitter job log news",
            "skitter job log news --limit 5 --json",
            "skitter job log news --run news-20261116T020000Z",
        ],
    )
    made.add_argument("--limit", type=int, default=20, metavar="N", help="how many runs (default: 20)")
    made.add_argument("--run", default="", metavar="RUN", help="what this run has said, and its report")
    return made


def _serve() -> Parser:
    made = _made(
        "serve",
        "Run what is due, until it is told to stop (Ctrl-C or SIGTERM): crawls that run are then stopped cleanly, and go on when it starts again. "
        "Several schedulers may serve the same jobs.",
        ["skitter job serve", "skitter job serve --root /srv/crawls --at-once 4"],
        named=False,
    )
    made.add_argument(
        "--at-once", type=int, default=2, metavar="N", help="runs at the same time (default: 2)"
    )
    _add_running(made)
    return made


def _add_running(made: Parser) -> None:
    made.add_argument(
        "--lease",
        default="60s",
        metavar="TIME",
        help="after this time without a sign of life, another scheduler goes on with a run (default: 60s)",
    )
    made.add_argument(
        "--allow-private",
        action="append",
        default=[],
        metavar="CIDR",
        help="webhooks may be sent to this network, which is not public; repeatable",
    )
