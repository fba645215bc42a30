-- Jobs and their runs. Time is the database's, read inside the statement, so that no two schedulers disagree about it.

-- name: now
SELECT extract(epoch FROM clock_timestamp())::float8 AS now

-- name: jobs
SELECT * FROM {schema}.crawl_jobs ORDER BY name

-- name: due_jobs
SELECT * FROM {schema}.crawl_jobs WHERE next_due <= :by::float8 ORDER BY next_due, name

-- name: job
SELECT * FROM {schema}.crawl_jobs WHERE name = :name

-- name: add_job
INSERT INTO {schema}.crawl_jobs (name, paused, next_due, home, version, record)
VALUES (:name, :paused, :next_due, :home, :version, :record::text::jsonb)
ON CONFLICT DO NOTHING RETURNING name

-- name: change_job
UPDATE {schema}.crawl_jobs
SET paused = :paused, next_due = :next_due, home = :home, version = :version, record = :record::text::jsonb
WHERE name = :name AND version = :version - 1 RETURNING name

-- name: remove_job
DELETE FROM {schema}.crawl_jobs WHERE name = :name AND NOT EXISTS (
    SELECT FROM {schema}.crawl_runs WHERE job = :name AND state = 'running'
        AND lease_until > extract(epoch FROM clock_timestamp())
) RETURNING name

-- name: plan
WITH moved AS (
    UPDATE {schema}.crawl_jobs SET next_due = :coming::float8
    WHERE name = :name AND version = :version AND next_due = :was::float8 RETURNING name
),
added AS (
    INSERT INTO {schema}.crawl_runs
    SELECT r.* FROM moved, jsonb_populate_recordset(NULL::{schema}.crawl_runs, :rows::text::jsonb) AS r
    ON CONFLICT DO NOTHING
)
SELECT name FROM moved

-- name: ask
INSERT INTO {schema}.crawl_runs
SELECT r.* FROM jsonb_populate_recordset(NULL::{schema}.crawl_runs, :rows::text::jsonb) AS r
WHERE NOT EXISTS (SELECT FROM {schema}.crawl_runs u WHERE u.job = :job AND u.state IN ('waiting', 'running'))
ON CONFLICT DO NOTHING RETURNING id

-- name: claim
-- Of one job only the first that is not over can be chosen: runs begin in order, one at a time.
WITH clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)
UPDATE {schema}.crawl_runs c
SET state = 'running', owner = :owner, home = :home, lease_until = clock.now + :lease::float8, tries = c.tries + 1,
    started_at = coalesce(c.started_at, clock.now)
FROM clock
WHERE c.id = (
    SELECT r.id FROM {schema}.crawl_runs r JOIN {schema}.crawl_jobs j ON j.name = r.job, clock
    WHERE :only IN ('', r.id) AND r.state IN ('waiting', 'running')
        AND ((r.state = 'waiting' AND r.not_before <= clock.now)
            OR (r.state = 'running' AND r.lease_until <= clock.now))
        AND r.home IN ('', :home) AND j.home IN ('', :home)
        AND NOT EXISTS (SELECT FROM {schema}.crawl_runs o
            WHERE o.job = r.job AND o.due < r.due AND o.state IN ('waiting', 'running'))
    ORDER BY r.due, r.id LIMIT 1 FOR UPDATE OF r SKIP LOCKED
)
RETURNING c.*

-- name: beat
UPDATE {schema}.crawl_runs SET lease_until = extract(epoch FROM clock_timestamp()) + :lease::float8
WHERE id = :id AND owner = :owner AND state = 'running' RETURNING stop_asked

-- name: settle
UPDATE {schema}.crawl_runs
SET state = :state, not_before = :not_before, owner = :owner, home = :home, lease_until = :lease_until, tries = :tries,
    stop_asked = :stop_asked, started_at = :started_at, tell_at = :tell_at, tell_tries = :tell_tries, record = :record::text::jsonb
WHERE id = :id AND owner = :holder AND state = 'running' RETURNING id

-- name: note
UPDATE {schema}.crawl_runs
SET state = :state, owner = :owner, lease_until = :lease_until, stop_asked = :stop_asked, tell_at = :tell_at,
    tell_tries = :tell_tries, record = :record::text::jsonb
WHERE id = :id

-- name: stop
WITH clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)
UPDATE {schema}.crawl_runs r SET
    stop_asked = true,
    lease_until = CASE WHEN r.state = 'running' AND r.lease_until > clock.now THEN r.lease_until ELSE 0 END,
    state = CASE WHEN r.state = 'running' AND r.lease_until > clock.now THEN r.state ELSE 'stopped' END
FROM clock
WHERE r.id = :id AND r.state IN ('waiting', 'running')
RETURNING r.state

-- name: runs
SELECT * FROM {schema}.crawl_runs
WHERE due < :before::float8 AND state = ANY (:states::text[])
ORDER BY due DESC, id DESC LIMIT :limit::integer

-- name: runs_of
SELECT * FROM {schema}.crawl_runs
WHERE job = :job AND due < :before::float8 AND state = ANY (:states::text[])
ORDER BY due DESC, id DESC LIMIT :limit::integer

-- name: run
SELECT * FROM {schema}.crawl_runs WHERE id = :id

-- name: to_tell
WITH clock AS MATERIALIZED (SELECT extract(epoch FROM clock_timestamp())::float8 AS now)
UPDATE {schema}.crawl_runs r SET tell_at = clock.now + :lease::float8 FROM clock
WHERE r.tell_at <= clock.now RETURNING r.*

-- name: wake
SELECT min(at) AS at FROM (
    SELECT min(next_due) AS at FROM {schema}.crawl_jobs WHERE next_due IS NOT NULL
    UNION ALL
    SELECT min(CASE r.state WHEN 'waiting' THEN r.not_before ELSE r.lease_until END)
    FROM {schema}.crawl_runs r JOIN {schema}.crawl_jobs j ON j.name = r.job
    WHERE r.state IN ('waiting', 'running') AND r.home IN ('', :home) AND j.home IN ('', :home)
        AND NOT EXISTS (SELECT FROM {schema}.crawl_runs o
            WHERE o.job = r.job AND o.due < r.due AND o.state IN ('waiting', 'running'))
    UNION ALL
    SELECT min(tell_at) FROM {schema}.crawl_runs WHERE tell_at IS NOT NULL
) AS all_times
