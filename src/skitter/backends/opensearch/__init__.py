"""OpenSearch 2 and later, and Elasticsearch 8 and later: the search index of a cluster.

`http` makes requests, `documents` builds them and interprets the answers, `index` is the port.
"""

from skitter.backends.opensearch.index import OpenSearchIndex

__all__ = ["OpenSearchIndex"]
