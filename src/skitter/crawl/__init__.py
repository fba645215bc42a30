"""A crawl at work.

shard                     one shard: lease, visit, commit
completing                finished visits are settled in batches; their last stages: parse, judge links, compare, pack
local_shards, forwarding  the shards of one process, and links on their way between them
limits, done              is a limit reached, is all done: for one process, a fleet and a cluster; pure
local_crawl               a crawl directory at work in this process
directory, records        the small files of a crawl, and the records of all its shards
check                     is what a crawl has written still there?
"""
