"""Apache Kafka from Maven Central: one process that is broker and controller (KRaft)."""

import base64
import socket
import struct
import uuid

from .engine import Engine
from .install import fetched, maven, need
from .place import LOOPBACK

VERSION = "4.3.1"
# The logging that Kafka's own distribution adds to its jars; the version that Kafka is built with.
ARTIFACTS = [
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.logging.log4j", "log4j-core", "2.25.4"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
]
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{broker},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{broker}
controller.listener.names=CONTROLLER
log.dirs={data}
# One broker: what is three in production is one here.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
num.partitions=1
# A topic that a test forgot to make is a mistake, not a topic.
auto.create.topics.enable=false
# Tests wait for rebalances; nobody else joins later.
group.initial.rebalance.delay.ms=0
# A killed broker is believed alive for this long, and its successor waits outside (by default 9 seconds).
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
# Small enough that a test sees retention and deletion work on whole segments.
log.segment.bytes=16777216
"""
LOGGING = """<Configuration status="error">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class Kafka(Engine):
    """One broker; every topic has one replica."""

    name = "kafka"
    about = "Apache Kafka, one broker"
    purposes = ("broker", "controller")
    version = VERSION

    @property
    def address(self) -> str:
        """For `bootstrap.servers`."""
        return f"{LOOPBACK}:{self.port}"

    def install(self) -> None:
        """The jars, then a formatted log directory."""
        need("java", "default-jre-headless")
        self.libraries = fetched(self.place, f"kafka-{VERSION}", maven(ARTIFACTS))
        self.properties = self.write("server.properties", self.configuration())
        if not (self.data / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self.place.run(
                [
                    *self.java(),
                    "kafka.tools.StorageTool",
                    "format",
                    f"--cluster-id={cluster}",  # in one word: it may begin with a hyphen
                    "-c",
                    str(self.properties),
                    *self.users(),
                ],
                self.home,
            )

    def configuration(self) -> str:
        """Its properties."""
        return PROPERTIES.format(host=LOOPBACK, data=self.data, **self.ports)

    def users(self) -> list[str]:
        """The users known from the beginning, for the format tool. None here."""
        return []

    def java(self) -> list[str]:
        """The virtual machine with Kafka's jars."""
        logging = self.write("log4j2.xml", LOGGING)
        options = ["-Xmx512m", "-XX:-UsePerfData", f"-Dlog4j2.configurationFile={logging}"]
        return ["java", *options, "-cp", f"{self.libraries}/*"]

    def command(self) -> list[str]:
        """The server."""
        return [*self.java(), "kafka.Kafka", str(self.properties)]

    def answers(self) -> bool:
        """Metadata names a broker: until it is registered and unfenced the list is empty, and topics cannot be
        created.
        """
        # Request header v1 (key 3, version 1, correlation id, no client id) and an empty list of topics.
        request = struct.pack(">hhihi", 3, 1, 7, -1, 0)
        with (
            socket.create_connection((LOOPBACK, self.port), timeout=5) as connection,
            connection.makefile("rb") as answer,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = answer.read(12)  # size, correlation id, number of brokers
        return len(head) == 12 and struct.unpack(">iii", head)[1:] == (7, 1)
