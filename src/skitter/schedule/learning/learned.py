"""The row in which a shard keeps what it has learned of a host, apart from the host's own row, which every visit rewrites.

A row is bounded in size, however many URLs a host has: whoever adds to it forgets what is least useful.
"""

from msgspec import Struct, field

from skitter.schedule.learning.parameters import Parameter


class Pattern(Struct, array_like=True, gc=False):
    """URLs of a host that look alike, and what their visits have brought."""

    fetched: int = 0
    useful: int = 0  # of these, pages with something new


class Learned(Struct, array_like=True, gc=False):
    """What was learned of a host, or, under the name `*.` and a domain, of all hosts of a domain.

    Each thing that is learned has a field; a new one goes to the end, and has a default.
    """

    name: str
    patterns: dict[str, Pattern] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    wrong: int = 0  # parameters that were learned to be needless, and are not


def of_domain(domain: str) -> str:
    """The name under which is kept what was learned of all hosts of a domain. No host has such a name."""
    return f"*.{domain}"


def host_of(name: str) -> str:
    """A host that the row of this name is about."""
    return name.removeprefix("*.")
