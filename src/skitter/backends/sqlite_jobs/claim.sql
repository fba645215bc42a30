-- Of one job only the first that is not over can be chosen: runs begin in order, one at a time.
UPDATE crawl_runs SET state = 'running', owner = :owner, home = :home, lease_until = :now + :lease, tries = tries + 1,
    started_at = coalesce(started_at, :now)
WHERE id = (
    SELECT r.id FROM crawl_runs r JOIN crawl_jobs j ON j.name = r.job
    WHERE :only IN ('', r.id) AND r.state IN ('waiting', 'running')
        AND ((r.state = 'waiting' AND r.not_before <= :now)
            OR (r.state = 'running' AND r.lease_until <= :now))
        AND r.home IN ('', :home) AND j.home IN ('', :home)
        AND NOT EXISTS (SELECT 1 FROM crawl_runs o
            WHERE o.job = r.job AND o.due < r.due AND o.state IN ('waiting', 'running'))
    ORDER BY r.due, r.id LIMIT 1
)
RETURNING *
