"""Where jobs keep their files: one folder, the root.

jobs.sqlite · runs.xml · root.id · NAME/20261118T020000Z/ · NAME/20261118T020000Z.log · NAME/crawl/ · NAME/20261118T020000Z.round · NAME/runs.xml
"""

import os
import shutil
import uuid
from pathlib import Path

from skitter.crawl.directory import CrawlDirectory
from skitter.jobs.model import Run
from skitter.runtime import durable

STORE = "jobs.sqlite"


class Root:
    """The folder of all jobs."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.store_file = self.path / STORE
        self.feed = self.path / "runs.xml"

    def make(self) -> None:
        """Create the folder."""
        durable.make_folder(self.path)

    def home(self) -> str:
        """A name for this folder that no other machine's has: crawls lie here, and only those who see them can go on with them."""
        file = self.path / "root.id"
        if not file.is_file():
            durable.make_folder(self.path)
            draft = file.with_name(f"root.id.{uuid.uuid4().hex}")
            draft.write_text(f"{uuid.uuid4().hex}\n", encoding="ascii")
            try:
                os.link(draft, file)  # the first one wins
            except FileExistsError:
                pass
            finally:
                draft.unlink()
            durable.sync_folder(self.path)
        return file.read_text(encoding="ascii").strip()

    def crawl(self, run: Run) -> Path:
        """The directory of a run's crawl."""
        return self.path / (run.directory or f"{run.job}/{run.id.removeprefix(run.job + '-')}")

    def log(self, run: Run) -> Path:
        """What a run's crawl has said."""
        return self.path / run.job / f"{run.id.removeprefix(run.job + '-')}.log"

    def mark(self, run: Run) -> Path:
        """What a run of kind refresh has found when it began."""
        return self.log(run).with_suffix(".round")

    def job_feed(self, name: str) -> Path:
        """The feed of one job."""
        return self.path / name / "runs.xml"

    def remove(self, run: Run) -> bool:
        """Remove the crawl of a run, and what it said. False if something runs there, or it is not inside the root."""
        place = self.crawl(run)
        inside = place.parent.parent == self.path and place.parent.resolve() == self.path.resolve() / run.job
        if not run.directory or not inside or place.is_symlink() or place.name.startswith("."):
            return False
        if place.is_dir():
            if CrawlDirectory(place).in_use():
                return False
            shutil.rmtree(place)
        self.log(run).unlink(missing_ok=True)
        return True
