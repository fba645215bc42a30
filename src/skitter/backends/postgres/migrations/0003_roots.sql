-- A root is known by a hash of its URL: an index cannot hold a value of more than 2,704 bytes, and a URL may be longer.
ALTER TABLE roots DROP CONSTRAINT roots_pkey;
ALTER TABLE roots ADD COLUMN digest bytea;
UPDATE roots SET digest = sha256(convert_to(url, 'UTF8'));
ALTER TABLE roots ALTER COLUMN digest SET NOT NULL;
ALTER TABLE roots ADD PRIMARY KEY (digest);
