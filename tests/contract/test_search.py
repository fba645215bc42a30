"""The search indexes we ship keep the contract of the port."""

from pathlib import Path

import pytest

from skitter.backends.sqlite_fts import FtsIndex
from skitter.ports import SearchIndex
from skitter.testing.contracts.search import SearchIndexContract


class TestFtsIndex(SearchIndexContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self._path = tmp_path / "search.sqlite"

    def index(self) -> SearchIndex:
        return FtsIndex(self._path)
