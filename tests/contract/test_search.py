"""The search indexes we ship keep the contract of the port."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.backends.opensearch import OpenSearchIndex
from skitter.backends.opensearch.http import Cluster
from skitter.backends.sqlite_fts import FtsIndex
from skitter.ports import SearchIndex
from skitter.settings.engines import SearchSettings
from skitter.testing.contracts.search import SearchIndexContract
from tests.engines import engine


class TestFtsIndex(SearchIndexContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self._path = tmp_path / "search.sqlite"

    def index(self) -> SearchIndex:
        return FtsIndex(self._path)


class TestOpenSearchIndex(SearchIndexContract):
    @pytest.fixture(autouse=True)
    def place(self) -> Iterator[None]:
        address = engine("opensearch").address
        self._settings = SearchSettings(addresses=(address,), index=f"test-{uuid.uuid4().hex}", bulk=10)
        yield
        asyncio.run(remove(self._settings))

    def index(self) -> SearchIndex:
        return OpenSearchIndex(self._settings)


async def remove(settings: SearchSettings) -> None:
    """Remove everything a test left in the cluster."""
    cluster = Cluster(settings, "")
    await cluster.ask("DELETE", f"/{settings.index}")
    await cluster.ask("DELETE", f"/_index_template/{settings.index}")
    await cluster.close()
