-- Jobs outlive crawls: they have a schema of their own, which `skitter cluster remove` leaves alone.
CREATE TABLE crawl_jobs (
    name text PRIMARY KEY,
    paused boolean NOT NULL,
    next_due float8,
    home text NOT NULL,
    version integer NOT NULL,
    record jsonb NOT NULL
);
CREATE INDEX jobs_due ON crawl_jobs (next_due) WHERE next_due IS NOT NULL;

CREATE TABLE crawl_runs (
    id text PRIMARY KEY,
    job text NOT NULL REFERENCES crawl_jobs (name) ON DELETE CASCADE,
    due float8 NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'stopped', 'skipped', 'missed')),
    not_before float8 NOT NULL,
    owner text NOT NULL,
    home text NOT NULL,
    lease_until float8 NOT NULL,
    tries integer NOT NULL,
    stop_asked boolean NOT NULL,
    started_at float8,
    tell_at float8,
    tell_tries integer NOT NULL,
    record jsonb NOT NULL,
    UNIQUE (job, due)
);
CREATE INDEX runs_due ON crawl_runs (due, id);
CREATE INDEX runs_unfinished ON crawl_runs (job, due) WHERE state IN ('waiting', 'running');
CREATE UNIQUE INDEX runs_running ON crawl_runs (job) WHERE state = 'running';
-- Of two that ask for a run by hand at once, neither sees the other's yet.
CREATE UNIQUE INDEX runs_by_hand ON crawl_runs (job)
    WHERE state IN ('waiting', 'running') AND (record ->> 'by_hand')::boolean;
CREATE INDEX runs_to_tell ON crawl_runs (tell_at) WHERE tell_at IS NOT NULL;
