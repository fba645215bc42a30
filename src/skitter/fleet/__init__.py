"""N workers on this machine: started, watched, told when to stop, and started again when they die.

    messages    what parent and workers say to each other, over one socket each
    processes   how workers are started and ended, and a worker as its parent sees it
    carrier     the links under way between two workers
    seeding     the seeds on their way to the first worker
    control     the commands of a person on their way to all workers
    rounds      one question to every worker, and all the answers
    parent      the process that a person starts: it starts workers, carries links between them, and shows one crawl
    worker      some shards in a process of their own

The parent crawls nothing and opens no store, so it stays small, and whatever a page does to a worker does not reach it. What
it decides is in `crawl.done` and `crawl.limits`.
"""
