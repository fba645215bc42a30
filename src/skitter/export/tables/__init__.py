"""A crawl as five tables: pages, links, urls, requests and hosts, for Parquet, SQL and SQLite.

`shapes` says what their columns are, `rows` reads them from a crawl, `duck` is DuckDB with limits and locks, and
`parquet` and `sqlite` are the formats.
"""
