"""What tests of a crawler need, shipped so that others can use it too.

`clock` is an event loop with virtual time, so that a week of crawling runs in milliseconds. `web` is a
synthetic web served on loopback, including faults, that knows what a correct crawl of it finds. `contracts`
holds one executable suite per port. The crawler itself imports nothing from here.
"""
