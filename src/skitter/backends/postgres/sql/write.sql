-- One write is one statement: the owner's row is changed if the epoch is still ours, and everything else happens only
-- where it was. A claim by somebody else waits for the row, or has it first, and then nothing of this happens.

-- A try that was given up may arrive behind a later batch of the same owner: it finds a higher number, and changes nothing.

-- name: owner
step AS (
    UPDATE {schema}.shards SET
        batch = greatest(batch, :batch::bigint),
        seq = CASE WHEN :batch = 0 OR batch <= :batch THEN :seq ELSE seq END,
        mark_file = CASE WHEN :batch = 0 OR batch <= :batch THEN :mark_file ELSE mark_file END,
        mark_end = CASE WHEN :batch = 0 OR batch <= :batch THEN :mark_end ELSE mark_end END,
        counts = CASE WHEN :batch = 0 OR batch <= :batch THEN :counts::text::jsonb ELSE counts END,
        mail = CASE WHEN :batch = 0 OR batch <= :batch THEN :mail::text::jsonb ELSE mail END
    WHERE shard = {shard} AND epoch = :epoch
    RETURNING shard, :batch = 0 OR batch = :batch AS timely
),
owner AS (SELECT shard FROM step WHERE timely)

-- name: urls
put_urls AS (
    INSERT INTO {schema}.urls
    SELECT {shard}, n.id, n.url, n.key, n.host, n.domain, n.state::{schema}.url_state, n.level, n.score, n.seq, n.depth,
        n.parent, n.first_seen, n.last_crawl, n.next_crawl, n.crawl_count, n.attempts, n.crashes, n.status, n.reason,
        n.detail, n.parked, n.more
    FROM owner, unnest(
        :id::bytea[], :url::text[], :key::text[], :host::text[], :domain::text[], :state::text[], :level::smallint[],
        :score::float8[], :seqs::bigint[], :depth::integer[], :parent::text[], :first_seen::float8[],
        :last_crawl::float8[], :next_crawl::float8[], :crawl_count::integer[], :attempts::integer[],
        :crashes::integer[], :status::smallint[], :reason::text[], :detail::text[], :parked::boolean[], :more::bytea[]
    ) AS n (id, url, key, host, domain, state, level, score, seq, depth, parent, first_seen, last_crawl, next_crawl,
        crawl_count, attempts, crashes, status, reason, detail, parked, more)
    ON CONFLICT (id, shard) DO UPDATE SET
        url = excluded.url, key = excluded.key, host = excluded.host, domain = excluded.domain, state = excluded.state,
        level = excluded.level, score = excluded.score, seq = excluded.seq, depth = excluded.depth,
        parent = excluded.parent, first_seen = excluded.first_seen, last_crawl = excluded.last_crawl,
        next_crawl = excluded.next_crawl, crawl_count = excluded.crawl_count, attempts = excluded.attempts,
        crashes = excluded.crashes, status = excluded.status, reason = excluded.reason, detail = excluded.detail,
        parked = excluded.parked, more = excluded.more
)

-- name: urls_gone
cut_urls AS (
    DELETE FROM {schema}.urls USING owner WHERE urls.shard = {shard} AND id = ANY(:gone_urls::bytea[])
)

-- name: hosts
put_hosts AS (
    INSERT INTO {schema}.hosts
    SELECT {shard}, n.* FROM owner, unnest(
        :host_name::text[], :host_domain::text[], :free_at::float8[], :held::float8[], :delay::float8[],
        :queued::integer[], :host_pages::integer[], :requests::integer[], :errors::integer[], :bytes::bigint[],
        :aside::text[], :aside_detail::text[], :place::bytea[], :queues::bytea[]
    ) AS n (name, domain, free_at, held, delay, queued, pages, requests, errors, bytes, aside, detail, place, queues)
    ON CONFLICT (name, shard) DO UPDATE SET
        domain = excluded.domain, free_at = excluded.free_at, held = excluded.held, delay = excluded.delay,
        queued = excluded.queued, pages = excluded.pages, requests = excluded.requests, errors = excluded.errors,
        bytes = excluded.bytes, aside = excluded.aside, detail = excluded.detail, place = excluded.place,
        queues = excluded.queues
)

-- name: pages
put_pages AS (
    INSERT INTO {schema}.pages
    SELECT {shard}, n.* FROM owner, unnest(
        :page_id::bytea[], :page_url::text[], :page_host::text[], :page_domain::text[], :page_status::smallint[],
        :fetched_at::float8[], :content_type::text[], :language::text[], :size::bigint[], :title::text[],
        :digest::text[], :simhash::bigint[], :duplicate_of::text[], :archive_file::text[], :archive_offset::bigint[],
        :archive_length::bigint[], :links::bytea[], :by_digest::boolean[], :by_simhash::boolean[], :page_more::bytea[]
    ) AS n (id, url, host, domain, status, fetched_at, content_type, language, size, title, digest, simhash, duplicate_of,
        archive_file, archive_offset, archive_length, links, by_digest, by_simhash, more)
    ON CONFLICT (id, shard) DO UPDATE SET
        url = excluded.url, host = excluded.host, domain = excluded.domain, status = excluded.status,
        fetched_at = excluded.fetched_at, content_type = excluded.content_type, language = excluded.language,
        size = excluded.size, title = excluded.title, digest = excluded.digest, simhash = excluded.simhash,
        duplicate_of = excluded.duplicate_of, archive_file = excluded.archive_file,
        archive_offset = excluded.archive_offset, archive_length = excluded.archive_length, links = excluded.links,
        by_digest = excluded.by_digest, by_simhash = excluded.by_simhash, more = excluded.more
)

-- name: pages_gone
cut_pages AS (
    DELETE FROM {schema}.pages USING owner WHERE pages.shard = {shard} AND id = ANY(:gone_pages::bytea[])
)

-- name: robots
put_robots AS (
    INSERT INTO {schema}.robots
    SELECT {shard}, n.* FROM owner, unnest(
        :origin::text[], :robots_status::smallint[], :body::bytea[], :access::text[], :robots_fetched::float8[],
        :expires::float8[], :robots_held::float8[], :tries::integer[], :problem::text[]
    ) AS n (origin, status, body, access, fetched_at, expires, held, tries, problem)
    ON CONFLICT (origin, shard) DO UPDATE SET
        status = excluded.status, body = excluded.body, access = excluded.access, fetched_at = excluded.fetched_at,
        expires = excluded.expires, held = excluded.held, tries = excluded.tries, problem = excluded.problem
)

-- name: robots_gone
cut_robots AS (
    DELETE FROM {schema}.robots USING owner WHERE robots.shard = {shard} AND origin = ANY(:gone_robots::text[])
)

-- name: leases
put_leases AS (
    INSERT INTO {schema}.leases
    SELECT {shard}, n.* FROM owner, unnest(:lease_id::bytea[], :visit::bytea[]) AS n (id, visit)
    ON CONFLICT (shard, id) DO UPDATE SET visit = excluded.visit
)

-- name: leases_gone
cut_leases AS (
    DELETE FROM {schema}.leases USING owner WHERE leases.shard = {shard} AND id = ANY(:gone_leases::bytea[])
)

-- name: suspects
put_suspects AS (
    INSERT INTO {schema}.suspects
    SELECT {shard}, n.* FROM owner, unnest(:suspect_id::bytea[], :suspect_crashes::integer[], :in_hand::integer[])
        AS n (id, crashes, in_hand)
    ON CONFLICT (shard, id) DO UPDATE SET crashes = excluded.crashes, in_hand = excluded.in_hand
)

-- name: suspects_gone
cut_suspects AS (
    DELETE FROM {schema}.suspects USING owner WHERE suspects.shard = {shard} AND id = ANY(:gone_suspects::bytea[])
)

-- name: outbox
put_outbox AS (
    INSERT INTO {schema}.outbox
    SELECT {shard}, n.* FROM owner, unnest(:number::bigint[], :link::bytea[]) AS n (number, link)
    ON CONFLICT (shard, number) DO UPDATE SET link = excluded.link
)

-- name: outbox_gone
cut_outbox AS (
    DELETE FROM {schema}.outbox USING owner WHERE outbox.shard = {shard} AND number = ANY(:gone_outbox::bigint[])
)
