"""The header fields that are sent, and the user agent.

Neither a page nor a setting can inject a line: field values with control characters are refused earlier.
"""

import re
from collections.abc import Sequence

import skitter
from skitter.model import Page, Sends
from skitter.runtime import dates
from skitter.settings import FetchSettings, SettingsError

# RFC 9110 5.6.2 and 5.5: a field name is a token; a value is visible ASCII, with spaces and tabs between.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?")
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"')  # RFC 9110 8.8.3, as far as it is ASCII
# RFC 9110 10.1.5: a user agent begins with a product; ours is also the token that robots.txt files name.
_USER_AGENT = re.compile(r"[A-Za-z0-9_.-]+(?:/[!-~]+)?(?: [\x20-\x7e]*[\x21-\x7e])?")
_EMAIL = re.compile(r"[^\s@()<>]+@[^\s@()<>]+")

_FIELD = re.compile(rf"{_TOKEN.pattern}: {_VALUE.pattern}")
_PAGES_MAY_SET = frozenset(("accept", "accept-language"))

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_ENCODING = "gzip, deflate, br, zstd"


def user_agent(settings: FetchSettings) -> str:
    """The User-Agent header: as set, or the program with its version and the contact.

    A site owner who reads a log line should learn what this is and whom to write to, or that no contact is
    named. Whatever name an operator chooses, ours follows it: Skitter does not hide.
    """
    if settings.user_agent:
        agent = settings.user_agent
    elif settings.contact:
        agent = (
            f"Skitter/{skitter.__version__} ({'+' if '://' in settings.contact else ''}{settings.contact})"
        )
    else:
        agent = f"Skitter/{skitter.__version__} (web crawler; its operator gave no contact)"
    if not _USER_AGENT.fullmatch(agent):
        raise SettingsError(
            f"fetch.user_agent or fetch.contact: {agent!r} cannot be a User-Agent; begin with a name such as "
            "ExampleBot/1.0 and use printable ASCII"
        )
    return agent if "skitter" in agent.lower() else f"{agent} Skitter/{skitter.__version__}"


def identity(settings: FetchSettings) -> tuple[str, ...]:
    """The header lines of every request, in the order sent, after Host."""
    lines = [f"User-Agent: {user_agent(settings)}"]
    if _EMAIL.fullmatch(settings.contact) and settings.contact.isascii():
        lines.append(f"From: {settings.contact}")  # RFC 9110 10.1.2: a robot SHOULD name a contact
    lines.append(f"Accept: {ACCEPT}")
    if settings.accept_language:
        if not re.fullmatch(r"[A-Za-z0-9*,;=.\- ]+", settings.accept_language):
            raise SettingsError(
                f"fetch.accept_language: {settings.accept_language!r} is not a list such as 'en, de;q=0.5'"
            )
        lines.append(f"Accept-Language: {settings.accept_language}")
    lines.append(f"Accept-Encoding: {ACCEPT_ENCODING}")
    return tuple(lines)


def conditions(page: Page) -> tuple[tuple[str, str], ...]:
    """The header fields that ask for a page only if it has changed since it was stored (RFC 9110 13.1).

    Nothing if its server gave no validator, or none that may be sent: an entity tag is a quoted string, perhaps weak,
    and a date has one form. With both, servers go by the tag.
    """
    found = []
    if _ENTITY_TAG.fullmatch(page.etag):
        found.append(("If-None-Match", page.etag))
    if dates.http(page.last_modified) is not None:
        found.append(("If-Modified-Since", page.last_modified))
    return tuple(found)


def with_fields(lines: tuple[str, ...], sends: Sends) -> tuple[str, ...]:
    """The lines of a request with those that a rendered page gave it: who we are, and secrets, it cannot change."""
    own = [line for line in sends.fields if _FIELD.fullmatch(line)]
    names = {line.partition(":")[0].lower() for line in own} & _PAGES_MAY_SET
    kept = [line for line in lines if line.partition(":")[0].lower() not in names]
    there = {line.partition(":")[0].lower() for line in kept}
    added = [line for line in own if line.partition(":")[0].lower() not in there]
    if sends.method == "POST":
        if not any(line.lower().startswith("content-type:") for line in added):
            added.append("Content-Type: application/octet-stream")  # else libcurl writes one of its own
        added.append(f"Content-Length: {len(sends.body)}")
    return (*kept, *added)


def fields(validators: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Conditional header fields as lines. Their values came from a server: invalid ones are left out."""
    return tuple(
        f"{name}: {value}" for name, value in validators if _TOKEN.fullmatch(name) and _VALUE.fullmatch(value)
    )
