"""The network: one request per visit, made by libcurl on the event loop.

`http` is the Fetcher. `address` resolves and guards, `request` builds the header fields, a `transfer` on the
`multi` bridge composes and carries the request, and `response` decodes and interprets what came back. Only
`http`, `transfer`, `multi` and the DNS part of `address` do I/O; the rest is pure.
"""
