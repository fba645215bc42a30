"""S3: the Versity gateway, built with Go, on a plain directory.

It checks signatures and supports conditional writes.
"""

from .engine import Engine, get
from .install import fetched, go
from .place import LOOPBACK

VERSION = "1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
# Not secrets: they give access to test objects from this machine's loopback only.
ACCESS, SECRET, REGION = "skitter", "skitter-secret", "us-east-1"


class S3(Engine):
    """Buckets are directories, objects are files with their metadata in extended attributes."""

    name = "s3"
    about = "S3 by the Versity gateway"
    version = VERSION

    def install(self) -> None:
        """The program."""
        self.programs = fetched(self.place, f"versitygw-{VERSION}", go(MODULE))
        self.place.give(self.data)

    def variables(self) -> dict[str, str]:
        """The access key of the only user."""
        return {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}

    def settings(self) -> dict[str, str]:
        """What a client signs with."""
        return {"ACCESS_KEY": ACCESS, "SECRET_KEY": SECRET, "REGION": REGION}

    def command(self) -> list[str]:
        """Connections are kept open, as on every S3 in production."""
        options = ["--port", f"{LOOPBACK}:{self.port}", "--region", REGION, "--keep-alive", "--quiet"]
        return [str(self.programs / "versitygw"), *options, "posix", str(self.data)]

    def answers(self) -> bool:
        """An unsigned request is refused in S3's own words."""
        status, body = get(self.address)
        return status == 403 and b"<Code>AccessDenied</Code>" in body
