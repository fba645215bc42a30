"""Redis: the frontier and the forwarding of a small cluster, its claims, and the cache that many workers share.

All keys of a shard carry one hash tag, `{name:shard}`, so that they lie on one node of a Redis Cluster and a script may
touch them together. Every script is a file in `lua`.
"""
