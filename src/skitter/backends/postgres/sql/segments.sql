-- The register of segments. Every statement may be repeated; a stage only ever moves forward.

-- name: begun
INSERT INTO {schema}.segments (name, number, shard, disk, begun_at)
VALUES (:name, :number::bigint, :shard::integer, :disk, extract(epoch FROM clock_timestamp())::float8)
ON CONFLICT (name) DO UPDATE SET disk = excluded.disk
    WHERE segments.shard = excluded.shard AND segments.disk = excluded.disk AND segments.stage = 'begun'
RETURNING name

-- name: sealed
UPDATE {schema}.segments
SET stage = 'sealed',
    size = CASE WHEN name = :mark_file THEN :mark_end::bigint
        WHEN number >= :mark_first::bigint AND number < :mark_number::bigint THEN -1 ELSE 0 END
WHERE shard = :shard::integer AND stage = 'begun' AND number < :below::bigint

-- name: finished
WITH told AS (
    UPDATE {schema}.segments SET stage = 'finished', size = :size::bigint, digest = :digest
    WHERE name = :name AND stage IN ('begun', 'sealed', 'finished')
    RETURNING name
)
SELECT EXISTS (SELECT 1 FROM told) OR stage = 'uploaded' AS counts FROM {schema}.segments WHERE name = :name

-- name: uploaded
WITH told AS (
    UPDATE {schema}.segments SET stage = 'uploaded'
    WHERE name = :name AND stage IN ('begun', 'sealed', 'finished')
    RETURNING name
)
SELECT EXISTS (SELECT 1 FROM told) OR stage = 'uploaded' AS counts FROM {schema}.segments WHERE name = :name

-- name: abandoned
WITH lost AS (
    -- Nothing was settled in a segment that is sealed at nothing, so nothing has to be pending again.
    UPDATE {schema}.segments SET stage = 'abandoned', reopened = reopened OR (stage = 'sealed' AND size = 0)
    WHERE name = ANY(:names::text[]) AND stage <> 'uploaded'
    RETURNING name
)
SELECT name FROM lost ORDER BY name

-- name: look_up
SELECT name, shard, disk, stage::text AS stage, size, digest, reopened FROM {schema}.segments
WHERE name = ANY(:names::text[]) ORDER BY name

-- name: pending
SELECT name, shard, disk, stage::text AS stage, size, digest, reopened FROM {schema}.segments
WHERE disk = :disk AND stage IN ('begun', 'sealed', 'finished') ORDER BY name

-- name: lost
SELECT name, shard, disk, stage::text AS stage, size, digest, reopened FROM {schema}.segments
WHERE stage = 'abandoned' AND NOT reopened ORDER BY shard, name

-- name: reopened
UPDATE {schema}.segments SET reopened = true WHERE name = ANY(:names::text[]) AND stage = 'abandoned'

-- name: stored
SELECT name FROM {schema}.segments WHERE stage = 'uploaded' AND name > :after ORDER BY name LIMIT :limit::integer

-- name: disks
-- Who had a disk last is what its worker said of itself, until it leaves.
SELECT s.disk, count(*) AS segments, min(s.begun_at) AS oldest, extract(epoch FROM clock_timestamp())::float8 AS now,
    coalesce((SELECT w.worker FROM {schema}.workers w WHERE w.about ->> 'disk' = s.disk
        ORDER BY w.seen_at DESC LIMIT 1), '') AS worker
FROM {schema}.segments s WHERE s.stage IN ('begun', 'sealed', 'finished')
GROUP BY s.disk ORDER BY s.disk

-- name: give_up
-- One step, so that nobody comes back in between. A worker with this disk that has fallen silent might wake up and find
-- its shards still its own: their epochs are raised, and when its lease ended stays known to whoever takes them next.
WITH clock AS (SELECT extract(epoch FROM clock_timestamp())::float8 AS now),
had AS (SELECT w.worker, w.seen_at FROM {schema}.workers w WHERE w.about ->> 'disk' = :disk),
owned AS (
    SELECT s.shard, s.lease_until FROM {schema}.shards s WHERE s.owner IN (SELECT worker FROM had) FOR UPDATE
),
alive AS (
    SELECT 1 FROM had, clock WHERE had.seen_at > clock.now - :lease::float8
    UNION ALL
    SELECT 1 FROM owned, clock WHERE owned.lease_until > clock.now
),
fenced AS (
    UPDATE {schema}.shards s SET epoch = s.epoch + 1
    FROM owned WHERE s.shard = owned.shard AND NOT EXISTS (SELECT 1 FROM alive)
),
forgotten AS (
    DELETE FROM {schema}.workers WHERE worker IN (SELECT worker FROM had) AND NOT EXISTS (SELECT 1 FROM alive)
),
lost AS (
    UPDATE {schema}.segments SET stage = 'abandoned', reopened = reopened OR (stage = 'sealed' AND size = 0)
    WHERE disk = :disk AND stage IN ('begun', 'sealed', 'finished') AND NOT EXISTS (SELECT 1 FROM alive)
    RETURNING name
)
SELECT EXISTS (SELECT 1 FROM alive) AS alive, ARRAY(SELECT name FROM lost ORDER BY name) AS lost
