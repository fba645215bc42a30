"""What a crawl is turned into: derived data, made on demand and always rebuildable from the state and the archive.

`source` is what is read, `reread` gets text back from the archive, `records` and `cdxj` shape single lines, `formats`
writes whole files.
"""
