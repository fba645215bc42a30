-- One load is one statement with one row: what is wanted is composed from these, each with arrays of whole rows. Where
-- lists were asked for, an array beside says which question each row answers.

-- name: urls
SELECT array_agg(u) AS urls FROM {schema}.urls u WHERE u.shard = {shard} AND u.id = ANY(:urls::bytea[])

-- name: hosts
SELECT array_agg(h) AS hosts FROM {schema}.hosts h WHERE h.shard = {shard} AND h.name = ANY(:hosts::text[])

-- name: robots
SELECT array_agg(r) AS robots FROM {schema}.robots r WHERE r.shard = {shard} AND r.origin = ANY(:robots::text[])

-- name: pages
SELECT array_agg(p) AS pages FROM {schema}.pages p WHERE p.shard = {shard} AND p.id = ANY(:pages::bytea[])

-- name: learned
SELECT array_agg(l) AS learned FROM {schema}.learned l WHERE l.shard = {shard} AND l.name = ANY(:learned::text[])

-- name: heads
SELECT array_agg(u.row ORDER BY a.n, u.rank, u.seq) AS heads, array_agg(a.n ORDER BY a.n, u.rank, u.seq) AS heads_of
FROM unnest(
    :head_host::text[], :head_level::smallint[], :head_rank::float8[], :head_seq::bigint[], :head_limit::integer[]
) WITH ORDINALITY AS a (host, level, rank, seq, most, n),
LATERAL (
    SELECT u AS row, -u.score AS rank, u.seq FROM {schema}.urls u
    WHERE u.shard = {shard} AND u.state = 'pending' AND u.next_crawl IS NULL AND u.host = a.host AND u.level = a.level
        AND (-u.score, u.seq) > (a.rank, a.seq)
    ORDER BY -u.score, u.seq LIMIT a.most
) AS u

-- name: agenda
SELECT array_agg(h.row ORDER BY a.n, h.place) AS agenda, array_agg(a.n ORDER BY a.n, h.place) AS agenda_of
FROM unnest(:span_after::bytea[], :span_before::bytea[], :span_limit::integer[])
    WITH ORDINALITY AS a (after, before, most, n),
LATERAL (
    SELECT h AS row, h.place FROM {schema}.hosts h
    WHERE h.shard = {shard} AND h.place <> '' AND h.place > a.after AND h.place < a.before
    ORDER BY h.place LIMIT a.most
) AS h

-- name: retry
SELECT array_agg(u.row ORDER BY a.n, u.next_crawl, u.id) AS retry, array_agg(a.n ORDER BY a.n, u.next_crawl, u.id) AS retry_of
FROM unnest(:retry_n::integer[], :retry_due::float8[], :retry_id::bytea[], :retry_limit::integer[]) AS a (n, due, id, most),
LATERAL (
    SELECT u AS row, u.next_crawl, u.id FROM {schema}.urls u
    WHERE u.shard = {shard} AND u.state = 'pending' AND NOT u.parked AND u.next_crawl IS NOT NULL
        AND (u.next_crawl, u.id) > (a.due, a.id)
    ORDER BY u.next_crawl, u.id LIMIT a.most
) AS u

-- name: recrawl
SELECT array_agg(u.row ORDER BY a.n, u.next_crawl, u.id) AS recrawl, array_agg(a.n ORDER BY a.n, u.next_crawl, u.id) AS recrawl_of
FROM unnest(:recrawl_n::integer[], :recrawl_due::float8[], :recrawl_id::bytea[], :recrawl_limit::integer[])
    AS a (n, due, id, most),
LATERAL (
    SELECT u AS row, u.next_crawl, u.id FROM {schema}.urls u
    WHERE u.shard = {shard} AND u.state = 'crawled' AND NOT u.parked AND u.next_crawl IS NOT NULL
        AND (u.next_crawl, u.id) > (a.due, a.id)
    ORDER BY u.next_crawl, u.id LIMIT a.most
) AS u

-- name: parked
SELECT array_agg(u) AS parked FROM {schema}.urls u
WHERE u.shard = {shard} AND u.parked AND u.host = ANY(:parked::text[])

-- name: digests
SELECT array_agg(p.row) AS digests FROM unnest(:digest_domain::text[], :digest::text[]) AS a (domain, digest),
LATERAL (
    SELECT p AS row FROM {schema}.pages p
    WHERE p.shard = {shard} AND p.by_digest AND p.domain = a.domain AND p.digest = a.digest LIMIT 1
) AS p

-- name: simhashes
SELECT array_agg(p.row) AS simhashes FROM unnest(:simhash_domain::text[], :simhash::bigint[]) AS a (domain, simhash),
LATERAL (
    SELECT p AS row FROM {schema}.pages p
    WHERE p.shard = {shard} AND p.by_simhash AND p.domain = a.domain AND p.simhash = a.simhash LIMIT 1
) AS p

-- name: domains
SELECT array_agg(p.simhash) AS domains, array_agg(a.n) AS domains_of
FROM unnest(:near_domain::text[], :near_limit::integer[]) WITH ORDINALITY AS a (domain, most, n),
LATERAL (
    SELECT p.simhash FROM {schema}.pages p
    WHERE p.shard = {shard} AND p.by_simhash AND p.simhash IS NOT NULL AND p.domain = a.domain
    LIMIT a.most
) AS p
