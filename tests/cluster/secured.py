"""The engines secured as by an operator: TLS with a private CA, and no access without name and password."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.engines.engine import Engine
from scripts.engines.kafka import Kafka
from scripts.engines.place import LOOPBACK, Place
from scripts.engines.postgres import Postgres
from scripts.engines.redis import Redis
from scripts.engines.s3 import S3

from tests.cluster.own import own_place, started

USER, PASSWORD = "guarded", "secret-that-nobody-may-print"
OPENSSL = shutil.which("openssl")


@dataclass(frozen=True)
class Papers:
    """An authority of our own, and what it certifies: that a server is 127.0.0.1."""

    authority: Path
    key: Path
    certificate: Path

    @classmethod
    def issued(cls, folder: Path) -> "Papers":
        """By the openssl command."""
        folder.mkdir(parents=True, exist_ok=True)
        ca, ca_key, key, wish, certificate, names = (
            folder / name for name in ("ca.pem", "ca.key", "server.key", "server.csr", "server.pem", "names")
        )
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        names.write_text(f"subjectAltName=IP:{LOOPBACK}\n")
        _openssl("req", "-x509", *kind, "-subj", "/CN=Tests", "-days", "30", "-keyout", ca_key, "-out", ca)
        _openssl("req", *kind, "-subj", "/CN=server", "-keyout", key, "-out", wish)
        signed = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "30", "-extfile", names)
        _openssl("x509", "-req", "-in", wish, *signed, "-out", certificate)
        return cls(ca, key, certificate)


def _openssl(*arguments: object) -> None:
    subprocess.run([str(OPENSSL), *map(str, arguments)], check=True, capture_output=True)


class Guarded(Engine):
    """What guarded engines have in common."""

    def __init__(self, place: Place, papers: Papers) -> None:
        super().__init__(place)
        self.papers = papers

    def private(self, name: str, text: str) -> Path:
        """A file that only the engine can read; PostgreSQL insists."""
        path = self.write(name, text)
        path.chmod(0o600)
        if identity := self.place.identity():
            os.chown(path, identity["user"], identity["group"])
        return path

    @property
    def key(self) -> Path:
        """What it proves itself with."""
        return self.private("server.key", self.papers.key.read_text())

    @property
    def certificate(self) -> Path:
        """What it shows."""
        return self.private("server.pem", self.papers.certificate.read_text())

    @property
    def authority(self) -> Path:
        """Whom it believes."""
        return self.private("ca.pem", self.papers.authority.read_text())

    def answers(self) -> bool:
        """It listens. What it answers is for the test to see."""
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) == 0


class GuardedRedis(Guarded, Redis):
    """TLS only, and one user."""

    def command(self) -> list[str]:
        """Its password stands in a file."""
        options = (
            f"port 0\ntls-port {self.port}\nbind {LOOPBACK}\ndir {self.data}\n"
            f"tls-cert-file {self.certificate}\ntls-key-file {self.key}\n"
            f"tls-ca-cert-file {self.authority}\ntls-auth-clients no\n"
            'appendonly yes\nsave ""\nmaxmemory-policy noeviction\n'
            f"user default off\nuser {USER} on >{PASSWORD} ~* &* +@all\n"
        )
        return ["redis-server", str(self.private("redis.conf", options))]


class GuardedPostgres(Guarded, Postgres):
    """TLS only, and scram."""

    def users(self) -> list[str]:
        """One, with a password."""
        return [
            "--auth=scram-sha-256",
            f"--username={USER}",
            f"--pwfile={self.private('password', PASSWORD)}",
        ]

    def command(self) -> list[str]:
        """Nobody comes in without TLS."""
        (self.data / "pg_hba.conf").write_text(f"hostssl all all {LOOPBACK}/32 scram-sha-256\n")
        papers = {"ssl": "on", "ssl_cert_file": self.certificate, "ssl_key_file": self.key}
        return [
            *super().command(),
            *(word for pair in papers.items() for word in ("-c", "{}={}".format(*pair))),
        ]


class GuardedKafka(Guarded, Kafka):
    """TLS and SASL: SCRAM for those who crawl, PLAIN for the broker itself."""

    def configuration(self) -> str:
        """With all that is needed for it."""
        modules = "org.apache.kafka.common.security"
        both = self.private("both.pem", self.papers.key.read_text() + self.papers.certificate.read_text())
        return super().configuration().replace("PLAINTEXT://", "SASL_SSL://") + (
            "listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\n"
            "inter.broker.listener.name=SASL_SSL\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n"
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required "
            'username="broker" password="broker" user_broker="broker";\n'
            f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={both}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.authority}\n"
        )

    def users(self) -> list[str]:
        """One."""
        return ["--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"]

    def answers(self) -> bool:
        """It listens some seconds before it is ready, and says when it is."""
        return super().answers() and "Kafka Server started" in (self.home / "log").read_text()


class GuardedS3(Guarded, S3):
    """TLS only; S3 has keys anyway."""

    @property
    def address(self) -> str:
        """Not http."""
        return f"https://{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        """With its papers."""
        program, *options = super().command()
        return [program, "--cert", str(self.certificate), "--key", str(self.key), *options]


@contextmanager
def guarded(papers: Papers, *kinds: type[Guarded]) -> Iterator[Sequence[Guarded]]:
    """Engines of these kinds, one of each."""
    with own_place() as place:
        engines = [kind(place, papers) for kind in kinds]
        with ExitStack() as stack:
            for engine in engines:
                stack.enter_context(started(engine))
            yield engines
