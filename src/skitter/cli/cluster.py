"""`skitter cluster`: set up, feed and watch a crawl on many machines."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from skitter.cli.feeding import add, interruptible, seed_files
from skitter.cli.options import add_settings, given_by
from skitter.cli.usage import Exit, Parser, UsageError
from skitter.cluster.ports import NoCrawl, UnknownSettings
from skitter.ports import EngineError
from skitter.reporting.format import counted, printable
from skitter.settings import Settings, seconds
from skitter.settings.file import build

if TYPE_CHECKING:
    from skitter.cluster.ports import Disk
    from skitter.compose.engines import Engines

_NAMING = ("add", "set", "abandon")  # actions with positional arguments


def parser() -> Parser:
    """The flags of `skitter cluster`."""
    made = Parser(
        "cluster",
        "Set up, feed and watch a crawl on many machines. `init` creates what the engines need (schema, topics) and "
        "may be repeated. `add` adds seeds; if it was interrupted, the same command continues. `set` changes the "
        "settings that all workers share, including limits, also while they run. `status` shows shards, owners, "
        "forwarded messages, workers and segments that are not uploaded yet. `wait` returns when nothing is left to "
        "do, or when all workers have stopped at a limit. `abandon` gives up the segments of a worker that was lost "
        "with its disk, so that their pages are fetched again. `remove` deletes the crawl from the engines for good, "
        "but not its archive and its search index. Workers join with `skitter work`. Exit codes: 0 done, 1 not "
        "finished in time (wait) or still in use (abandon, remove), 2 wrong settings or an engine that cannot be "
        "used, 3 stopped at a limit (wait).",
        [
            "skitter cluster init --config cluster.toml",
            "skitter cluster add --config cluster.toml https://example.org",
            "skitter cluster set --config cluster.toml crawl.max_pages=100000",
            "skitter cluster set --config cluster.toml",
            "skitter cluster status --config cluster.toml",
            "skitter cluster wait --config cluster.toml --timeout 8h",
            "skitter cluster abandon --config cluster.toml WORKER",
            "skitter cluster remove --config cluster.toml --yes",
        ],
    )
    made.add_argument("action", choices=tuple(_actions()), help="what to do")
    made.add_argument(
        "url",
        nargs="*",
        default=[],
        metavar="URL",
        help="add: where to start; set: settings, as SECTION.KEY=VALUE, or none to take over the file as it is now; abandon: the worker or disk, as shown by `status`",
    )
    made.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="settings file (TOML) with [cluster]"
    )
    made.add_argument(
        "--seeds",
        action="append",
        default=[],
        metavar="FILE",
        help="add: a file with more URLs, one per line, or JSON lines; - for standard input",
    )
    made.add_argument("--timeout", default="none", metavar="TIME", help="wait: give up after this time")
    made.add_argument("--json", action="store_true", help="status: one JSON object")
    made.add_argument("--yes", action="store_true", help="remove: confirm")
    add_settings(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    arguments.given = given_by(arguments, arguments.config)
    settings = build(arguments.given)
    if (arguments.seeds and arguments.action != "add") or (arguments.url and arguments.action not in _NAMING):
        raise UsageError(f"cluster {arguments.action} takes no URLs; add seeds with: skitter cluster add")
    if arguments.action == "add":  # before the event loop starts: a pipe may be slow, and Ctrl-C must work
        arguments.seeds = seed_files(arguments, settings)
    return asyncio.run(_actions()[arguments.action](arguments, settings))


def _actions() -> Mapping[str, Callable[[argparse.Namespace, Settings], Coroutine[None, None, int]]]:
    return {
        "init": _init,
        "add": _add,
        "set": _set,
        "status": _status,
        "wait": _wait,
        "abandon": _abandon,
        "remove": _remove,
    }


async def _init(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import make  # noqa: PLC0415  slow to import

    made = await make(settings, arguments.given)
    print("\n".join(made) if made else "everything already exists")
    return Exit.DONE


async def _add(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  slow to import

    with interruptible() as interrupted:
        settings, _ = await settings_in_force(settings, arguments.given)
        return await add(arguments, arguments.seeds, settings, interrupted)


async def _followed(arguments: argparse.Namespace, settings: Settings) -> Settings:
    """The shared settings; differing local ones are ignored, because these actions only read."""
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  slow to import

    return (await settings_in_force(settings, arguments.given, strict=False))[0]


# ------------------------------------------------------------------------------------------------ settings


async def _set(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.cluster.agreement import decides  # noqa: PLC0415  slow to import
    from skitter.cluster.shared_settings import change, followed_by_all  # noqa: PLC0415  slow to import
    from skitter.compose.engines import truth  # noqa: PLC0415  the same

    pairs = [assignment.partition("=") for assignment in arguments.url]
    if not all(equals for _, equals, _ in pairs):
        raise UsageError("name settings with their values, as in: skitter cluster set crawl.max_pages=1000")
    named = {key.strip(): value for key, _, value in pairs}
    in_file = {key: value for key, value in arguments.given.items() if decides(key)}
    async with truth(settings) as claims:
        version, said = await change(claims, named or in_file)
        print("\n".join(said) or "nothing to change")
        if said:
            lacking = await followed_by_all(claims, version, settings.cluster.lease)
            print(f"not applied yet by {', '.join(lacking)}" if lacking else "all running workers use it")
    return Exit.DONE


# ------------------------------------------------------------------------------------------------ status, wait


async def _status(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.cluster.agreement import unusual  # noqa: PLC0415  slow to import
    from skitter.cluster.status import Status, as_fields, as_lines, engine_lines, seen  # noqa: PLC0415  slow to import
    from skitter.compose.engines import opened  # noqa: PLC0415  the same
    from skitter.compose.health import TRUTH, health  # noqa: PLC0415  the same

    found = await health(settings)
    for each in found:
        if each.engine == TRUTH[settings.cluster.size] and not each.up:
            alone = Status(found)
            fields = as_fields(alone, settings.crawl)
            print(json.dumps(fields) if arguments.json else "\n".join(map(printable, engine_lines(alone))))
            raise EngineError(each.said)
    settings = await _followed(arguments, settings)
    async with opened(settings, "", looking=True) as engines:
        status = replace(await seen(engines, found), settings=unusual(settings))
    shown = as_lines(status, settings.crawl)
    print(
        json.dumps(as_fields(status, settings.crawl)) if arguments.json else "\n".join(map(printable, shown))
    )
    return Exit.DONE


async def _wait(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.cluster.status import until_finished  # noqa: PLC0415  slow to import
    from skitter.compose.engines import opened  # noqa: PLC0415  the same

    patience = None if arguments.timeout == "none" else seconds(arguments.timeout)
    settings = await _followed(arguments, settings)
    async with opened(settings, "") as engines:
        try:
            async with asyncio.timeout(patience):
                end = await until_finished(engines, settings)
                while end.limit and settings != (settings := await _followed(arguments, settings)):
                    end = await until_finished(engines, settings)  # the limit was raised meanwhile
        except TimeoutError:
            print("skitter: the crawl is not finished yet", file=sys.stderr)
            return Exit.NO
    counts = end.counts
    numbers = f"{counts.pages} pages, {counts.requests} requests, {counts.failed} failed"
    if end.limit:
        print(f"stopped at a limit: {end.limit}; {numbers}, {counts.queued} URLs left")
        return Exit.LIMIT
    print(f"finished: {numbers}")
    return Exit.DONE


# ------------------------------------------------------------------------------------------------ lost disks


async def _abandon(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import opened  # noqa: PLC0415  slow to import

    if len(arguments.url) != 1:
        raise UsageError("name one worker or disk, as shown by `skitter cluster status`")
    (name,) = arguments.url
    settings = await _followed(arguments, settings)
    async with opened(settings, "") as engines:
        register = engines.segments
        if register is None:
            raise UsageError("a cluster of this size has no register of segments; nothing to abandon")
        disk = _disk_of(name, await register.disks())
        if settings.s3.bucket:
            from skitter.compose.storing import arrived  # noqa: PLC0415  the same

            await arrived(settings, register, disk)
        lost = await register.give_up(disk)
    if lost is None:
        print(
            f"skitter: {name} is alive, or owns shards; stop it, and wait until its lease has ended",
            file=sys.stderr,
        )
        return Exit.NO
    print(f"{counted(len(lost), 'segment')} given up; their pages will be fetched again")
    return Exit.DONE


def _disk_of(name: str, disks: "Sequence[Disk]") -> str:
    for disk in disks:
        if name in (disk.name, disk.worker):
            return disk.name
    raise UsageError(
        f"no worker {printable(name)} has segments waiting for upload; `skitter cluster status` shows who has"
    )


# ------------------------------------------------------------------------------------------------ the end


async def _remove(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import opened, unmake  # noqa: PLC0415  slow to import

    name = settings.cluster.name
    if not arguments.yes:
        raise UsageError(
            f"this would delete the crawl {printable(name)} for good, with every URL in it; confirm with --yes"
        )
    try:
        with suppress(UnknownSettings):  # a crawl created before settings were stored
            settings = await _followed(arguments, settings)
        async with opened(settings, "", looking=True) as engines:
            reason = await _in_use(engines, settings)
    except NoCrawl:
        print(f"there is no crawl {printable(name)} on these engines")
        return Exit.DONE
    if reason:
        print(f"skitter: {reason}", file=sys.stderr)
        return Exit.NO
    print("\n".join(await unmake(settings)))
    return Exit.DONE


async def _in_use(engines: "Engines", settings: Settings) -> str:
    """Why a crawl must not be removed yet; empty if it may."""
    standing = await engines.claims.standing()
    owners = {shard.owner for shard in standing if shard.owner and shard.lease_until > shard.now}
    if owners:
        return f"{counted(len(owners), 'worker')} running; stop them first: {', '.join(sorted(owners))}"
    disks = await engines.segments.disks() if engines.segments and settings.s3.bucket else []
    if disks:
        where = ", ".join(disk.worker or disk.name for disk in disks)
        fix = "upload them (run `skitter work` in their directories), or give them up with `skitter cluster abandon`"
        return f"{counted(sum(disk.segments for disk in disks), 'segment')} not in the bucket yet, of {where}; {fix}"
    return ""
