"""Exports: derived data, made on demand and always rebuildable from the state and the archive.

`source` is what is read, `reread` gets text back from the archive, `cdxj` shapes single lines, `formats`
writes whole files.
"""
