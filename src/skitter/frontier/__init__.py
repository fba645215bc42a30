"""The frontier of a cluster: the decisions of a shard in Python, its rows on an engine that others run.

`store` is the seam to the engine and `rows` what passes through it. `frontier` holds the verbs of the port, made of
`adding`, `leasing`, `settling` and `recovery`, which are made of the steps in `shard`; `reading` is the read side.
`mail` carries links between shards, `claims` says whose a shard is.
"""

from skitter.frontier.reading import RemoteReader
from skitter.frontier.verbs import RemoteFrontier

__all__ = ["RemoteFrontier", "RemoteReader"]
