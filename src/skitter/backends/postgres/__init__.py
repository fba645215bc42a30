"""PostgreSQL: the truth of a full cluster. Shards and owners, every URL, page and host, in one schema per crawl."""
