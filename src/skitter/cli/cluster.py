"""`skitter cluster`: make, feed and watch a crawl on many machines."""

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

_NAMING = ("add", "set", "abandon")  # actions with something to name


def parser() -> Parser:
    """The flags of `skitter cluster`."""
    made = Parser(
        "cluster",
        "A crawl on many machines. `init` makes what the engines need (schema, topics) and may be repeated; `add` brings "
        "seeds, and goes on where it was if it was interrupted and the same file is named again; `set` changes settings that all workers share, limits too, and reaches those at work; `status` shows shards, owners, mail, workers and segments of the archive that are in no bucket yet; `wait` "
        "returns when nothing is left to do, or when all workers have stopped at a limit; `abandon` gives up the segments of a worker that was lost with its disk, so that "
        "their pages are fetched again; `remove` takes the crawl out of the engines for good, and leaves its archive and its "
        "search index alone. Workers join with `skitter work`. Exit codes: 0 done, 1 not finished in time (wait) or "
        "still in use (abandon, remove), 2 wrong settings or an engine that cannot be used, 3 stopped at a limit (wait).",
        [
            "skitter cluster init --config cluster.toml",
            "skitter cluster add --config cluster.toml https://example.org",
            "skitter cluster set --config cluster.toml crawl.max_pages=100000",
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
        help="add: where to begin; set: settings, as SECTION.KEY=VALUE; abandon: the worker or the disk, as `status` names them",
    )
    made.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="settings file (TOML) with [cluster]"
    )
    made.add_argument(
        "--seeds",
        action="append",
        default=[],
        metavar="FILE",
        help="add: more URLs, one a line or JSON lines; - for standard input",
    )
    made.add_argument("--timeout", default="none", metavar="TIME", help="wait: give up after this time")
    made.add_argument("--json", action="store_true", help="status: one JSON object")
    made.add_argument("--yes", action="store_true", help="remove: do it")
    add_settings(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    """Do it."""
    arguments.given = given_by(arguments, arguments.config)
    settings = build(arguments.given)
    if (arguments.seeds and arguments.action != "add") or (arguments.url and arguments.action not in _NAMING):
        raise UsageError(
            f"cluster {arguments.action} takes no URLs; seeds are brought with: skitter cluster add"
        )
    if (
        arguments.action == "add"
    ):  # before there is an event loop: a pipe may be slow, and an interrupt must be heard
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
    from skitter.compose.engines import make  # noqa: PLC0415  engines' libraries are large

    made = await make(settings, arguments.given)
    print("\n".join(made) if made else "everything is there already")
    return Exit.DONE


async def _add(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  engines' libraries are large

    with interruptible() as interrupted:
        settings, _ = await settings_in_force(settings, arguments.given)
        return await add(arguments, arguments.seeds, settings, interrupted)


async def _followed(arguments: argparse.Namespace, settings: Settings) -> Settings:
    """The settings in force, whatever else was given: whoever only looks changes nothing."""
    from skitter.compose.engines import settings_in_force  # noqa: PLC0415  engines' libraries are large

    return (await settings_in_force(settings, arguments.given, strict=False))[0]


# ------------------------------------------------------------------------------------------------ settings


async def _set(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.cluster.shared_settings import change, followed_by_all  # noqa: PLC0415  engines' libraries are large
    from skitter.compose.engines import truth  # noqa: PLC0415  the same

    pairs = [assignment.partition("=") for assignment in arguments.url]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise UsageError("name settings and their values, as in: skitter cluster set crawl.max_pages=1000")
    async with truth(settings) as claims:
        version, said = await change(claims, {key.strip(): value for key, _, value in pairs})
        print("\n".join(said) or "everything is so already")
        if said:
            lacking = await followed_by_all(claims, version, settings.cluster.lease)
            print(
                f"not heard of by {', '.join(lacking)} yet"
                if lacking
                else "all workers that are here work by it"
            )
    return Exit.DONE


# ------------------------------------------------------------------------------------------------ status, wait


async def _status(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.cluster.agreement import unusual  # noqa: PLC0415  engines' libraries are large
    from skitter.cluster.status import Status, as_fields, as_lines, engine_lines, seen  # noqa: PLC0415  engines' libraries are large
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
    from skitter.cluster.status import until_finished  # noqa: PLC0415  engines' libraries are large
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
            print("skitter: the crawl is not finished", file=sys.stderr)
            return Exit.NO
    counts = end.counts
    numbers = f"{counts.pages} pages, {counts.requests} requests, {counts.failed} failed"
    if end.limit:
        print(f"stopped at a limit: {end.limit}; {numbers}, {counts.queued} URLs are left")
        return Exit.LIMIT
    print(f"finished: {numbers}")
    return Exit.DONE


# ------------------------------------------------------------------------------------------------ lost disks


async def _abandon(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import opened  # noqa: PLC0415  engines' libraries are large

    if len(arguments.url) != 1:
        raise UsageError("name one worker, or its disk, as `skitter cluster status` shows them")
    (name,) = arguments.url
    settings = await _followed(arguments, settings)
    async with opened(settings, "") as engines:
        register = engines.segments
        if register is None:
            raise UsageError("there is no register of segments in a cluster of this size; nothing to abandon")
        disk = _disk_of(name, await register.disks())
        if settings.s3.bucket:
            from skitter.compose.storing import arrived  # noqa: PLC0415  the same

            await arrived(settings, register, disk)
        lost = await register.give_up(disk)
    if lost is None:
        print(
            f"skitter: {name} gives signs of life, or owns shards; stop it, and wait until its lease has ended",
            file=sys.stderr,
        )
        return Exit.NO
    print(f"{counted(len(lost), 'segment')} given up; the pages in them are fetched again")
    return Exit.DONE


def _disk_of(name: str, disks: "Sequence[Disk]") -> str:
    for disk in disks:
        if name in (disk.name, disk.worker):
            return disk.name
    raise UsageError(
        f"no worker {printable(name)} has segments that are not uploaded; `skitter cluster status` shows who has"
    )


# ------------------------------------------------------------------------------------------------ the end


async def _remove(arguments: argparse.Namespace, settings: Settings) -> int:
    from skitter.compose.engines import opened, unmake  # noqa: PLC0415  engines' libraries are large

    name = settings.cluster.name
    if not arguments.yes:
        raise UsageError(
            f"the crawl {printable(name)} would be gone for good, with every URL that it knows; say --yes to do it"
        )
    try:
        with suppress(UnknownSettings):  # of a crawl that was made before they were kept
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
    """Why a crawl must not be removed yet, if there is a reason."""
    standing = await engines.claims.standing()
    owners = {shard.owner for shard in standing if shard.owner and shard.lease_until > shard.now}
    if owners:
        return f"{counted(len(owners), 'worker')} at work; stop them first: {', '.join(sorted(owners))}"
    disks = await engines.segments.disks() if engines.segments and settings.s3.bucket else []
    if disks:
        where = ", ".join(disk.worker or disk.name for disk in disks)
        fix = "let them upload (`skitter work` in their directories), or give them up with `skitter cluster abandon`"
        return f"{counted(sum(disk.segments for disk in disks), 'segment')} not in the bucket yet, of {where}; {fix}"
    return ""
