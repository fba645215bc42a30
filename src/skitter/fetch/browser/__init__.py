"""A browser without a network: what a page's scripts make of it, with every request answered by us.

`finding` looks for the program, `process` starts and ends it, `pipe` speaks its debugging protocol (CDP), `page` shows one
page to it. Nothing here decides which pages are rendered or which requests may be sent: `crawl/rendering` does.
"""
