-- A URL that is out for a visit stays pending: its lease says that it is out. So a visit changes its row once, not twice.
UPDATE urls SET state = 'pending' WHERE state = 'crawling';
-- By the owner's clock, when the shard was last written; and a digest of the settings by which its URLs were judged.
ALTER TABLE shards ADD COLUMN clock double precision NOT NULL DEFAULT 0, ADD COLUMN judged_by text NOT NULL DEFAULT '';
-- Links of other shards always go by Kafka.
DROP TABLE outbox;
-- No statement uses these.
DROP INDEX urls_domain, pages_time;
-- Every page updates its row and its host's: with the usual fifth of a large partition, dead rows would pile up.
DO $$
DECLARE partition regclass;
BEGIN
    FOR partition IN
        SELECT inhrelid::regclass FROM pg_inherits
        WHERE inhparent IN ('urls'::regclass, 'pages'::regclass, 'hosts'::regclass, 'robots'::regclass)
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.05)', partition);
    END LOOP;
END $$;
