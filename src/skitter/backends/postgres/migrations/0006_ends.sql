-- Where the archive files of former owners end: the mark that whoever took a shard has found, and where the new owner keeps its
-- own files. Used where workers keep their files, without a bucket; with one, the register of segments says the same.
CREATE TABLE ends (
    shard integer NOT NULL,
    epoch bigint NOT NULL,                       -- of the new owner
    file text NOT NULL,                          -- empty: nothing was settled yet
    size bigint NOT NULL,
    directory text NOT NULL,
    PRIMARY KEY (shard, epoch)
);
