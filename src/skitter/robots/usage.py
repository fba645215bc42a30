"""What site owners say about the uses of their pages: the vocabularies, and what follows from all of them together.

    Content-Usage   draft-ietf-aipref-vocab and -attach: a header field, and lines of robots.txt
    Content-Signal  contentsignals.org: lines of robots.txt, and a header field
    TDMRep          tdmrep.json, then the header field, then the meta element: the later of them counts
    noai            meta robots and X-Robots-Tag
    RSL             a licence, named by robots.txt or by the page (`skitter.robots.terms` reads it)

Every place becomes a `Statement`: the source, the raw text, and for each use `y` or `n`. What nobody says stays
unknown: `verdicts` has no entry for it. Nothing raises, and nothing here fetches.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from skitter.model import Statement

TRAIN, SEARCH, INPUT, IMAGES, TDM = "train-ai", "search", "ai-input", "train-ai-images", "tdm"
USES: Mapping[str, str] = {
    TRAIN: "training of AI models",
    SEARCH: "search engines that lead to the page",
    INPUT: "answers of AI models that quote or use the page",
    IMAGES: "training of AI models with the images of the page",
    TDM: "text and data mining (TDMRep)",
}
"""The uses that can be respected, and what they mean."""

USAGE_HEADER, USAGE_ROBOTS = "Content-Usage header", "Content-Usage in robots.txt"
SIGNAL_HEADER, SIGNAL_ROBOTS = "Content-Signal header", "Content-Signal in robots.txt"
TDM_FILE, TDM_HEADER, TDM_META = "tdmrep.json", "tdm-reservation header", "tdm-reservation meta element"
TDM_POLICY_HEADER, TDM_POLICY_META = "tdm-policy header", "tdm-policy meta element"
TAG_HEADER, TAG_META = "X-Robots-Tag header", "meta robots"
LICENSE_ROBOTS, LICENSE_PAGE, LICENSE_HEADER = "License in robots.txt", "link rel=license", "Link header"
RSL, RSL_TYPE = "RSL licence", "application/rsl+xml"
MOST_LICENSES = 10  # of a page, or of a robots.txt

_IN_ORDER = (TDM_FILE, TDM_HEADER, TDM_META)  # TDMRep, 6: the later supersedes the earlier
LONGEST = 8192  # characters of a value that are read; what is longer is no preference that anybody wrote
SHOWN = 500  # characters of it that are kept

# draft-ietf-aipref-vocab-08: other labels must be ignored, as must other values.
_LABELS = frozenset((TRAIN, SEARCH))
# RFC 9651 4.2.2: a dictionary member, its value (a token here, or something we do not use), its parameters.
_MEMBER = re.compile(
    r'([a-z*][a-z0-9_\-.*]*+)(?:=("(?:[^"\\]++|\\.)*+"|[^;,"\s]*+))?+((?:\s*;[^,"]*+(?:"[^"]*+"[^,"]*+)*+)*+)'
)
_COMMA = re.compile(r"[\t ]*+,[\t ]*+")
_SIGNALS = {"search": SEARCH, "ai-input": INPUT, "ai-train": TRAIN}
_ANSWERS = {"yes": "y", "no": "n"}


def statement(source: str, raw: str, uses: Mapping[str, str]) -> Statement:
    """A statement with its raw text cut; who reads it fills in the time."""
    return Statement(source, raw if len(raw) <= SHOWN else f"{raw[: SHOWN - 1]}…", uses)


def usage(value: str) -> dict[str, str]:
    """Content-Usage: a dictionary of y and n (RFC 9651). A malformed one says nothing at all."""
    found: dict[str, str] = {}
    position, value = 0, value.strip(" ")
    if len(value) > LONGEST:
        return {}
    while position < len(value):
        member = _MEMBER.match(value, position)
        if member is None:
            return {}
        found[member[1]] = member[2] or ""
        if member.end() == len(value):
            break
        comma = _COMMA.match(value, member.end())
        if comma is None or comma.end() == len(value):  # 4.2.2: nothing may follow but another member
            return {}
        position = comma.end()
    return {label: said for label, said in found.items() if label in _LABELS and said in ("y", "n")}


def signals(value: str) -> dict[str, str]:
    """Content-Signal: comma-separated words, in whatever case; what is neither yes nor no says nothing."""
    found: dict[str, str] = {}
    for part in value[:LONGEST].split(","):
        name, _, answer = part.partition("=")
        use, said = _SIGNALS.get(name.strip().lower()), _ANSWERS.get(answer.strip().lower())
        if use and said:
            found[use] = _stricter(found.get(use), said)
    return found


def reservation(value: object) -> dict[str, str]:
    """TDMRep: 1 reserves the rights, 0 does not; anything else is as if it were not there.

    Training is a kind of mining (Directive (EU) 2019/790, Article 4; Regulation (EU) 2024/1689, Article 53), so
    reserved rights say no to it. Rights that are not reserved say nothing about it.
    """
    written = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return {"1": {TDM: "n", TRAIN: "n"}, "0": {TDM: "y"}}.get(written, {})


def rules(found: Iterable[str]) -> dict[str, str]:
    """noai and noimageai among the rules of meta robots or X-Robots-Tag."""
    said = {"noai": TRAIN, "noimageai": IMAGES}
    return {said[rule]: "n" for rule in found if rule in said}


def _stricter(one: str | None, other: str) -> str:
    return "n" if one == "n" else other


def merged(all_uses: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Several preferences for the same thing: n wins (draft-ietf-aipref-vocab, 5.2)."""
    found: dict[str, str] = {}
    for uses in all_uses:
        for use, said in uses.items():
            found[use] = _stricter(found.get(use), said)
    return found


# ------------------------------------------------------------------------------------------------ all together


def verdicts(statements: Sequence[Statement]) -> dict[str, tuple[str, Statement]]:
    """By use: y or n, and the statement that decides. Over all sources, n wins; of equals, the first is named."""
    found: dict[str, tuple[str, Statement]] = {}
    for one in in_force(statements):
        for use, said in one.uses.items():
            if use not in found or (said == "n" and found[use][0] != "n"):
                found[use] = said, one
    return found


def in_force(statements: Sequence[Statement]) -> list[Statement]:
    """Without those of TDMRep that a later place supersedes. A place that says nothing resets nothing."""
    reserving = [one for one in statements if one.source in _IN_ORDER and one.uses]
    if len(reserving) < 2:
        return list(statements)
    last = max(_IN_ORDER.index(one.source) for one in reserving)
    return [one for one in statements if one.source not in _IN_ORDER or _IN_ORDER.index(one.source) == last]


def objection(statements: Sequence[Statement], respected: Sequence[str]) -> str:
    """Why a page is left out if these uses are respected; empty if it is not."""
    if not statements or not respected:
        return ""
    for use, (said, one) in verdicts(statements).items():
        if said == "n" and use in respected:
            return f"it says no to {use} ({one.source}: {one.raw})"
    return ""
