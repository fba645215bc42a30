-- What is read on its own: at the opening of a shard, by whoever looks on, and page by page.

-- name: opening
SELECT s.seq, s.mark_file, s.mark_end, s.counts::text AS counts, s.mail::text AS mail, s.clock, s.judged_by,
    ARRAY(SELECT id FROM {schema}.leases l WHERE l.shard = {shard} ORDER BY id) AS lease_ids,
    ARRAY(SELECT visit FROM {schema}.leases l WHERE l.shard = {shard} ORDER BY id) AS visits,
    ARRAY(SELECT id FROM {schema}.suspects x WHERE x.shard = {shard} ORDER BY id) AS suspect_ids,
    ARRAY(SELECT crashes FROM {schema}.suspects x WHERE x.shard = {shard} ORDER BY id) AS crashes,
    ARRAY(SELECT in_hand FROM {schema}.suspects x WHERE x.shard = {shard} ORDER BY id) AS in_hand
FROM {schema}.shards s WHERE s.shard = {shard}

-- name: meta
SELECT seq, mark_file, mark_end, counts::text AS counts, mail::text AS mail, clock, judged_by
FROM {schema}.shards WHERE shard = {shard}

-- name: all_urls
SELECT * FROM {schema}.urls WHERE shard = {shard} AND id > :after::bytea ORDER BY id LIMIT :limit::integer

-- name: all_ids
SELECT id FROM {schema}.urls WHERE shard = {shard} AND id > :after::bytea ORDER BY id LIMIT :limit::integer

-- name: all_pages
SELECT * FROM {schema}.pages WHERE shard = {shard} AND id > :after::bytea ORDER BY id LIMIT :limit::integer

-- name: all_hosts
SELECT * FROM {schema}.hosts WHERE shard = {shard} AND name > :after::text ORDER BY name LIMIT :limit::integer

-- name: all_learned
SELECT * FROM {schema}.learned WHERE shard = {shard} AND name > :after::text ORDER BY name LIMIT :limit::integer

-- name: versions
SELECT ARRAY(SELECT number FROM {schema}.migrations) AS known, (SELECT count(*) FROM {schema}.shards) AS shards
