"""Common operator mistakes: each is one line with the engine, the setting and the fix, before any crawling."""

import asyncio
import socketserver
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from skitter.backends.kafka.client import reach
from skitter.backends.kafka.topics import remove, wanted
from skitter.backends.postgres.migrate import drop, look
from skitter.backends.redis.client import Client
from skitter.cli import main
from skitter.crawl.directory import CrawlDirectory
from skitter.settings.file import load
from tests.cluster.redis import settings_for
from tests.engines import Engine, engine

_NOWHERE = "127.0.0.1:1"


def config(folder: Path, **changes: str) -> Path:
    """A settings file for the full size; nothing answers at its addresses unless a change says so."""
    values = {
        "cluster.size": '"full"',
        "cluster.name": '"bad_input"',
        "crawl.shards": "2",
        "postgres.addresses": f'["{_NOWHERE}"]',
        "postgres.database": '"postgres"',
        "kafka.addresses": f'["{_NOWHERE}"]',
        "redis.addresses": f'["{_NOWHERE}"]',
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    file = folder / "cluster.toml"
    file.write_text("".join(f"{name} = {value}\n" for name, value in values.items()))
    return file


def complaint(
    capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 2, shown: Sequence[str] = ()
) -> str:
    """What the command says, which must be one line; and what it shows all the same, by how its lines begin."""
    assert main([str(word) for word in words]) == code
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert len(lines) == len(shown), said.out
    assert all(line.startswith(begins) for line, begins in zip(lines, shown, strict=True)), said.out
    assert said.err.count("\n") == 1, said.err
    return said.err


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Path]:
    """A cluster of its own on the real engines."""
    postgres, kafka, redis = engine("postgres"), engine("kafka"), engine("redis")
    name = f"bad_{uuid.uuid4().hex[:12]}"
    topics = ("links_high", "links_medium", "links_low", "documents", "errors", "dead_letters")
    file = config(
        tmp_path,
        cluster__name=f'"{name}"',
        postgres__addresses=f'["{postgres.host}:{postgres.port}"]',
        kafka__addresses=f'["{kafka.address}"]',
        redis__addresses=f'["{redis.host}:{redis.port}"]',
        **{f"kafka__{topic}": f'"{name}-{topic}"' for topic in topics},
    )
    yield file
    asyncio.run(drop(load(file, {}, {})))


@contextmanager
def refusing() -> Iterator[str]:
    """A PostgreSQL that asks for a password and likes none (protocol 3.0: Authentication, then ErrorResponse)."""

    class Session(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"R\0\0\0\x08\0\0\0\x03")
            self.request.recv(4096)
            fields = b'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "skitter"\0\0'
            self.request.sendall(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


# ------------------------------------------------------------------------------------------------ without engines


@pytest.mark.parametrize(
    "command", [("work",), ("cluster", "init"), ("cluster", "status"), ("cluster", "wait")]
)
def test_a_crawl_on_one_machine_is_not_a_cluster(command, tmp_path, capsys):
    said = complaint(capsys, *command, "--config", config(tmp_path, cluster__size='"none"'))
    assert "cluster.size is none" in said
    assert 'size = "full"' in said


# While nothing else is known, `status` tells at least which engines answer.
COMMANDS = [
    (("work",), ()),
    (("cluster", "init"), ()),
    (("cluster", "status"), ("  PostgreSQL  away: ", "  Kafka       away: ", "  Redis       away: ")),
]


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_wrong_address_of_postgresql(command, shown, tmp_path, capsys):
    said = complaint(capsys, *command, "--config", config(tmp_path), shown=shown)
    assert f"PostgreSQL: postgres.addresses: no server that takes writes answers at {_NOWHERE}" in said
    assert "start it or correct the address" in said


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_wrong_address_of_redis(command, shown, tmp_path, capsys):
    file = config(tmp_path, cluster__size='"redis"')
    said = complaint(capsys, *command, "--config", file, shown=("  Redis  away: ",) if shown else ())
    assert "Redis (redis.addresses): no server that takes writes answers at" in said
    assert "start it or correct the address" in said


def test_a_database_that_redis_does_not_have(tmp_path, capsys):
    redis = engine("redis")
    changes = {"cluster__size": '"redis"', "redis__addresses": f'["{redis.host}:{redis.port}"]'}
    said = complaint(
        capsys, "cluster", "init", "--config", config(tmp_path, **changes, redis__database="999")
    )
    assert "Redis (redis.database): " in said


def test_a_wrong_password(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SKITTER_POSTGRES_PASSWORD", "hunter2-and-more")
    with refusing() as address:
        said = complaint(capsys, "work", "--config", config(tmp_path, postgres__addresses=f'["{address}"]'))
    assert "PostgreSQL: postgres.user: password authentication failed" in said
    assert "SKITTER_POSTGRES_PASSWORD or postgres.password_file" in said
    assert "hunter2" not in said


def test_a_redis_user_without_access_to_the_keys(tmp_path, capsys, monkeypatch):
    redis, name = engine("redis"), f"bad-{uuid.uuid4().hex[:12]}"
    changes = {"cluster__size": '"redis"', "redis__addresses": f'["{redis.host}:{redis.port}"]'}
    with redis_user(redis, name, "~elsewhere:*", "+@all"):
        monkeypatch.setenv("SKITTER_REDIS_PASSWORD", "secret")
        file = config(tmp_path, **changes, redis__username=f'"{name}"')
        for command in (("cluster", "init"), ("cluster", "status"), ("work", "-o", tmp_path / "worker")):
            said = complaint(capsys, *command, "--config", file)
            assert said.startswith("skitter: Redis (redis.username): ")
            assert "give this user the right to do it" in said


@contextmanager
def redis_user(redis: Engine, name: str, *rights: str) -> Iterator[None]:
    """A user of Redis, with the password "secret" and these rights."""

    async def tell(*command: str) -> None:
        client = Client(settings_for(redis))
        await client.send(lambda: [command])
        await client.close()

    asyncio.run(tell("ACL", "SETUSER", name, "on", ">secret", "&*", *rights))
    try:
        yield
    finally:
        asyncio.run(tell("ACL", "DELUSER", name))


def test_a_password_file_that_is_not_there(tmp_path, capsys):
    said = complaint(
        capsys, "work", "--config", config(tmp_path, postgres__password_file='"/nowhere/password"')
    )
    assert said.startswith("skitter: postgres.password_file: /nowhere/password: No such file")


@pytest.mark.parametrize(
    ("library", "engine_name"), [("asyncpg", "PostgreSQL"), ("confluent_kafka", "Kafka"), ("redis", "Redis")]
)
def test_a_library_that_is_not_installed(library, engine_name, tmp_path):
    program = f"import sys; sys.modules[{library!r}] = None; import skitter.cli; sys.exit(skitter.cli.main())"
    command = [sys.executable, "-c", program, "work", "--config", str(config(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"skitter: {engine_name}: ")
    assert "[cluster]" in done.stderr


# ------------------------------------------------------------------------------------------------ with engines


def test_a_schema_that_was_not_made(made, capsys):
    for command in (("work",), ("cluster", "status"), ("cluster", "add", "https://example.org")):
        said = complaint(capsys, *command, "--config", made)
        assert "PostgreSQL: cluster.name: the database postgres has no crawl" in said
        assert "run `skitter cluster init`" in said


def test_a_user_that_postgresql_does_not_know(made, capsys):
    said = complaint(capsys, "cluster", "init", "--config", made, "--set", "postgres.user=stranger")
    assert 'PostgreSQL: postgres.user: role "stranger" does not exist' in said


@pytest.mark.parametrize(
    ("changes", "setting", "fix"),
    [
        ((f"kafka.addresses={_NOWHERE}",), "kafka.addresses", "start Kafka or correct the address"),
        (("kafka.tls=true",), "kafka.tls", "correct kafka.tls"),
        (("kafka.tls=true", "kafka.ca_file=/nowhere"), "kafka.ca_file", "name a readable file"),
        (("kafka.mechanism=PLAIN",), "kafka.username", "SKITTER_KAFKA_PASSWORD"),
        (("kafka.replication=9",), "kafka.replication", "more copies than brokers"),
    ],
)
def test_settings_that_do_not_fit_kafka(changes, setting, fix, made, capsys):
    said = complaint(capsys, "cluster", "init", "--config", made, *(f"--set={each}" for each in changes))
    assert f"Kafka: {setting}: " in said
    assert fix in said


def test_what_is_missing_or_in_use_after_init(made, tmp_path, capsys):
    assert main(["cluster", "init", "--config", str(made)]) == 0
    assert "migration 1 applied" in capsys.readouterr().out
    assert main(["cluster", "init", "--config", str(made)]) == 0
    assert capsys.readouterr().out == "everything already exists\n"

    said = complaint(capsys, "work", "--config", made, "--set", "kafka.documents=nowhere")
    assert 'kafka.documents is "nowhere" here and ' in said
    said = complaint(capsys, "cluster", "status", "--config", made, "--shards", "3")
    assert "has 2 shards, not 3" in said

    directory = CrawlDirectory(tmp_path / "worker")
    directory.prepare(state_elsewhere=True)
    with directory.locked():  # as another worker would
        said = complaint(capsys, "work", "--config", made, "-o", directory.path, code=4)
    assert "is in use by process" in said
    assert "-o" in said

    settings = load(made, {}, {})
    asyncio.run(remove(settings.kafka))
    said = complaint(capsys, "work", "--config", made)
    assert f"there is no topic {settings.kafka.links_high}; run `skitter cluster init`" in said


def there_is(made: Path) -> tuple[bool, set[str]]:
    """Whether the engines have a schema of this crawl, and which of its topics."""
    settings = load(made, {}, {})
    _, there = asyncio.run(reach(settings.kafka))
    names = {topic.name for topic in wanted(settings.kafka, settings.crawl.shards)}
    return asyncio.run(look(settings)), names & set(there.topics)


def test_init_reports_a_missing_bucket_before_it_creates_anything(made, capsys, monkeypatch):
    s3 = engine("s3")
    monkeypatch.setenv("SKITTER_S3_SECRET_KEY", s3.settings["SECRET_KEY"])
    keys = [f"--set=s3.endpoint={s3.address}", f"--set=s3.access_key={s3.settings['ACCESS_KEY']}"]
    said = complaint(capsys, "cluster", "init", "--config", made, "--set=s3.bucket=no-such-bucket", *keys)
    assert "has no bucket 'no-such-bucket'; create it, or mend s3.bucket" in said
    assert there_is(made) == (False, set())


def test_init_creates_nothing_if_kafka_refuses_the_topics(made, capsys):
    said = complaint(capsys, "cluster", "init", "--config", made, "--set=kafka.replication=9")
    assert "Kafka: kafka.replication: " in said
    assert there_is(made) == (False, set())


@pytest.mark.parametrize("evidence", ["the other crawl is in the same database", "it has sent messages"])
def test_init_refuses_topics_of_another_crawl_and_creates_nothing(evidence, made, tmp_path, capsys):
    assert main(["cluster", "init", "--config", str(made)]) == 0
    first = load(made, {}, {})
    if evidence == "it has sent messages":
        assert main(["cluster", "add", "--config", str(made), "https://example.org/"]) == 0
        asyncio.run(drop(first))  # as if its truth were in another database
    capsys.readouterr()
    name = f"other_{uuid.uuid4().hex[:12]}"
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "cluster.toml"
    other.write_text(made.read_text().replace(f'"{first.cluster.name}"', f'"{name}"'))
    said = complaint(capsys, "cluster", "init", "--config", other)
    assert f"used by the crawl '{first.cluster.name}'; name topics of its own under [kafka]" in said
    assert there_is(other)[0] is False


def test_init_refuses_topics_of_another_crawl_for_a_crawl_that_is_there(made, tmp_path, capsys):
    """The settings of a crawl that has topics of its own were changed to those of another."""
    assert main(["cluster", "init", "--config", str(made)]) == 0
    assert main(["cluster", "add", "--config", str(made), "https://example.org/"]) == 0
    first, name = load(made, {}, {}), f"other_{uuid.uuid4().hex[:12]}"
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "cluster.toml"
    other.write_text(made.read_text().replace(first.cluster.name, name))
    try:
        assert main(["cluster", "init", "--config", str(other)]) == 0
        capsys.readouterr()
        wrong = f"--set=kafka.links_medium={first.kafka.links_medium}"
        said = complaint(capsys, "cluster", "init", "--config", other, wrong)
        assert f"topic {first.kafka.links_medium} is used by the crawl '{first.cluster.name}'" in said
        assert main(["cluster", "init", "--config", str(other)]) == 0
    finally:
        asyncio.run(drop(load(other, {}, {})))


def test_a_refusal_by_one_engine_closes_the_others(made, tmp_path, capsys):
    assert main(["cluster", "init", "--config", str(made)]) == 0
    capsys.readouterr()
    said = complaint(
        capsys, "work", "-o", tmp_path / "w", "--config", made, f'--set=redis.addresses=["{_NOWHERE}"]'
    )
    assert "Redis (redis.addresses): " in said
    assert [thread.name for thread in threading.enumerate() if "kafka" in thread.name] == []


def test_seeds_may_stand_behind_the_flags(made, capsys):
    assert main(["cluster", "init", "--config", str(made)]) == 0
    assert (
        main(["cluster", "add", "--config", str(made), "https://example.org/", "https://example.net/"]) == 0
    )
    assert capsys.readouterr().out.endswith("2 seeds were sent to their shards\n")
    assert main(["cluster", "wait", "--config", str(made), "--timeout", "100ms"]) == 1


def test_a_small_cluster_has_no_bucket(tmp_path, capsys):
    file = config(tmp_path, cluster__size='"redis"', s3__bucket='"archive"')
    for command in (("cluster", "init"), ("cluster", "wait"), ("work", "-o", tmp_path / "worker")):
        said = complaint(capsys, *command, "--config", file)
        assert "s3.bucket: a cluster around one Redis keeps its archive on the disks of its workers" in said
        assert 'leave the bucket out, or write size = "full"' in said
    assert not (tmp_path / "worker").exists()
