"""What a crawl learns of a host while it visits it: which of its URLs bring something, and which repeat themselves.

`learned` is the row that is kept with the shard. Everything here is pure: the frontier decides when to ask.
"""
