"""Serve a synthetic web from a shell; prints one line of JSON when it is ready."""

import argparse
import asyncio
import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from skitter.testing.web.features import Features
from skitter.testing.web.running import serve_here
from skitter.testing.web.web import SyntheticWeb


def _pair(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    if name not in {field.name for field in dataclasses.fields(Features)}:
        raise argparse.ArgumentTypeError(
            f"there is no feature {name!r}; write for example request_interval=2"
        )
    try:
        return name, json.loads(value)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{value!r} is not JSON; text goes in double quotes") from error


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skitter.testing.web",
        description="Serve a synthetic web on loopback until interrupted.",
        epilog="example: python -m skitter.testing.web --hosts 40 --pages 50 --seed 7 --preset mixed --log requests.jsonl",
    )
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--pages", type=int, default=20, help="ordinary pages per host")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--preset", choices=("none", "plain", "mixed", "hostile"), default="plain")
    parser.add_argument(
        "--feature", action="append", default=[], choices=Features.wings(), help="switch on one more"
    )
    parser.add_argument("--page-bytes", type=int, help="size of an ordinary page")
    parser.add_argument("--links", type=int, help="links on an ordinary page")
    parser.add_argument(
        "--set", action="append", default=[], type=_pair, metavar="NAME=VALUE", help="any other feature; JSON"
    )
    parser.add_argument(
        "--robots", action="append", default=[], help="robots.txt variant; repeat for a cycle"
    )
    parser.add_argument("--hosts-per-domain", type=int, default=2)
    parser.add_argument("--addressing", choices=("shared", "own", "literal"), default="shared")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before every answer")
    parser.add_argument("--log", type=Path, help="file that gets one line of JSON per request")
    parser.add_argument("--description", help="the whole web as JSON, instead of the options above")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input does")
    return parser


def _web(options: argparse.Namespace) -> SyntheticWeb:
    if options.description:
        fields = json.loads(options.description)
        return SyntheticWeb(**fields | {"features": Features(**fields["features"])})
    changes = dict.fromkeys(options.feature, True) | dict(options.set)
    for name, value in (("page_bytes", options.page_bytes), ("links_per_page", options.links)):
        if value is not None:
            changes[name] = value
    make: dict[str, Callable[..., Features]] = {
        "none": Features,
        "plain": Features.plain,
        "mixed": Features.mixed,
        "hostile": Features.hostile,
    }
    return SyntheticWeb(
        options.seed, options.hosts, options.pages, make[options.preset](**changes), options.hosts_per_domain,
        options.addressing, options.robots,
    )  # fmt: skip


async def _serve(options: argparse.Namespace, web: SyntheticWeb) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if options.until_stdin_closes:
        loop.add_reader(sys.stdin, stop.set)
    async with serve_here(web, options.port, latency=options.latency, log_file=options.log) as server:
        ready = {
            "port": server.port,
            "seed": server.seeds(1)[0],
            "hosts": web.hosts,
            "addresses": len(web.addresses()),
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    """Serve until told to stop."""
    arguments = _arguments()
    options = arguments.parse_args()
    try:
        web = _web(options)
    except ValueError as problem:
        arguments.error(str(problem))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, web))


main()
