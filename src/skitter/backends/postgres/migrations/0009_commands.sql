-- What people told the crawl while it ran, in order. How far each shard has come is among its positions (shards.mail).
CREATE TABLE commands (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, words text NOT NULL);
