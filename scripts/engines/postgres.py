"""PostgreSQL, from the distribution's package, with a database cluster separate from the system's."""

import signal
from pathlib import Path

from .engine import Engine
from .install import apt
from .place import LOOPBACK, EngineError

OLDEST = 15


class Postgres(Engine):
    """One server that trusts everybody on loopback, with fsync on as in production."""

    name = "postgres"
    about = "PostgreSQL of the distribution, fsync on"
    politely = signal.SIGINT  # "fast": ends the sessions; SIGTERM would wait for them

    @property
    def programs(self) -> Path:
        """Debian keeps the server's programs out of PATH, one directory per major version."""
        found = {int(path.parent.name): path for path in Path("/usr/lib/postgresql").glob("[0-9]*/bin")}
        usable = [major for major in found if major >= OLDEST and (found[major] / "initdb").exists()]
        if not usable:
            raise EngineError(f"PostgreSQL {OLDEST} or newer is missing")
        return found[min(usable)]  # the oldest version that we support reveals the most problems

    @property
    def version(self) -> str:
        """From `postgres (PostgreSQL) 15.9 (Debian …)`."""
        return self.place.run([str(self.programs / "postgres"), "--version"], self.home).split()[2]

    @property
    def address(self) -> str:
        """The database that every cluster has; tests make their own."""
        return f"postgresql://skitter@{LOOPBACK}:{self.port}/postgres"

    def install(self) -> None:
        """The package, then a cluster."""
        try:
            programs = self.programs
        except EngineError:
            apt("postgresql")
            programs = self.programs
        if not (self.data / "PG_VERSION").exists():
            options = [*self.users(), "--encoding=UTF8", "--locale=C.UTF-8"]
            self.place.run([str(programs / "initdb"), "-D", str(self.data), *options], self.home)

    def users(self) -> list[str]:
        """Authentication, for initdb."""
        return ["--auth=trust", "--username=skitter"]

    def command(self) -> list[str]:
        """The server in the foreground: `pg_ctl` would leave us without its process id."""
        options = {
            "port": self.port,
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "max_connections": 200,
        }
        pairs = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        return [str(self.programs / "postgres"), "-D", str(self.data), *pairs]

    def answers(self) -> bool:
        """SELECT 1; it refuses while it recovers after a kill."""
        try:
            asked = [str(self.programs / "psql"), "-XAtc", "SELECT 1", f"{self.address}?connect_timeout=5"]
            return self.place.run(asked, self.home) == "1\n"
        except EngineError:
            return False
