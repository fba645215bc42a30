"""Files of an origin that say how its pages may be used: tdmrep.json (TDMRep), and licences (RSL 1.0).

They are fetched like any URL (`Purpose.TERMS`), archived, and read here when a page is exported or indexed. What cannot
be read says nothing. Payment is never made: a use that costs money is one that the licence does not give us.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from skitter.model import Statement
from skitter.robots import usage
from skitter.robots.matching import path_of
from skitter.robots.saying import PathStatements, by_path
from skitter.urls import origin

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

WELL_KNOWN = "/.well-known/tdmrep.json"
MAX_SIZE = 512 * 1024  # octets of a file that are read
_MOST = 1_000  # entries of a file

_NOTHING = PathStatements(())
_USES = {  # RSL 1.0, 3.5, and the words of its earlier drafts
    "all": (usage.TRAIN, usage.INPUT, usage.SEARCH),
    "ai-all": (usage.TRAIN, usage.INPUT),
    "ai-train": (usage.TRAIN,),
    "train-ai": (usage.TRAIN,),
    "ai-input": (usage.INPUT,),
    "search": (usage.SEARCH,),
}
_FREE = frozenset(("free", "attribution"))


def tdm_file(body: bytes) -> PathStatements:
    """A tdmrep.json: a list of objects with a location, matched like a rule of robots.txt, the longest first."""
    if len(body) > MAX_SIZE:
        return _NOTHING
    try:
        entries = json.loads(body)
    except (ValueError, RecursionError):
        return _NOTHING
    said = []
    for entry in entries[:_MOST] if isinstance(entries, list) else ():
        location = entry.get("location") if isinstance(entry, dict) else None
        if isinstance(location, str) and location.startswith("/") and "\n" not in location:
            path = location.encode("utf-8", "surrogatepass").decode("latin-1")
            raw = (
                json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace").decode()
            )  # half a pair is no text
            uses = usage.reservation(entry.get("tdm-reservation"))
            said.append((path, usage.statement(usage.TDM_FILE, raw, uses)))
    return by_path(said) if said else _NOTHING


def licence(body: bytes, url: str, own: str) -> PathStatements:
    """An RSL licence at a URL, as it concerns one origin. Contents of other origins are passed over."""
    if len(body) > MAX_SIZE or b"<!DOCTYPE" in body.replace(b"\0", b""):  # also in UTF-16
        return _NOTHING
    import xml.etree.ElementTree as ET  # noqa: PLC0415  few crawls meet a licence

    try:
        root = ET.fromstring(body)  # noqa: S314  without a document type there are no entities to expand
    except (ET.ParseError, ValueError, LookupError):
        return _NOTHING
    said: list[tuple[str, Statement]] = []
    for content in _children([root], "content"):
        path = _path(content.get("url") or "/", own)
        licences = list(_children([content], "license"))
        if path is not None and licences and len(said) < _MOST:
            raw = f"{url}: {_told(licences)}"
            said.append((path, usage.statement(usage.RSL, raw, _uses(licences))))
    return by_path(said) if said else _NOTHING


def statements(found: PathStatements, url: str, at: float) -> list[Statement]:
    """What a file that was read at a time says about a URL."""
    return [Statement(one.source, one.raw, one.uses, at) for one in found.about(path_of(url))]


def _name(element: "ET.Element") -> str:
    return str(element.tag).rpartition("}")[2]


def _children(parents: "Sequence[ET.Element]", name: str) -> "Iterator[ET.Element]":
    for parent in parents:
        yield from (child for child in parent if _name(child) == name)


def _path(url: str, own: str) -> str | None:
    """The path of a content's URL as a rule; None if it is of another origin."""
    if not url.startswith("/"):
        if not url.startswith(f"{own}/") and origin(url) != own:
            return None
        url = url[url.find("/", url.find("//") + 2) :] if url.count("/") > 2 else "/"
    return None if "\n" in url else url.encode("utf-8", "surrogatepass").decode("latin-1")


def _words(licence: "ET.Element", name: str) -> set[str]:
    """The uses that a licence permits or prohibits; without a type, usage is meant."""
    said = (one.text or "" for one in _children([licence], name) if one.get("type", "usage") == "usage")
    words = " ".join(said).replace(",", " ").lower().split()
    return {use for word in words for use in _USES.get(word, ())}


def _uses(licences: "Sequence[ET.Element]") -> dict[str, str]:
    """A use is given if one licence permits it for free; it is not if licences speak of uses and none gives it.

    Where a licence lists what it permits, what is not in the list is not permitted.
    """
    free: set[str] = set()
    spoken: set[str] = set()
    for one in licences:
        permitted, prohibited = _words(one, "permits"), _words(one, "prohibits")
        payments = [payment.get("type", "") for payment in _children([one], "payment")]
        if all(kind in _FREE for kind in payments):
            free |= permitted - prohibited
        spoken |= prohibited | (set(_USES["all"]) if permitted else set())
    return {use: "y" if use in free else "n" for use in sorted(spoken)}


def _told(licences: "Sequence[ET.Element]") -> str:
    """The terms in short, for people."""
    told = []
    for one in licences:
        for child in one:
            words = " ".join(filter(None, (_name(child), child.get("type"), (child.text or "").strip())))
            told.append(words)
            told += (" ".join("".join(part.itertext()).split()) for part in child)
    return "; ".join(filter(None, told))
