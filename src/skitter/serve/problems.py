"""What went wrong, as a client is told it (RFC 9457)."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from skitter.reporting.format import printable


class Problem(Struct, frozen=True, omit_defaults=True):
    """The body of every answer that is an error."""

    title: str
    status: int
    detail: str = ""
    type: str = "about:blank"


class ProblemError(Exception):
    """A request that cannot be answered. Carries its answer."""

    def __init__(
        self, status: int, title: str, detail: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.headers = dict(headers or {})
        self.problem = Problem(title=title, status=status, detail=printable(detail))

    def encoded(self) -> bytes:
        """As application/problem+json."""
        return msgspec.json.encode(self.problem)


def bad_request(detail: str) -> ProblemError:
    """The request itself is wrong."""
    return ProblemError(400, "The request cannot be understood", detail)


def not_found(detail: str) -> ProblemError:
    """There is no such thing."""
    return ProblemError(404, "There is no such thing here", detail)


def conflict(detail: str) -> ProblemError:
    """The state of the crawl does not allow it."""
    return ProblemError(409, "That is not possible now", detail)
