"""Replay: archived pages in any browser, from a server on loopback, with no way out to the live web.

`captures` finds an archived answer by URL and time, `answers` makes it what a browser may get, `html` and `css` rewrite the
URLs in it, `site` answers requests for archived content and `screens` those for our own pages, which have another origin.
`serving` is the HTTP server of both. Decision 69 says why URLs are rewritten, and what keeps pages in.
"""
