pragma journal_mode = wal;

create table if not exists hooks (
    id text primary key, url text not null, secret text not null, events text not null, created real not null
);

-- How far the events of a crawl were read for a webhook: every event before became a delivery, if it was wanted.
create table if not exists positions (
    hook text not null, crawl text not null, at integer not null, primary key (hook, crawl)
);

create table if not exists deliveries (
    id text primary key,
    hook text not null,
    crawl text not null,
    event integer not null,
    at real not null,
    body text not null,
    state text not null default 'waiting',
    tries integer not null default 0,
    due real not null default 0,
    problem text not null default ''
);

create index if not exists deliveries_due on deliveries (due) where state = 'waiting';
