-- One write is one statement, for one shard or for many. The row of each owner is changed if its epoch is still the
-- shard's, and everything else happens only where it was: a shard whose owner is another changes in nothing, the others do.
-- A claim by somebody else waits for the row, or has it first.

-- A try that was given up may arrive behind a later batch of the same owner: it finds a higher number, and changes nothing.

-- name: owner
step AS (
    UPDATE {schema}.shards s SET
        batch = greatest(s.batch, n.batch),
        seq = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.seq ELSE s.seq END,
        mark_file = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.mark_file ELSE s.mark_file END,
        mark_end = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.mark_end ELSE s.mark_end END,
        counts = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.counts::jsonb ELSE s.counts END,
        mail = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.mail::jsonb ELSE s.mail END,
        clock = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.clock ELSE s.clock END,
        judged_by = CASE WHEN n.batch = 0 OR s.batch <= n.batch THEN n.judged_by ELSE s.judged_by END
    FROM unnest(
        :shard::integer[], :epoch::bigint[], :batch::bigint[], :seq::bigint[], :mark_file::text[], :mark_end::bigint[],
        :counts::text[], :mail::text[], :clock::float8[], :judged_by::text[]
    ) AS n (shard, epoch, batch, seq, mark_file, mark_end, counts, mail, clock, judged_by)
    WHERE s.shard = n.shard AND s.epoch = n.epoch
    RETURNING s.shard, n.batch = 0 OR s.batch = n.batch AS timely
),
owner AS (SELECT array_agg(shard) AS shards FROM step WHERE timely)

-- name: urls
put_urls AS (
    INSERT INTO {schema}.urls
    SELECT n.shard, n.id, n.url, n.key, n.host, n.domain, n.state::{schema}.url_state, n.level, n.score, n.seq, n.depth,
        n.parent, n.first_seen, n.last_crawl, n.next_crawl, n.crawl_count, n.attempts, n.crashes, n.status, n.reason,
        n.detail, n.parked, n.more
    FROM owner, unnest(
        :urls_shard::integer[], :id::bytea[], :url::text[], :key::text[], :host::text[], :domain::text[], :state::text[],
        :level::smallint[], :score::float8[], :seqs::bigint[], :depth::integer[], :parent::text[], :first_seen::float8[],
        :last_crawl::float8[], :next_crawl::float8[], :crawl_count::integer[], :attempts::integer[],
        :crashes::integer[], :status::smallint[], :reason::text[], :detail::text[], :parked::boolean[], :more::bytea[]
    ) AS n (shard, id, url, key, host, domain, state, level, score, seq, depth, parent, first_seen, last_crawl,
        next_crawl, crawl_count, attempts, crashes, status, reason, detail, parked, more)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (id, shard) DO UPDATE SET
        url = excluded.url, key = excluded.key, host = excluded.host, domain = excluded.domain, state = excluded.state,
        level = excluded.level, score = excluded.score, seq = excluded.seq, depth = excluded.depth,
        parent = excluded.parent, first_seen = excluded.first_seen, last_crawl = excluded.last_crawl,
        next_crawl = excluded.next_crawl, crawl_count = excluded.crawl_count, attempts = excluded.attempts,
        crashes = excluded.crashes, status = excluded.status, reason = excluded.reason, detail = excluded.detail,
        parked = excluded.parked, more = excluded.more
)

-- Of a table with partitions rows are deleted shard by shard, which is rare: the text names the partition, else the plan
-- would lock all of them.

-- name: urls_gone
cut_urls_{shard} AS (
    DELETE FROM {schema}.urls USING owner
    WHERE {shard} = ANY(owner.shards) AND urls.shard = {shard} AND id = ANY(:gone_urls::bytea[])
)

-- name: hosts
put_hosts AS (
    INSERT INTO {schema}.hosts
    SELECT n.* FROM owner, unnest(
        :hosts_shard::integer[], :host_name::text[], :host_domain::text[], :free_at::float8[], :held::float8[],
        :delay::float8[], :queued::integer[], :host_pages::integer[], :requests::integer[], :errors::integer[],
        :bytes::bigint[], :aside::text[], :aside_detail::text[], :place::bytea[], :queues::bytea[]
    ) AS n (shard, name, domain, free_at, held, delay, queued, pages, requests, errors, bytes, aside, detail, place, queues)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (name, shard) DO UPDATE SET
        domain = excluded.domain, free_at = excluded.free_at, held = excluded.held, delay = excluded.delay,
        queued = excluded.queued, pages = excluded.pages, requests = excluded.requests, errors = excluded.errors,
        bytes = excluded.bytes, aside = excluded.aside, detail = excluded.detail, place = excluded.place,
        queues = excluded.queues
)

-- name: pages
put_pages AS (
    INSERT INTO {schema}.pages
    SELECT n.* FROM owner, unnest(
        :pages_shard::integer[], :page_id::bytea[], :page_url::text[], :page_host::text[], :page_domain::text[],
        :page_status::smallint[], :fetched_at::float8[], :content_type::text[], :language::text[], :size::bigint[],
        :title::text[], :digest::text[], :simhash::bigint[], :duplicate_of::text[], :archive_file::text[],
        :archive_offset::bigint[], :archive_length::bigint[], :links::bytea[], :by_digest::boolean[],
        :by_simhash::boolean[], :page_more::bytea[]
    ) AS n (shard, id, url, host, domain, status, fetched_at, content_type, language, size, title, digest, simhash,
        duplicate_of, archive_file, archive_offset, archive_length, links, by_digest, by_simhash, more)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (id, shard) DO UPDATE SET
        url = excluded.url, host = excluded.host, domain = excluded.domain, status = excluded.status,
        fetched_at = excluded.fetched_at, content_type = excluded.content_type, language = excluded.language,
        size = excluded.size, title = excluded.title, digest = excluded.digest, simhash = excluded.simhash,
        duplicate_of = excluded.duplicate_of, archive_file = excluded.archive_file,
        archive_offset = excluded.archive_offset, archive_length = excluded.archive_length, links = excluded.links,
        by_digest = excluded.by_digest, by_simhash = excluded.by_simhash, more = excluded.more
)

-- name: pages_gone
cut_pages_{shard} AS (
    DELETE FROM {schema}.pages USING owner
    WHERE {shard} = ANY(owner.shards) AND pages.shard = {shard} AND id = ANY(:gone_pages::bytea[])
)

-- name: robots
put_robots AS (
    INSERT INTO {schema}.robots
    SELECT n.* FROM owner, unnest(
        :robots_shard::integer[], :origin::text[], :robots_status::smallint[], :body::bytea[], :access::text[],
        :robots_fetched::float8[], :expires::float8[], :robots_held::float8[], :tries::integer[], :problem::text[]
    ) AS n (shard, origin, status, body, access, fetched_at, expires, held, tries, problem)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (origin, shard) DO UPDATE SET
        status = excluded.status, body = excluded.body, access = excluded.access, fetched_at = excluded.fetched_at,
        expires = excluded.expires, held = excluded.held, tries = excluded.tries, problem = excluded.problem
)

-- name: robots_gone
cut_robots_{shard} AS (
    DELETE FROM {schema}.robots USING owner
    WHERE {shard} = ANY(owner.shards) AND robots.shard = {shard} AND origin = ANY(:gone_robots::text[])
)

-- name: learned
put_learned AS (
    INSERT INTO {schema}.learned
    SELECT n.* FROM owner, unnest(:learned_shard::integer[], :learned_name::text[], :learned::bytea[]) AS n (shard, name, learned)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (shard, name) DO UPDATE SET learned = excluded.learned
)

-- name: learned_gone
cut_learned AS (
    DELETE FROM {schema}.learned t
    USING owner, unnest(:gone_learned_shard::integer[], :gone_learned::text[]) AS n (shard, name)
    WHERE n.shard = ANY(owner.shards) AND t.shard = n.shard AND t.name = n.name
)

-- name: leases
put_leases AS (
    INSERT INTO {schema}.leases
    SELECT n.* FROM owner, unnest(:leases_shard::integer[], :lease_id::bytea[], :visit::bytea[]) AS n (shard, id, visit)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (shard, id) DO UPDATE SET visit = excluded.visit
)

-- name: leases_gone
cut_leases AS (
    DELETE FROM {schema}.leases t
    USING owner, unnest(:gone_leases_shard::integer[], :gone_leases::bytea[]) AS n (shard, id)
    WHERE n.shard = ANY(owner.shards) AND t.shard = n.shard AND t.id = n.id
)

-- name: suspects
put_suspects AS (
    INSERT INTO {schema}.suspects
    SELECT n.* FROM owner, unnest(
        :suspects_shard::integer[], :suspect_id::bytea[], :suspect_crashes::integer[], :in_hand::integer[]
    ) AS n (shard, id, crashes, in_hand)
    WHERE n.shard = ANY(owner.shards)
    ON CONFLICT (shard, id) DO UPDATE SET crashes = excluded.crashes, in_hand = excluded.in_hand
)

-- name: suspects_gone
cut_suspects AS (
    DELETE FROM {schema}.suspects t
    USING owner, unnest(:gone_suspects_shard::integer[], :gone_suspects::bytea[]) AS n (shard, id)
    WHERE n.shard = ANY(owner.shards) AND t.shard = n.shard AND t.id = n.id
)
