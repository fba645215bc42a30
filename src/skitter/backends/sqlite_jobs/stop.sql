UPDATE crawl_runs SET
    stop_asked = 1,
    lease_until = CASE WHEN state = 'running' AND lease_until > :now THEN lease_until ELSE 0 END,
    state = CASE WHEN state = 'running' AND lease_until > :now THEN state ELSE 'stopped' END
WHERE id = :id AND state IN ('waiting', 'running')
RETURNING state
