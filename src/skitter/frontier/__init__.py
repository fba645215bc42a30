"""The frontier: every URL a crawl knows, in which order they are visited, and when each host may be visited again.

The life of a URL:

1. **It is found** (`adding`). A link is offered; `seen` knows whether its URL was offered before. A new URL gets a
   row and waits in a queue of its host, ordered by level, score and age (`levels`). An unwanted one gets a row with
   the reason; a later link may still make it wanted. A link to another shard's host is forwarded.
2. **It is leased** (`leasing`). The agenda knows which hosts are free, and when the others will be (`agenda`). The
   first link of the host's next queue becomes a visit, after the robots.txt of its origin (`robots_first`). The lease
   is written before a byte is sent. The row stays in its queue: only the lease says that it is in flight.
3. **It is settled** (`settling`). Page, links, host clock, robots rules, counts and archive mark become durable in
   one write. The URL is done, waits for a retry behind all untried URLs of its host, or waits for its next visit.
4. **Or its process dies** (`recovery`). The next owner of the shard finds the lease: the host rests for its delay,
   and the URL waits again. A visit that keeps killing the process runs alone, then is given up (`crashes`).
5. **Or its host is set aside** (`aside`): everything waiting there is refused until a seed names the host again.
6. **Or the settings change** (`judging`): waiting URLs are judged again, and so are those that earlier settings
   refused. Where they limit depths, a shorter way to a URL is one to all behind it (`depths`).
7. **Or a person commands it** (`commands`, `obeying`): hosts are blocked and unblocked, failed URLs wait again.

All of this is decided here, once, in code that does no I/O of its own. It works on rows (`rows`) kept by a store,
which decides nothing (`store`). `shard` is the state in memory, read from the store when needed (`memory`). `verbs`
and `owner` implement the verbs of the port: one at a time, each with one write at its end. Stores behind a network
are asked for many rows in one round trip (`prefetch`), and visits are leased ahead of time (`ahead`). `reading` is
the read side.
"""

from skitter.frontier.owner import ShardFrontier
from skitter.frontier.reading import ShardReader

__all__ = ["ShardFrontier", "ShardReader"]
