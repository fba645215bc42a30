"""`python -m benchmarks.cluster bytes` measures correctly: the figures of docs/cluster.md come from it."""

import asyncio

import pytest
from benchmarks.stored import per_waiting_url

from tests.engines import our_engine


@pytest.mark.parametrize("size", ["full", "redis"])
def test_a_waiting_url_takes_some_hundred_bytes(size):
    for name in ("postgres", "redis", "kafka"):
        our_engine(name)
    figures = asyncio.run(per_waiting_url(size, 5000))
    assert figures["links"] == 5000
    # Its URL alone has 65 characters, and stands there as URL, key and in an index.
    assert 200 < figures["bytes"] < 3000
    assert figures.get("bytes_packed", 0) <= figures["bytes"]
