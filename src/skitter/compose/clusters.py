"""A cluster as its settings file names it: the settings that its workers share, and what it is told."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from skitter.cluster.orders import HowFar, add_command, all_commands, obeyed_by_all
from skitter.cluster.ports import UnknownSettings
from skitter.compose.engines import settings_in_force, truth
from skitter.control.orders import Continue, Pause, Request, command_of, in_words, is_paused
from skitter.ports import Command, Do
from skitter.reporting.format import counted
from skitter.settings import Settings, SettingsError
from skitter.settings.file import build, given


async def cluster_settings(file: Path) -> Settings:
    """The settings of the cluster that a file names, as its workers share them."""
    return await in_force(settings_given(file))


def settings_given(file: Path) -> dict[str, object]:
    """The cluster settings given by a file and the environment. SettingsError if they are no cluster's."""
    said = given(file, os.environ, {})
    if build(said).cluster.size == "none":
        raise SettingsError(
            f"{file}: cluster.size is none, which is a crawl on one machine; name its directory, without --config"
        )
    return said


async def in_force(said: Mapping[str, object]) -> Settings:
    """The shared settings stored on the engine, combined with the given connection settings."""
    settings = build(said)
    with suppress(UnknownSettings):  # a crawl created before settings were stored
        settings, _ = await settings_in_force(settings, said, strict=False)
    return settings


async def told(config: Path, request: Request) -> list[str]:
    """Give a command, and wait until all workers have it; returns what happened, in lines."""
    settings = await cluster_settings(config)
    command = command_of(request, settings.urls, time.time())
    async with truth(settings) as claims:
        paused = is_paused(await all_commands(claims))
        if isinstance(request, Pause) and paused:
            return ["paused already"]
        if isinstance(request, Continue) and not paused:
            return ["it was not paused"]
        command = await add_command(claims, command)
        far = await obeyed_by_all(claims, command.number, settings.cluster.lease)
    return _said(command, far)


def _said(command: Command, far: HowFar) -> list[str]:
    if not far.workers:
        return ["it is kept; no worker runs now, and every shard applies it when one joins"]
    whole = not far.lacking
    if command.do is Do.PAUSE:
        in_flight = (
            f"; {counted(far.in_flight, 'request')} in flight at the last heartbeat" if far.in_flight else ""
        )
        lines = [f"paused{in_flight}" if whole else "pausing"]
    elif command.do is Do.CONTINUE:
        lines = ["continued"]
    else:
        lines = [in_words(command, far.result, whole=whole)]
    if far.lacking:
        lines.append(f"not applied yet by {', '.join(far.lacking)}")
    if far.free and command.do not in (Do.PAUSE, Do.CONTINUE):
        lines.append(f"{counted(far.free, 'shard')} without a worker apply it when one takes them")
    return lines
