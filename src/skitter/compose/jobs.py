"""Jobs, put together: where they are kept, and the scheduler that runs them."""

from skitter.backends.sqlite_jobs import SqliteJobs
from skitter.fetch.address import Guard
from skitter.jobs.child import Child
from skitter.jobs.files import Root
from skitter.jobs.ports import JobStore
from skitter.jobs.scheduler import Manner, Scheduler
from skitter.jobs.telling import Teller
from skitter.settings import Settings


async def open_jobs(root: Root, cluster: Settings | None = None) -> JobStore:
    """The jobs of a root, or of a cluster: then they are in PostgreSQL, and made there if there are none yet."""
    root.make()
    if cluster is None:
        return SqliteJobs(root.store_file)
    from skitter.backends.postgres.jobs import open_postgres_jobs  # noqa: PLC0415  an extra

    return await open_postgres_jobs(cluster)


def make_scheduler(store: JobStore, root: Root, manner: Manner, guard: Guard) -> Scheduler:
    """A scheduler whose runs are processes on this machine."""
    return Scheduler(store, Child(root), Teller(store, root, guard), root.home(), manner)
