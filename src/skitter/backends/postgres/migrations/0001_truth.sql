-- The truth of a crawl: what is known of every URL, page and host, who owns which shard, and how far everything is.
-- Times are seconds since 1970 by the database's clock, in double precision: they are compared with what the owner of a
-- shard has in memory, and must come back as they went. to_timestamp(first_seen) reads well.

CREATE TYPE url_state AS ENUM ('pending', 'crawled', 'error', 'refused', 'foreign', 'crawling');

-- One row per shard: who may write, and what is replaced with every write.
CREATE TABLE shards (
    shard integer PRIMARY KEY,
    owner text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,             -- raised by every new owner; who writes under an old one changes nothing
    lease_until double precision NOT NULL DEFAULT 0,
    batch bigint NOT NULL DEFAULT 0,             -- the number of the last write under this epoch
    seq bigint NOT NULL DEFAULT 0,
    mark_file text NOT NULL DEFAULT '',          -- how far the archive is settled
    mark_end bigint NOT NULL DEFAULT 0,
    counts jsonb NOT NULL DEFAULT '{}',
    mail jsonb NOT NULL DEFAULT '{}'             -- by topic, the offset up to which links are stored
) WITH (fillfactor = 50);                        -- changed with every write: room for the next version on the same page

CREATE TABLE roots (                             -- of the scope: seeds, and where their redirects led
    number bigint GENERATED ALWAYS AS IDENTITY,
    url text PRIMARY KEY
);

CREATE TABLE workers (
    worker text PRIMARY KEY,
    started_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    about jsonb NOT NULL DEFAULT '{}'
);

-- Large tables have a partition per shard. Their keys begin with what tells rows apart inside one: a key that began with the
-- shard would tempt the planner to read all of it.
CREATE TABLE urls (
    shard integer NOT NULL,
    id bytea NOT NULL,                           -- a hash of the key
    url text NOT NULL,
    key text NOT NULL,
    host text NOT NULL,
    domain text NOT NULL,
    state url_state NOT NULL,
    level smallint NOT NULL,
    score double precision NOT NULL,
    seq bigint NOT NULL,                         -- its age
    depth integer NOT NULL,
    parent text NOT NULL,
    first_seen double precision NOT NULL,
    last_crawl double precision,
    next_crawl double precision,                 -- when it comes back to the queue; in it when pending without a time
    crawl_count integer NOT NULL,
    attempts integer NOT NULL,
    crashes integer NOT NULL,
    status smallint NOT NULL,
    reason text,
    detail text,
    parked boolean NOT NULL,
    more bytea,                                  -- redirect, seed, meta: MessagePack, where there is any
    PRIMARY KEY (id, shard)
) PARTITION BY LIST (shard);

CREATE INDEX urls_queue ON urls (host, level, (-score), seq) WHERE state = 'pending' AND next_crawl IS NULL;
CREATE INDEX urls_retry ON urls (next_crawl, id) WHERE state = 'pending' AND NOT parked AND next_crawl IS NOT NULL;
CREATE INDEX urls_recrawl ON urls (next_crawl, id) WHERE state = 'crawled' AND NOT parked AND next_crawl IS NOT NULL;
CREATE INDEX urls_parked ON urls (host) WHERE parked;
CREATE INDEX urls_domain ON urls (domain);

CREATE TABLE pages (
    shard integer NOT NULL,
    id bytea NOT NULL,
    url text NOT NULL,
    host text NOT NULL,
    domain text NOT NULL,
    status smallint NOT NULL,
    fetched_at double precision NOT NULL,
    content_type text NOT NULL,
    language text NOT NULL,
    size bigint NOT NULL,
    title text NOT NULL,
    digest text NOT NULL,
    simhash bigint,                              -- 64 bits, read as signed
    duplicate_of text NOT NULL,
    archive_file text,
    archive_offset bigint,
    archive_length bigint,
    links bytea NOT NULL,                        -- the ids of its links in a row, 16 bytes each
    by_digest boolean NOT NULL,                  -- stands for its digest: later pages are compared with it
    by_simhash boolean NOT NULL,
    more bytea NOT NULL,                         -- the rest of the record: MessagePack
    PRIMARY KEY (id, shard)
) PARTITION BY LIST (shard);

CREATE INDEX pages_digest ON pages (domain, digest) WHERE by_digest;
CREATE INDEX pages_simhash ON pages (domain, simhash) WHERE by_simhash;
CREATE INDEX pages_time ON pages (fetched_at);

CREATE TABLE hosts (
    shard integer NOT NULL,
    name text NOT NULL,
    domain text NOT NULL,
    free_at double precision NOT NULL,
    held double precision NOT NULL,
    delay double precision NOT NULL,
    queued integer NOT NULL,
    pages integer NOT NULL,
    requests integer NOT NULL,
    errors integer NOT NULL,
    bytes bigint NOT NULL,
    aside text,
    detail text,
    place bytea NOT NULL,                        -- where it stands in the agenda; empty when it has nothing to give
    queues bytea NOT NULL,                       -- its queues by level, and whose turn it is: MessagePack
    PRIMARY KEY (name, shard)
) PARTITION BY LIST (shard);

CREATE INDEX hosts_agenda ON hosts (place) WHERE place <> '';

CREATE TABLE robots (
    shard integer NOT NULL,
    origin text NOT NULL,
    status smallint NOT NULL,
    body bytea NOT NULL,
    access text NOT NULL,
    fetched_at double precision NOT NULL,
    expires double precision NOT NULL,
    held double precision NOT NULL,
    tries integer NOT NULL,
    problem text NOT NULL,
    PRIMARY KEY (origin, shard)
) PARTITION BY LIST (shard);

-- Small ones: what is open or suspected now, and links that wait for their shard where there is no mail.
CREATE TABLE leases (
    shard integer NOT NULL,
    id bytea NOT NULL,
    visit bytea NOT NULL,
    PRIMARY KEY (shard, id)
);

CREATE TABLE suspects (
    shard integer NOT NULL,
    id bytea NOT NULL,
    crashes integer NOT NULL,
    in_hand integer NOT NULL,
    PRIMARY KEY (shard, id)
);

CREATE TABLE outbox (
    shard integer NOT NULL,
    number bigint NOT NULL,
    link bytea NOT NULL,
    PRIMARY KEY (shard, number)
);

-- What has become of every segment of the archive, and on whose disk it is until the bucket has it.
CREATE TYPE segment_stage AS ENUM ('begun', 'sealed', 'finished', 'uploaded', 'abandoned');

CREATE TABLE segments (
    name text PRIMARY KEY,
    number bigint NOT NULL,                      -- the one in the name: orders the segments of a shard
    shard integer NOT NULL,
    disk text NOT NULL,                          -- stands for the worker's directory, whichever process has it
    stage segment_stage NOT NULL DEFAULT 'begun',
    size bigint NOT NULL DEFAULT -1,             -- -1: all of it counts
    digest text NOT NULL DEFAULT '',
    begun_at double precision NOT NULL,
    reopened boolean NOT NULL DEFAULT false      -- abandoned, and its pages are pending again
);

CREATE INDEX segments_open ON segments (disk, name) WHERE stage IN ('begun', 'sealed', 'finished');
CREATE INDEX segments_begun ON segments (shard, number) WHERE stage = 'begun';
CREATE INDEX segments_lost ON segments (shard, name) WHERE stage = 'abandoned' AND NOT reopened;
CREATE INDEX segments_stored ON segments (name) WHERE stage = 'uploaded';
