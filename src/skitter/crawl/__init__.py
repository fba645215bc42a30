"""A crawl at work: one shard's loop, the shards of a process, links on their way between them, and its directory."""
