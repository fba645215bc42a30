"""Learns which query parameters of a host change nothing: session ids, tracking, view modes, and what nobody could list.

URLs that differ in one parameter alone are a group. If the pages of enough groups are the same, the parameter is
needless here: a URL with it repeats the one without it, and is not fetched. About one in a hundred is fetched all the
same; if its page differs, the rule was wrong, and what it kept out comes back.

Two pages are the same if their payloads are, or nearly their texts, or their words in another order. That alone says little on a host that answers
everything alike: pages that unrelated URLs have too, and texts as near to those of unrelated URLs, are no evidence.

A parameter with few values is only dropped with values that were compared: `start=0` may change nothing although
`start=10` does. Names that were learned wrong are never learned again, and a host that was wrong three times teaches
nothing more about parameters: whoever makes us believe and doubt by turns gets no more than that.
"""

from collections.abc import Iterator
from itertools import islice
from math import sqrt

from msgspec import Struct, field

OPEN, NEEDLESS, WRONG = range(3)

FEWEST = 20  # groups, before a parameter is judged
BOUND = 0.95  # of the share of groups whose pages are the same: its lower bound must reach this
# How many standard deviations below the observed share that bound lies (Wilson 1927). Values that are all different,
# like those of session ids, name nothing that a page could be about: 20 groups without exception are enough for
# them. Other values need 32.
_SURE, _TOKENS = 1.28, 1.0
NEAR = 3  # bits in which the SimHashes of two copies may differ
_NEAR_TOKENS = 5  # the same for values that look like session ids: such pages often print a time, or the id
SKETCH, _SHARED = (
    16,
    15,
)  # hashes of words; and how many of them two copies have in common, as for sort orders
_UNRELATED = 8  # more than that in common with unrelated pages says that this host has few words
_UNSURE = 16  # bits: without both sketches, pages that are nearer may have the same words in another order
_FAR_APART = 4  # texts are copies if unrelated ones are so many times further apart
_RETESTED = 100  # one in so many is fetched all the same
_FAILED = 2  # retests, and more than one in twenty of them
_MOST_WRONG = 3  # rules of a host that were wrong

_NAMES = 64  # parameters of a host that are counted
_LONGEST = 64  # characters of a name that is
_IN_QUERY = 8  # parameters of a URL that are looked at
_VALUES = 12  # of a parameter, that are remembered
_VALUE = 24  # characters of them


class Parameter(Struct, array_like=True, gc=False):
    """A parameter of a host."""

    equal: int = 0  # groups whose pages are the same
    different: int = 0
    values: list[str] = field(default_factory=list)  # compared, without repetition; the first few
    others: int = 0  # comparisons with other values than these
    state: int = OPEN
    retested: int = 0
    failed: int = 0  # of these

    @property
    def groups(self) -> int:
        """How many were judged."""
        return self.equal + self.different

    @property
    def any_value(self) -> bool:
        """Whether what was learned holds for values that were never compared: there were many."""
        return len(self.values) >= _VALUES and self.others >= self.groups // 4

    def covers(self, values: list[str]) -> bool:
        """Whether a URL without the parameter shows the same as one with these values."""
        return self.state == NEEDLESS and (
            self.any_value or all(value[:_VALUE] in self.values for value in values)
        )


class Content(Struct, frozen=True, gc=False):
    """What is compared of a page. Pages from a store have no sketch of their words."""

    digest: str
    simhash: int | None
    sketch: bytes = b""  # `SKETCH` hashes of its words, 8 bytes each: the same in whatever order


class _Sample(Struct, gc=False):
    """The last page of a group, by one of its parameters; and what the group is counted as."""

    value: str
    content: Content
    counted: int = 0  # 1: the same, -1: different


class Samples:
    """Pages to compare with, of all hosts of a shard: the latest ones, in memory alone. What is forgotten costs some
    evidence, no decision.
    """

    def __init__(self, groups: int = 16_384, hosts: int = 1_024) -> None:
        # By the URL without one of its parameters, then by the name of that; "" is the page without any.
        self.groups: dict[str, dict[str, _Sample]] = {}
        self._most = groups
        self._payloads: dict[tuple[str, str], str] = {}  # by host and digest: the URL that had it first
        self._unrelated: dict[
            str, list[tuple[str, Content]]
        ] = {}  # the latest pages of a host, all different
        self._most_hosts = hosts

    def knows(self, key: str) -> bool:
        """Whether the page of a URL was fetched, perhaps under another one."""
        return "" in self.groups.get(key, ())

    def keep(self, group: str, name: str, sample: _Sample) -> None:
        """Remember a page."""
        if len(self.groups) >= self._most and group not in self.groups:
            _forget_half(self.groups)
        self.groups.setdefault(group, {})[name] = sample

    def note(self, host: str, key: str, content: Content) -> None:
        """A page of a host, for later comparisons with unrelated ones."""
        if len(self._payloads) >= self._most:
            _forget_half(self._payloads)
        self._payloads.setdefault((host, content.digest), key)
        if len(self._unrelated) >= self._most_hosts and host not in self._unrelated:
            _forget_half(self._unrelated)
        latest = self._unrelated.setdefault(host, [])
        if all(content.digest != other.digest for _, other in latest):
            latest.append((key, content))
            del latest[:-4]

    def is_common(self, host: str, content: Content, name: str, group: str) -> bool:
        """Whether a URL that has nothing to do with the group had the same page."""
        first = self._payloads.get((host, content.digest))
        return first is not None and without(first, name)[0] != group

    def unrelated(self, host: str, name: str, group: str) -> list[Content]:
        """Pages of URLs that have nothing to do with a group."""
        return [other for key, other in self._unrelated.get(host, ()) if without(key, name)[0] != group]


def _forget_half(
    of: "dict[str, dict[str, _Sample]] | dict[tuple[str, str], str] | dict[str, list[tuple[str, Content]]]",
) -> None:
    for key in list(islice(of, len(of) // 2)):
        del of[key]  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ keys


def without(key: str, name: str) -> tuple[str, list[str]]:
    """A key without a parameter, and the values that it had there."""
    path, _, query = key.partition("?")
    kept, values = [], []
    for pair in query.split("&"):
        own, _, value = pair.partition("=")
        if own == name:
            values.append(value)
        else:
            kept.append(pair)
    return (f"{path}?{'&'.join(kept)}" if kept and kept != [""] else path), values


def names(key: str) -> list[str]:
    """The parameters of a key that are looked at, each once."""
    query = key.partition("?")[2]
    found = dict.fromkeys(pair.partition("=")[0] for pair in islice(query.split("&"), _IN_QUERY) if pair)
    return [name for name in found if len(name) <= _LONGEST]


def reduced(key: str, parameters: dict[str, Parameter]) -> tuple[str, list[str]]:
    """A key without its needless parameters, and which those are."""
    dropped = []
    for name in names(key):
        parameter = parameters.get(name)
        if parameter is None or parameter.state != NEEDLESS:
            continue
        shorter, values = without(key, name)
        if parameter.covers(values):
            key = shorter
            dropped.append(name)
    return key, dropped


def is_retest(id16: bytes) -> bool:
    """Whether a URL with needless parameters is fetched all the same."""
    return int.from_bytes(id16[-4:], "big") % _RETESTED == 0


# ------------------------------------------------------------------------------------------------ evidence


def siblings(key: str, parameters: dict[str, Parameter]) -> Iterator[str]:
    """The keys of the pages that a page is compared with, if they are stored."""
    shorter, dropped = reduced(key, parameters)
    if dropped:
        yield shorter
    for name in names(shorter):
        yield without(shorter, name)[0]


class Lesson(Struct, frozen=True):
    """What a page has taught: parameters found needless, and those that turned out not to be."""

    learned: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()


NOTHING = Lesson()


class Lessons:
    """What is known of the parameters of one host, and how a page adds to it."""

    def __init__(self, host: str, parameters: dict[str, Parameter], wrong: int, samples: Samples) -> None:
        self._host, self._parameters, self.wrong, self._samples = host, parameters, wrong, samples

    def learn(self, key: str, content: Content, stored: dict[str, Content]) -> Lesson:
        """Learn from a page. `stored` has the contents of its `siblings` that the crawl has."""
        if self.wrong >= _MOST_WRONG:
            return NOTHING
        shorter, dropped = reduced(key, self._parameters)
        undone = self._retest(shorter, dropped, content, stored) if dropped else ()
        learned = [name for name in names(shorter) if self._compare(shorter, name, content, stored)]
        learned += self._compare_with_longer(shorter, content)
        self._samples.note(self._host, shorter, content)
        if "?" in key or shorter in self._samples.groups:
            self._samples.keep(shorter, "", _Sample("", content))
        return Lesson(tuple(learned), tuple(undone)) if learned or undone else NOTHING

    def _retest(
        self, shorter: str, dropped: list[str], content: Content, stored: dict[str, Content]
    ) -> list[str]:
        """A page that would have been left out: is it what the rule says?"""
        known = self._sampled(shorter) or stored.get(shorter)
        if known is None or known is content:
            return []
        found = _compared(known, content, _NEAR_TOKENS, by_words=True)
        if not found:
            return []
        undone = []
        for name in dropped:
            parameter = self._parameters[name]
            parameter.retested += 1
            parameter.failed += found < 0
            if parameter.failed >= _FAILED and 20 * parameter.failed > parameter.retested:
                undone.append(name)
        return self._undo(undone)

    def _undo(self, found: list[str]) -> list[str]:
        self.wrong += len(found)
        if self.wrong >= _MOST_WRONG:
            found = [name for name, parameter in self._parameters.items() if parameter.state == NEEDLESS]
        for name in found:
            self._parameters[name].state = WRONG
        return found

    def _sampled(self, key: str) -> Content | None:
        sample = self._samples.groups.get(key, {}).get("")
        return None if sample is None else sample.content

    def _compare(self, key: str, name: str, content: Content, stored: dict[str, Content]) -> bool:
        """Compare a page with others of its group; whether the parameter is needless from now on."""
        group, values = without(key, name)
        value = "&".join(values)[:_VALUE]
        before = self._samples.groups.get(group, {}).get(name)
        plain = self._sampled(group) or stored.get(group)
        others = [plain] if plain is not None else []
        if before is not None and before.value != value:
            others.append(before.content)
        sample = _Sample(value, content, 0 if before is None else before.counted)
        self._samples.keep(group, name, sample)
        return bool(others) and self._judge(name, group, sample, others)

    def _compare_with_longer(self, key: str, content: Content) -> list[str]:
        """A page may be what longer URLs were fetched for before."""
        found = list(self._samples.groups.get(key, {}).items())
        return [name for name, sample in found if name and self._judge(name, key, sample, [content])]

    def _judge(self, name: str, group: str, sample: _Sample, others: list[Content]) -> bool:
        parameter = self._counted(name)
        if parameter is None or parameter.state != OPEN:
            return False
        counted = self._verdict(name, group, sample.content, others)
        if not counted or sample.counted in (-1, counted):
            return False
        parameter.equal += (counted == 1) - (sample.counted == 1)
        parameter.different += counted == -1
        sample.counted = counted
        if sample.value in parameter.values:
            pass
        elif len(parameter.values) < _VALUES:
            parameter.values.append(sample.value)
        else:
            parameter.others += 1
        if not is_needless(parameter):
            return False
        parameter.state = NEEDLESS
        return True

    def _verdict(self, name: str, group: str, content: Content, others: list[Content]) -> int:
        """1: the pages of a group are the same, -1: they are not, 0: this says nothing."""
        host, samples = self._host, self._samples
        if all(other.digest == content.digest for other in others):
            return 0 if samples.is_common(host, content, name, group) else 1
        if any(samples.is_common(host, each, name, group) for each in (content, *others)):
            return 0
        unrelated = samples.unrelated(host, name, group)
        apart = min((_apart(content, each) for each in unrelated), default=None)
        if apart is None:
            return 0
        most = _NEAR_TOKENS if _looks_like_tokens(self._parameters[name]) else NEAR
        by_words = all(_shared(content, each) <= _UNRELATED for each in unrelated)
        found = {
            _compared(each, content, min(most, apart // _FAR_APART), by_words=by_words) for each in others
        }
        return -1 if -1 in found else max(found)

    def _counted(self, name: str) -> Parameter | None:
        """The counts of a parameter. If there are too many, the one with the least evidence makes room."""
        parameter = self._parameters.get(name)
        if parameter is None:
            if len(self._parameters) >= _NAMES:
                open_ones = [
                    (each.groups, other) for other, each in self._parameters.items() if each.state == OPEN
                ]
                if not open_ones:
                    return None
                del self._parameters[min(open_ones)[1]]
            parameter = self._parameters[name] = Parameter()
        return parameter


def _apart(one: Content, other: Content) -> int:
    """The bits in which two texts differ; all, if one of them is too short to tell."""
    if one.simhash is None or other.simhash is None:
        return 64
    return (one.simhash ^ other.simhash).bit_count()


def _shared(one: Content, other: Content) -> int:
    """How many hashes two sketches have in common."""
    sketches = [{each.sketch[at : at + 8] for at in range(0, len(each.sketch), 8)} for each in (one, other)]
    return len(sketches[0] & sketches[1])


def _compared(one: Content, other: Content, most: int, *, by_words: bool) -> int:
    """1: two pages are the same, -1: they are not, 0: not known."""
    apart = _apart(one, other)
    if one.digest == other.digest or apart <= most:
        return 1
    if one.sketch and other.sketch:
        return 1 if by_words and _shared(one, other) >= _SHARED else -1
    return 0 if by_words and apart <= _UNSURE else -1


def _looks_like_tokens(parameter: Parameter) -> bool:
    """Whether its values are long, and hardly ever repeated."""
    return bool(parameter.values) and all(len(value) >= 8 and value.isalnum() for value in parameter.values)


def is_needless(parameter: Parameter) -> bool:
    """Whether there is enough evidence that a parameter changes nothing."""
    if parameter.groups < FEWEST:
        return False
    tokens = _looks_like_tokens(parameter) and parameter.any_value
    return lower_bound(parameter.equal, parameter.groups, _TOKENS if tokens else _SURE) >= BOUND


def lower_bound(hits: int, of: int, deviations: float) -> float:
    """The lower bound of a share, of which `hits` of so many were observed (Wilson 1927)."""
    share, z2 = hits / of, deviations * deviations
    spread = deviations * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return (share + z2 / (2 * of) - spread) / (1 + z2 / of)


# ------------------------------------------------------------------------------------------------ words


def said(name: str, parameter: Parameter) -> str:
    """What is known of a parameter, with the counts."""
    counts = f"{parameter.equal} of {parameter.groups} groups of URLs that differ in it alone had one content"
    if parameter.state == NEEDLESS:
        values = "" if parameter.any_value else f" as {', '.join(parameter.values)}"
        return f"the parameter {name}{values} changes nothing here: {counts}{_retests(parameter)}"
    if parameter.state == WRONG:
        return f"the parameter {name} was thought to change nothing, and does: {counts}{_retests(parameter)}"
    return f"the parameter {name}: {counts}"


def _retests(parameter: Parameter) -> str:
    if not parameter.retested:
        return ""
    return f"; of {parameter.retested} fetched to make sure, {parameter.failed} differed"
