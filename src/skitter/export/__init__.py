"""Exports: derived data, made on demand and always rebuildable from the state and the archive.

`source` is what is read, `reread` gets text back from the archive, `cdxj` shapes single lines, `writing` says what a
format is, `formats` has the table of them, and `destination` is where they are written.
"""
