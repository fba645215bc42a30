CREATE TABLE crawl_jobs (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL,
    next_due REAL,
    home TEXT NOT NULL,
    version INTEGER NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_due ON crawl_jobs (next_due) WHERE next_due IS NOT NULL;

CREATE TABLE crawl_runs (
    id TEXT PRIMARY KEY,
    job TEXT NOT NULL REFERENCES crawl_jobs (name) ON DELETE CASCADE,
    due REAL NOT NULL,
    state TEXT NOT NULL,
    not_before REAL NOT NULL,
    owner TEXT NOT NULL,
    home TEXT NOT NULL,
    lease_until REAL NOT NULL,
    tries INTEGER NOT NULL,
    stop_asked INTEGER NOT NULL,
    started_at REAL,
    tell_at REAL,
    tell_tries INTEGER NOT NULL,
    record TEXT NOT NULL,
    UNIQUE (job, due)
) STRICT;
CREATE INDEX runs_due ON crawl_runs (due);
CREATE INDEX runs_unfinished ON crawl_runs (job, due) WHERE state IN ('waiting', 'running');
CREATE INDEX runs_to_tell ON crawl_runs (tell_at) WHERE tell_at IS NOT NULL;
