-- The settings that all workers of a crawl share, as TOML. A worker that has read another version takes no shard.
CREATE TABLE settings (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    version bigint NOT NULL DEFAULT 0,
    words text NOT NULL DEFAULT ''
);

INSERT INTO settings DEFAULT VALUES;
