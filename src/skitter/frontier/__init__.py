"""The frontier: every URL a crawl knows, the order in which they are visited, and when each host may be asked again.

The life of a URL:

1. **It is found** (`adding`). A link is offered; whether its URL was offered before, `seen` says. A new one gets a row and
   waits in the queue of its host, by level, score and age (`levels`). One that is not wanted gets a row with the reason, and
   may be wanted by the next one who offers it. A link of another shard's host is forwarded.
2. **It is leased** (`leasing`). The agenda knows which host is free, and when the others will be (`agenda`). The first link
   of the host's next queue becomes a visit, after the robots.txt of its origin (`robots_first`). The lease is written before a
   byte is sent. The row stays where it is: that it is out, its lease says.
3. **It is settled** (`settling`). Page, links, the host's clock, a copy of the rules, counts and the mark of the archive become
   durable in one write. The URL is over, or waits for a retry behind all untried URLs of its host, or for its next visit.
4. **Or its process dies** (`recovery`). Whoever opens the shard next finds the lease: the host is left alone for its delay,
   and the URL waits again. A visit that keeps killing the process is made alone, then given up (`crashes`).
5. **Or its host is set aside** (`aside`): all that waits there is refused, until somebody names the host again.
6. **Or the settings change** (`judging`): what waits is judged again, and so is what earlier settings refused.

All of this is decided here, once, in code that does no I/O of its own. It works on rows (`rows`) that a store keeps, and a
store decides nothing (`store`). `shard` is what is in memory, read through when it is needed (`memory`); `verbs` and `owner` hold
the verbs of the port together: one at a time, each with one write at its end. Stores behind a network are asked for many
rows in one round trip (`prefetch`), and visits are taken out before their time (`ahead`). `reading` is the read side.
"""

from skitter.frontier.owner import ShardFrontier
from skitter.frontier.reading import ShardReader

__all__ = ["ShardFrontier", "ShardReader"]
