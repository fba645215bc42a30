"""Removes a crawl from Redis, with its caches; other crawls are not touched."""

import re

from skitter.backends.redis.claims import whole
from skitter.backends.redis.client import Client

_AT_ONCE = 1_000  # keys read in one request, and removed in one
_GLOB = re.compile(r"[\\*?\[\]^]")


async def remove(client: Client) -> int:
    """Remove every key of this crawl; returns how many there were. Redis serves others in between.

    The key that identifies the crawl is removed last: until then, an interrupted removal can be repeated.
    """
    name, last = client.name, whole(client.name, "shards")
    # Shards, the crawl as a whole, caches: see `store.tag`, `claims` and `cache`.
    ours = re.compile(rf"\{{{re.escape(name)}:\d+\}}:|\{{{re.escape(name)}\}}:|{re.escape(name)}:".encode())
    pattern = "*" + _GLOB.sub(lambda found: f"\\{found[0]}", name) + "*"
    cursor, removed = b"0", 0
    while True:
        ask = ("SCAN", cursor, "MATCH", pattern, "COUNT", _AT_ONCE)
        ((cursor, found),) = await client.send(lambda ask=ask: [ask])  # type: ignore[misc]
        keys = [key for key in found if ours.match(key) and key != last]
        if keys:
            (gone,) = await client.send(lambda keys=keys: [("UNLINK", *keys)])  # type: ignore[misc]
            removed += gone
        if int(cursor) == 0:
            break
    (known,) = await client.send(lambda: [("UNLINK", last)])
    return removed + int(known)
