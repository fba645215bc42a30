"""Many machines, one crawl: who owns which shard, for how long, and when all is done.

`shares` and `looks` decide, `tenure` and `clock` keep time, `member` acts. Nothing here knows an engine: claims, frontiers and
mail come from `compose`.
"""
