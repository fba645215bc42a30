SELECT min(at) AS at FROM (
    SELECT min(next_due) AS at FROM crawl_jobs WHERE next_due IS NOT NULL
    UNION ALL
    SELECT min(CASE r.state WHEN 'waiting' THEN r.not_before ELSE r.lease_until END)
    FROM crawl_runs r JOIN crawl_jobs j ON j.name = r.job
    WHERE r.state IN ('waiting', 'running') AND r.home IN ('', :home) AND j.home IN ('', :home)
        AND NOT EXISTS (SELECT 1 FROM crawl_runs o
            WHERE o.job = r.job AND o.due < r.due AND o.state IN ('waiting', 'running'))
    UNION ALL
    SELECT min(tell_at) FROM crawl_runs WHERE tell_at IS NOT NULL
)
