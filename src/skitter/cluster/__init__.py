"""Many machines, one crawl: who owns which shard, for how long, and when all is done.

`balance` decides who should have which shard, `lease` and `clock` keep time, `worker` acts. Nothing here knows an engine: claims, frontiers and
mail come from `compose`.
"""
