"""Adjusts settings to what this machine allows."""

from msgspec.structs import replace

from skitter.events import Events, Warned
from skitter.runtime.process import raise_open_files
from skitter.settings import Settings

_FILES_BESIDES_SOCKETS = 256  # the store's tables, the archive, logs
_FILES_PER_SHARD = 3  # its request log, the crash mark, the segment being written


def fitted_to_machine(settings: Settings, events: Events) -> Settings:
    """The settings with no more concurrent requests than there can be sockets; warns if that is fewer."""
    wanted = settings.crawl.concurrency + settings.fetch.keep_connections + _FILES_BESIDES_SOCKETS
    # Shards on top, as far as the system allows: a cluster worker seldom has all of them.
    allowed = raise_open_files(wanted + _FILES_PER_SHARD * settings.crawl.shards)
    if allowed >= wanted:
        return settings
    keep = max(1, (allowed - _FILES_BESIDES_SOCKETS) // 2)
    concurrency = max(1, min(settings.crawl.concurrency, keep))
    events.emit(
        Warned(
            f"only {allowed} files may be open at once (ulimit -n), so at most {concurrency} requests are made at once"
        )
    )
    return replace(
        settings,
        crawl=replace(settings.crawl, concurrency=concurrency),
        fetch=replace(settings.fetch, keep_connections=min(settings.fetch.keep_connections, keep)),
    )
