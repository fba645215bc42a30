-- What was learned of hosts: MessagePack. Written now and then, so its rows need no partitions.
CREATE TABLE learned (
    shard integer NOT NULL,
    name text NOT NULL,
    learned bytea NOT NULL,
    PRIMARY KEY (shard, name)
);
