-- Files of seeds that are only partly in: up to which line. A file is known by the hash of what is in it.
CREATE TABLE intakes (
    digest text PRIMARY KEY,
    line bigint NOT NULL
);
