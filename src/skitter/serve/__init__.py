"""Crawls over HTTP: a first page for people, an API for programs, and streams of events.

    catalogue   which crawls there are: directories that were named, those of a folder, a cluster
    reading     a crawl opened for reading, for as many requests as come within a moment
    lists       long lists, a page at a time
    shapes      what goes in and out
    answers     what is asked about crawls
    steering    what crawls are told, and new ones
    history     what happened, from the log of each crawl, and as a stream
    tokens      who may do what, kept as hashes
    access      who asks: tokens, sessions of a browser, the user of a loopback connection; Host and Origin
    routes      the table of all of it, from which the server and its OpenAPI document are made
    front       the first page

The server opens crawls like every other reader, and steers them through the control socket that the command line
uses. It holds no state of a crawl, so that it may be killed at any time.
"""
