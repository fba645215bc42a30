"""Many machines, one crawl: who owns which shard, for how long, and what a worker does with it.

    ports             what is asked of the engines: claims, disks, links that come in
    balance           which shards a worker should have; pure
    lease, clock      how long a shard is ours, by the engine's time
    worker            renews leases, takes shards, runs them, hands them over
    held_shards       the shards that it has, and the room that they share
    opening, announce what opening a shard takes, and its frontier
    incoming, roots   links and roots that other workers have found
    quota             how many pages each shard may store; pure
    limit_watch       keeps one worker within the limits of all
    run               one run of a worker: what ends it, and what goes on beside it
    agreement, shared_settings   which settings all workers share
    intake            seeds on their way in
    status            the cluster in numbers, and whether it is done

Nothing here knows an engine: they come from `compose`.
"""
