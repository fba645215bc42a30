"""What a crawl learns of a host while it visits it: which of its URLs bring something, and which repeat themselves.

`learned` is the row that is kept with the shard, `patterns` names the patterns of a URL and judges them by their yield.
All of it is pure: the frontier counts when a visit is settled, and asks before the next is leased.
"""
