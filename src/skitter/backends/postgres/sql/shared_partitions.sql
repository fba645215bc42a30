-- Where several shards share a partition, what is read of one shard in an order begins with the shard. Each of these indexes
-- holds for the rows of one question only, so the planner is not tempted to use it for another.
DROP INDEX urls_retry, urls_recrawl, hosts_agenda;
CREATE INDEX urls_retry ON urls (shard, next_crawl, id) WHERE state = 'pending' AND NOT parked AND next_crawl IS NOT NULL;
CREATE INDEX urls_recrawl ON urls (shard, next_crawl, id) WHERE state = 'crawled' AND NOT parked AND next_crawl IS NOT NULL;
CREATE INDEX hosts_agenda ON hosts (shard, place) WHERE place <> '';
