"""Search: `feed` sends batches of pages to an index, `stored` makes them from a crawl directory, `text` handles
queries.
"""
