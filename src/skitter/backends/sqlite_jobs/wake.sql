SELECT min(at) AS at FROM (
    SELECT min(next_due) AS at FROM crawl_jobs WHERE next_due IS NOT NULL
    UNION ALL
    SELECT min(CASE state WHEN 'waiting' THEN not_before ELSE lease_until END) FROM crawl_runs
    WHERE state IN ('waiting', 'running')
    UNION ALL
    SELECT min(tell_at) FROM crawl_runs WHERE tell_at IS NOT NULL
)
