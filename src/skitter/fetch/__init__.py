"""The way out to the network: one request per visit, made by libcurl on the event loop.

`http` is the Fetcher. It asks `address` where a host may be reached (DNS, guard), `request` what we say of ourselves, lets
a `transfer` on the `multi` bridge carry it, and has `response` say what came back. Only `http`, `transfer`, `multi` and the
DNS part of `address` touch the world; the rest is pure.
"""
