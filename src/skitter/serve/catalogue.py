"""Which crawls a server shows: directories that were named, those of a folder, or a cluster.

A client names a crawl by its id, which is looked up here and never becomes a part of a path.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from skitter.crawl.directory import CrawlDirectory
from skitter.serve.problems import conflict, not_found


class Served(Struct, frozen=True):
    """A crawl that is served."""

    id: str
    path: Path | None = None  # of a crawl on this machine
    config: Path | None = None  # settings of a cluster

    @property
    def directory(self) -> CrawlDirectory:
        """The directory of a crawl on this machine."""
        if self.path is None:
            raise conflict("this crawl runs on a cluster; it is started and stopped by its workers")
        return CrawlDirectory(self.path)


class Catalogue:
    """The crawls there are now. Crawls of a folder come and go."""

    def __init__(
        self, directories: Sequence[Path] = (), root: Path | None = None, configs: Sequence[Path] = ()
    ) -> None:
        self.root = root
        self._named: dict[str, Served] = {}
        for path in directories:
            self._add(path.resolve().name, path=path)
        for config in configs:
            self._add(config.stem, config=config)

    def _add(self, name: str, path: Path | None = None, config: Path | None = None) -> None:
        """Two of the same name are told apart by a number."""
        found, number = name, 2
        while found in self._named:
            found, number = f"{name}-{number}", number + 1
        self._named[found] = Served(found, path, config)

    def all(self) -> list[Served]:
        """Every crawl, by id."""
        found = dict(self._named)
        if self.root is not None:
            for path in sorted(self.root.iterdir()):
                if path.name not in found and not path.is_symlink() and CrawlDirectory(path).exists:
                    found[path.name] = Served(path.name, path)
        return sorted(found.values(), key=lambda one: one.id)

    def find(self, crawl: str) -> Served:
        """A crawl by its id. ProblemError if there is none."""
        if crawl in self._named:
            return self._named[crawl]
        if self.root is not None and is_name(crawl):
            path = self.root / crawl
            if not path.is_symlink() and CrawlDirectory(path).exists:
                return Served(crawl, path)
        raise not_found(f"no crawl has the id {crawl[:100]!r}")

    def new(self, name: str) -> Path:
        """The directory of a new crawl. ProblemError if there cannot be one of that name."""
        if self.root is None:
            raise conflict(
                "this server shows crawls that were named; start it with --root FOLDER to make new ones"
            )
        if not is_name(name):
            raise conflict(
                "a crawl's name has letters, digits, dots, hyphens and underscores, and begins with a letter or digit"
            )
        path = self.root / name
        if path.exists() or name in self._named:
            raise conflict(f"there is a crawl {name!r} already")
        return path


def is_name(text: str) -> bool:
    """Whether this may be the name of a crawl's folder."""
    return (
        0 < len(text) <= 100
        and text.isascii()
        and text[0].isalnum()
        and all(letter.isalnum() or letter in ".-_" for letter in text)
    )
