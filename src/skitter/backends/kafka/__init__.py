"""Kafka: links on their way between shards, pages on their way to the index.

It carries and never decides: which shard owns a link is written in the partition, who owns a shard is decided by the leases
in PostgreSQL. Everything a process sends goes through one `Sender`, which returns when the brokers have it.
"""
