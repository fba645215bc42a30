-- Who owns which shard. Time is the database's, read inside the statement, so that no two workers disagree about it.

-- name: renew
WITH clock AS (SELECT extract(epoch FROM clock_timestamp())::float8 AS now),
beat AS (
    INSERT INTO {schema}.workers (worker, started_at, seen_at, about)
    -- Which server it is connected to, as long as the server sees by its name that it is: see `take`.
    SELECT :worker, now, now, :about::text::jsonb || CASE WHEN current_setting('application_name') = :worker
        THEN jsonb_build_object('server', extract(epoch FROM pg_postmaster_start_time())::text) ELSE '{}' END FROM clock
    ON CONFLICT (worker) DO UPDATE SET seen_at = excluded.seen_at, about = excluded.about
),
held AS (
    UPDATE {schema}.shards s SET lease_until = clock.now + :lease::float8
    FROM clock, unnest(:shards::integer[], :epochs::bigint[]) AS a (shard, epoch)
    WHERE s.shard = a.shard AND s.epoch = a.epoch AND s.owner = :worker
    RETURNING s.shard
)
SELECT clock.now, ARRAY(SELECT shard FROM held) AS held,
    ARRAY(SELECT w.worker FROM {schema}.workers w WHERE w.seen_at > clock.now - :lease::float8 AND w.worker <> :worker)
        || :worker::text AS living,
    -- A shard of ours that has run out is ours again from here on.
    ARRAY(SELECT CASE WHEN s.lease_until > clock.now OR s.shard IN (SELECT shard FROM held) THEN s.owner ELSE '' END
        FROM {schema}.shards s ORDER BY s.shard) AS owners,
    coalesce((SELECT max(number) FROM {schema}.roots), 0) AS roots,
    (SELECT version FROM {schema}.settings) AS settings,
    coalesce((SELECT max(number) FROM {schema}.commands), 0) AS commands
FROM clock

-- name: add_command
-- One at a time, for the same reason as roots: a number is seen only after all lower ones.
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended(:lock, 1)))
INSERT INTO {schema}.commands (words) SELECT c.words FROM alone, unnest(ARRAY[:words::text]) AS c (words) RETURNING number

-- name: commands
SELECT number, words FROM {schema}.commands WHERE number > :after ORDER BY number LIMIT :limit::integer

-- name: add_roots
-- One at a time, from the first number to the commit: else a worker that has seen a number might miss a lower one that is
-- committed later.
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended(:lock, 1)))
INSERT INTO {schema}.roots (url, digest) SELECT DISTINCT r.url, sha256(convert_to(r.url, 'UTF8'))
FROM alone, unnest(:roots::text[]) AS r (url) ON CONFLICT (digest) DO NOTHING

-- name: roots
SELECT number, url FROM {schema}.roots WHERE number > :after ORDER BY number LIMIT :limit::integer

-- name: intake
SELECT coalesce((SELECT line FROM {schema}.intakes WHERE digest = :digest), 0) AS line

-- name: took_in
INSERT INTO {schema}.intakes (digest, line) VALUES (:digest, :line::bigint)
ON CONFLICT (digest) DO UPDATE SET line = greatest(intakes.line, excluded.line)

-- name: took_all
DELETE FROM {schema}.intakes WHERE digest = :digest

-- name: add_end
INSERT INTO {schema}.ends (shard, epoch, file, size, directory)
VALUES (:shard::integer, :epoch::bigint, :file, :size::bigint, :directory)
ON CONFLICT (shard, epoch) DO UPDATE SET file = excluded.file, size = excluded.size, directory = excluded.directory

-- name: ends
SELECT shard, epoch, file, size, directory FROM {schema}.ends ORDER BY shard, epoch

-- name: take
WITH clock AS (SELECT extract(epoch FROM clock_timestamp())::float8 AS now),
open AS (
    SELECT s.shard, s.owner, s.lease_until FROM {schema}.shards s, clock
    WHERE s.lease_until <= clock.now AND s.shard = ANY(:shards::integer[])
        AND (:settings::bigint IS NULL OR :settings::bigint = (SELECT version FROM {schema}.settings))
    ORDER BY s.shard LIMIT :most::integer FOR UPDATE OF s SKIP LOCKED
)
UPDATE {schema}.shards s SET owner = :worker, epoch = s.epoch + 1, batch = 0, lease_until = clock.now + :lease::float8
FROM open, clock WHERE s.shard = open.shard
RETURNING s.shard, s.epoch, open.owner AS last_owner, open.lease_until AS lapsed, clock.now,
    -- Known not to be, if this very server heard its last sign of life and has no connection of it any more, unless it
    -- closes those that are idle.
    coalesce(current_setting('idle_session_timeout', true), '0') <> '0' OR NOT EXISTS (SELECT 1 FROM {schema}.workers w WHERE w.worker = open.owner
        AND w.about ->> 'server' = extract(epoch FROM pg_postmaster_start_time())::text)
    OR EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.application_name = open.owner) AS connected

-- name: release
UPDATE {schema}.shards s SET owner = '', lease_until = 0
FROM unnest(:shards::integer[], :epochs::bigint[]) AS a (shard, epoch)
WHERE s.shard = a.shard AND s.epoch = a.epoch AND s.owner = :worker
RETURNING s.shard

-- name: leave
DELETE FROM {schema}.workers WHERE worker = :worker

-- name: settings
SELECT version, words FROM {schema}.settings

-- name: settle_on
UPDATE {schema}.settings SET words = :words, version = version + 1 WHERE version = :seen::bigint RETURNING version

-- name: swap
-- Who waited for another's swap finds the row changed and does nothing; it is told of that one with its next try.
WITH swapped AS (UPDATE {schema}.ledger SET words = :new WHERE words = :seen RETURNING words)
SELECT coalesce((SELECT words FROM swapped), (SELECT words FROM {schema}.ledger)) AS words

-- name: begin_again
-- Only where no lease runs. The epoch is raised, so that an owner who comes back cannot write down its old position.
WITH clock AS (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)
UPDATE {schema}.shards s SET mail = s.mail - :topics::text[], epoch = s.epoch + 1
FROM clock WHERE s.lease_until <= clock.now AND s.mail ?| :topics::text[]

-- name: standing
SELECT s.shard, s.owner, s.epoch, s.lease_until, s.counts::text AS counts, s.mail::text AS mail,
    extract(epoch FROM clock_timestamp())::float8 AS now
FROM {schema}.shards s ORDER BY s.shard

-- name: workers
SELECT worker, started_at, seen_at, about::text AS about, extract(epoch FROM clock_timestamp())::float8 AS now
FROM {schema}.workers ORDER BY worker
