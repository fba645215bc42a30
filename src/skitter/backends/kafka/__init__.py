"""Kafka: forwarded links between shards, and documents for the search index.

It transports and decides nothing: the partition names the shard that owns a link, and the leases in
PostgreSQL decide who owns a shard. Everything a process sends goes through one `Sender`, which returns when
the brokers have it.
"""
