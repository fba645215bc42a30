"""What a page asks of robots and says about its uses, from header fields and meta elements.

X-Robots-Tag and <meta name=robots> as Google documents them: rules add up, and the stricter wins. A rule for
a named robot only counts for that robot; ours is `AGENT`, or the product token of the crawl. What is said about uses is
in the vocabularies of `skitter.robots.usage`. Most pages say nothing, and cost nothing here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from skitter.model import Directives, Statement
from skitter.parse import markup
from skitter.parse.refresh import refresh
from skitter.robots import usage
from skitter.runtime import dates
from skitter.urls import resolve

AGENT = "skitter"  # the product token, as in robots.txt

# Rules with a value, so that the text before their colon is not a robot's name.
_VALUED = markup.names("max-image-preview max-snippet max-video-preview unavailable_after")
_NAMED = re.compile(r"\s*([\w\-.*]+)\s*:\s*(.*)", re.DOTALL)
_NO_INDEX = frozenset(("noindex", "none"))
_NO_FOLLOW = frozenset(("nofollow", "none"))
_NO_ARCHIVE = frozenset(("noarchive", "nocache"))
_SNIPPET = re.compile(r"max-snippet\s*:\s*(-?\d{1,9})", re.ASCII)
_UNTIL = re.compile(r"unavailable_after\s*:\s*(.+)", re.DOTALL)
# A date may have a comma after its first word, where the rules are split.
_DAY = re.compile(r"unavailable_after\s*:\s*(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\Z")
_MOST_RULES = 64
_LONGEST_RULE = 100  # characters; all but dates are shorter than 30

# Header fields that say something of this kind; most answers have none of them.
SAYING = frozenset(
    ("x-robots-tag", "content-usage", "content-signal", "tdm-reservation", "tdm-policy", "link")
)

Said = tuple[Directives, tuple[Statement, ...]]
NOTHING: Said = (Directives(), ())


# ------------------------------------------------------------------------------------------------ rules


def rules(lines: Iterable[str], agent: str = AGENT) -> list[str]:
    """The rules in X-Robots-Tag lines for everybody or for this agent, in lower case."""
    found: list[str] = []
    for line in lines:
        ours = True
        for rule in _parts(line):
            named = _NAMED.fullmatch(rule)
            if named and named[1] not in _VALUED:
                ours = named[1] in (agent, "*")
                rule = named[2]  # noqa: PLW2901  without the name
            if rule and ours:
                found.append(rule[:_LONGEST_RULE])
    return found[:_MOST_RULES]


def meta_rules(content: str) -> list[str]:
    """The rules in a robots meta element. Authors separate them by commas, blanks, or both."""
    found: list[str] = []
    for part in _parts(content):
        name = part.partition(":")[0].rstrip()
        if ":" in part and name in _VALUED:
            found.append(part[:_LONGEST_RULE])
        else:
            found += (word[:_LONGEST_RULE] for word in part.split())
    return found[:_MOST_RULES]


def _parts(text: str) -> list[str]:
    """The parts between commas, in lower case; that of a date is none."""
    parts: list[str] = []
    for part in text[: usage.LONGEST].lower().split(","):
        rule = part.strip()
        if parts and _DAY.search(parts[-1]):
            parts[-1] += f", {rule}"
        else:
            parts.append(rule)
    return parts


def directives(found: Sequence[str]) -> Directives:
    """All rules as one value. A date that cannot be read is no date; it stays among the rules."""
    if not found:
        return NOTHING[0]
    asked = frozenset(found)
    snippets = [int(match[1]) for rule in found if (match := _SNIPPET.fullmatch(rule))]
    ends = [dates.loose(match[1]) for rule in found if (match := _UNTIL.fullmatch(rule))]
    shown = [0] if "nosnippet" in asked else [most for most in snippets if most >= 0]
    return Directives(
        index=not asked & _NO_INDEX,
        follow=not asked & _NO_FOLLOW,
        archive=not asked & _NO_ARCHIVE,
        snippet=min(shown, default=-1),
        unavailable_after=min((end for end in ends if end is not None), default=None),
        rules=tuple(dict.fromkeys(found)),
    )


# ------------------------------------------------------------------------------------------------ statements


def of_page(
    headers: Mapping[str, Sequence[str]],
    meta: Sequence[str] = (),
    statements: Sequence[Statement] = (),
    agent: str = AGENT,
) -> Said:
    """What a page asks for in its header fields, combined with the rules and statements of its meta elements."""
    asked: list[str] = []
    said: list[Statement] = []
    if not SAYING.isdisjoint(headers):
        asked, said = rules(headers.get("x-robots-tag", ()), agent), _of_headers(headers)
    for source, found in ((usage.TAG_HEADER, asked), (usage.TAG_META, meta)):
        if uses := usage.rules(found):
            said.append(usage.statement(source, ", ".join(found), uses))
    return directives([*asked, *meta]), (*said, *statements)


def of_meta(name: str, content: str) -> Statement | None:
    """The meta elements of TDMRep."""
    if name == "tdm-reservation":
        return usage.statement(usage.TDM_META, content, usage.reservation(content))
    return usage.statement(usage.TDM_POLICY_META, content, {}) if name == "tdm-policy" else None


def _of_headers(headers: Mapping[str, Sequence[str]]) -> list[Statement]:
    said = [
        usage.statement(usage.SIGNAL_HEADER, line, usage.signals(line))
        for line in headers.get("content-signal", ())
    ]
    if lines := headers.get("content-usage"):  # RFC 9651 3.2: several lines are one dictionary
        whole = ", ".join(lines)
        said.append(usage.statement(usage.USAGE_HEADER, whole, usage.usage(whole)))
    said += (
        usage.statement(usage.TDM_HEADER, line, usage.reservation(line))
        for line in headers.get("tdm-reservation", ())
    )
    said += (usage.statement(usage.TDM_POLICY_HEADER, line, {}) for line in headers.get("tdm-policy", ()))
    said += (
        usage.statement(usage.LICENSE_HEADER, url, {})
        for url, rel, _ in links(headers.get("link", ()))
        if "license" in rel
    )
    return said[:_MOST_RULES]


# ------------------------------------------------------------------------------------------------ the Link header

# RFC 8288 3: a target, and its parameters.
_LINK = re.compile(r'<([^<>]*+)>((?:[\t ]*+;[\t ]*+(?:[^",;<>]++|"(?:[^"\\]++|\\.)*+")++)*+)')
_PARAMETER = re.compile(r';[\t ]*+([\w\-*]++)[\t ]*+=[\t ]*+(?:"((?:[^"\\]++|\\.)*+)"|([^",;\s]++))')
_RELEVANT = ("canonical", "license", "hreflang")  # most are about style sheets and fonts


def links(
    lines: Iterable[str], words: Sequence[str] = _RELEVANT
) -> list[tuple[str, list[str], dict[str, str]]]:
    """The targets in Link header fields with one of these words in them: URL, rel and parameters."""
    found = []
    for line in lines:
        lower = line.lower()
        if not any(word in lower for word in words):
            continue
        for target, written in _LINK.findall(line[: usage.LONGEST]):
            given = {name.lower(): quoted or bare for name, quoted, bare in _PARAMETER.findall(written)}
            found.append((target.strip(), given.get("rel", "").lower().split(), given))
    return found


_LONGEST_URL = 16_384  # characters: what is longer is never fetched


def canonical(href: str, base: str, url: str, headers: Mapping[str, Sequence[str]]) -> str:
    """The canonical URL that a page names in an element or a Link header: absolute, or as written if it is no URL."""
    if not href and "link" in headers:
        named = (target for target, rel, _ in links(headers["link"]) if "canonical" in rel)
        href, base = next(named, ""), url
    if not href or href == url or len(href) > _LONGEST_URL:
        return "" if len(href) > _LONGEST_URL else href
    return resolve(href, base) or href[: usage.SHOWN]


def alternates(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The page in other languages, by Link headers."""
    found = links(headers.get("link", ()))
    return {
        given["hreflang"].lower(): target
        for target, rel, given in found
        if "alternate" in rel and given.get("hreflang")
    }


def following(headers: Mapping[str, Sequence[str]]) -> list[str]:
    """The next part of a list, by Link headers (RFC 8288)."""
    lines = [line for line in headers.get("link", ()) if "next" in line.lower()]
    return [target for target, rel, _ in links(lines, ("next",)) if "next" in rel]


def hrefs(url: str, headers: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The links of a body that has none itself: its canonical URL, and where the Refresh header leads."""
    if "link" not in headers and "refresh" not in headers:
        return ()
    led = [found[1] for value in headers.get("refresh", ()) if (found := refresh(value))]
    named = canonical("", url, url, headers)
    return [href for href in dict.fromkeys((*led, named)) if href and href != url] or ()
