"""The frontier of a cluster: the decisions of a shard in Python, its rows on an engine that others run."""
