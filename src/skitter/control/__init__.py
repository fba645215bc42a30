"""Control of a running crawl: what people tell it while it runs, and how others watch it.

    orders      what a person may ask for, checked and put into words
    log         the commands of a crawl on one machine, in a file of its directory
    desk        what a running crawl does with a request
    server      the socket in the crawl directory
    client      the other end of it, for the command line
    address     sockets whose path is longer than a socket's address may be

A command is kept before it is answered, and every shard applies it once (`frontier.commands`). In a cluster the log is
on the engine that is the truth (`cluster.orders`), and there is no socket.
"""
