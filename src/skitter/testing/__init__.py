"""What the tests of a crawler need, shipped so that others can use it too.

`clock` holds an event loop whose time jumps, so that a week of crawling runs in milliseconds. `web` is a synthetic web that
is served for real on loopback, faults included, and knows what a correct crawl of it finds. `contracts` holds one
executable suite per port. Nothing here is imported by the crawler itself.
"""
