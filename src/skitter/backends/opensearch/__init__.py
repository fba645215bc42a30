"""OpenSearch 2 and later, and Elasticsearch 8 and later: the index of a crawl on many machines.

`http` asks a cluster, `documents` says what is sent and what answers mean, `index` is the port.
"""

from skitter.backends.opensearch.index import OpenSearchIndex

__all__ = ["OpenSearchIndex"]
