-- What all workers of a crawl keep together, replaced as a whole: when it began, and how many pages each shard may store.
CREATE TABLE ledger (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    words text NOT NULL DEFAULT ''
);

INSERT INTO ledger DEFAULT VALUES;
