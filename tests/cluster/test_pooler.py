"""PgBouncer between a crawl and PostgreSQL: in session mode it serves, in transaction mode it is refused in one line."""

import asyncio
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import pytest
from scripts.engines.engine import Engine
from scripts.engines.place import LOOPBACK, Place

from skitter.cli import main
from skitter.settings.file import dump
from skitter.testing.web import Features, SyntheticWeb, serve_process
from tests.cluster.crawling import QUICK, cluster, cluster_settings
from tests.cluster.own import own_place, started
from tests.crawl.harness import keys
from tests.engines import engine

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
OURS = "statement_timeout, jit, enable_seqscan, enable_hashjoin, enable_mergejoin, plan_cache_mode"
SESSION = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
CONFIGURATION = """[databases]
* = host={host} port={server}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {home}/users.txt
pool_mode = {mode}
ignore_startup_parameters = {ignored}
"""

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="pgbouncer is not installed (apt-get install pgbouncer)"
)


class PgBouncer(Engine):
    """One in front of the PostgreSQL of `make services`."""

    name = "pgbouncer"
    version = ""

    def __init__(self, place: Place, user: str, mode: str, ignored: str) -> None:
        super().__init__(place)
        self._user, self._mode, self._ignored = user, mode, ignored

    def install(self) -> None:
        """Its configuration."""
        server = engine("postgres").port
        text = CONFIGURATION.format(
            host=LOOPBACK,
            server=server,
            port=self.port,
            mode=self._mode,
            ignored=self._ignored,
            home=self.home,
        )
        self.write("users.txt", f'"{self._user}" ""\n')
        self.write("pgbouncer.ini", text)

    def command(self) -> list[str]:
        """In the foreground."""
        return [str(PROGRAM), str(self.home / "pgbouncer.ini")]

    def answers(self) -> bool:
        """It lets somebody in."""

        async def ask() -> bool:
            try:
                connection = await asyncpg.connect(
                    host=LOOPBACK,
                    port=self.port,
                    user=self._user,
                    database="postgres",
                    statement_cache_size=0,
                )
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                return False
            await connection.close()
            return True

        return asyncio.run(ask())


@contextmanager
def user_with(session: dict[str, str]) -> Iterator[str]:
    """A user of PostgreSQL whose sessions begin with these settings."""
    name = f"pooled_{uuid.uuid4().hex[:8]}"
    server = engine("postgres")

    def run(*statements: str) -> None:
        async def ask() -> None:
            connection = await asyncpg.connect(server.address)
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(ask())

    run(
        f"CREATE ROLE {name} LOGIN SUPERUSER",
        *(f"ALTER ROLE {name} SET {key} = {value}" for key, value in session.items()),
    )
    try:
        yield name
    finally:
        run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


REFUSED = [
    ("", {}, "takes no settings of a session (unsupported startup parameter: "),
    (OURS, {}, "does not keep the settings of a session (plan_cache_mode is auto)"),
    (OURS, SESSION, "gives every transaction another session, where our prepared statements are not"),
]


@pytest.mark.parametrize(("ignored", "session", "why"), REFUSED)
@pytest.mark.parametrize("command", [("cluster", "init"), ("work",)])
def test_transaction_mode_is_refused_in_one_line(tmp_path, capsys, command, ignored, session, why):
    with (
        own_place() as place,
        user_with(session) as user,
        started(pooler := PgBouncer(place, user, "transaction", ignored)),
    ):
        settings = cluster_settings(
            None, postgres__addresses=(f"{LOOPBACK}:{pooler.port}",), postgres__user=user
        )
        (tmp_path / "cluster.toml").write_text(dump(settings))
        output = ("-o", str(tmp_path / "worker")) if command == ("work",) else ()
        assert main([*command, "--config", str(tmp_path / "cluster.toml"), *output]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.startswith("skitter: PostgreSQL: postgres.addresses: a pooler answers at ")
        assert why in said
        assert "name the server itself, or a pooler in session mode" in said


def test_a_crawl_through_session_mode_stores_every_page(tmp_path):
    web = SyntheticWeb(seed=51, hosts=8, pages_per_host=6, features=Features.plain(foreign_share=0.3))
    with (
        own_place() as place,
        serve_process(web) as server,
        user_with(SESSION) as user,
        started(pooler := PgBouncer(place, user, "session", OURS)),
    ):
        own = {"postgres__addresses": (f"{LOOPBACK}:{pooler.port}",), "postgres__user": user}
        with cluster(tmp_path, server, crawl__shards=4, **QUICK | own) as crawl:
            crawl.add(server.seeds())
            crawl.work()
            crawl.work()
            crawl.wait()
            crawl.leave()
            assert crawl.judged().pages == keys(server.truth("any").pages)
