"""N workers on this machine: started, watched, told when to stop, and started again when they die.

    messages   what parent and workers say to each other, over one socket each
    workers    a worker as its parent sees it, and the links under way between two of them
    parent     the process that a person starts: it starts workers, carries links between them, and shows one crawl

The parent crawls nothing and opens no store, so it stays small, and whatever a page does to a worker does not reach it.
"""
