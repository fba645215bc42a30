"""PostgreSQL: the truth of a cluster. Shards and their owners, every URL, page and host, in one schema per crawl."""
