"""The network: one request per visit, made by libcurl on the event loop.

`http` is the Fetcher. `address` resolves and guards, `request` builds what is sent, a `transfer` on the
`multi` bridge carries it, and `response` and `decode` interpret what came back. Only `http`, `transfer`,
`multi` and the DNS part of `address` do I/O; the rest is pure.
"""
