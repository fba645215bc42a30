"""The library of named questions about a crawl: each is a file NAME.sql beside this one.

A file begins with comments that say what it is: its title, what it shows (`about`), what to do about it (`advice`), its group,
its kind (`problem`: each row is something to look at; `overview`: numbers about everything), and for a chart the columns of labels
and values. The rest is one SELECT on the tables of `export.tables` and the views of `views.sql`.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources

from msgspec import Struct

_GROUPS = (
    "The crawl",
    "Errors",
    "Redirects",
    "Titles and descriptions",
    "What search engines are told",
    "Structure",
    "Addresses",
    "Speed and size",
)


class Check(Struct, frozen=True, kw_only=True):
    """A named question."""

    name: str
    title: str
    about: str
    advice: str
    group: str
    kind: str  # problem or overview
    chart: tuple[str, ...] = ()  # the columns of labels and values
    sql: str


@cache
def checks() -> Mapping[str, Check]:
    """Every check by its name, group by group."""
    files = [file for file in resources.files(__package__).iterdir() if file.name.endswith(".sql")]
    made = [
        read(file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in files
        if file.name != "views.sql"
    ]
    made.sort(key=lambda check: (_GROUPS.index(check.group), check.kind != "overview", check.title))
    return {check.name: check for check in made}


@cache
def views() -> str:
    """The statements that create the views."""
    return (resources.files(__package__) / "views.sql").read_text("utf-8")


def read(name: str, text: str) -> Check:
    """A check from its file."""
    head: dict[str, str] = {}
    lines = text.split("\n")
    while lines and lines[0].startswith("-- "):
        key, _, said = lines.pop(0).removeprefix("-- ").partition(": ")
        head[key] = said
    chart = tuple(column.strip() for column in head.pop("chart", "").split(",") if column)
    return Check(name=name, chart=chart, sql="\n".join(lines).strip(), **head)
