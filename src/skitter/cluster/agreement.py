"""Which settings all workers of a cluster share, and what happens to a worker that was given others.

`cluster init` stores the settings that decide how sites are treated and what is crawled on the engine; they are the
same for all workers. A worker reads them from there. Its own file says where the engines are and what fits its
machine; a shared setting in that file must agree. Pure.
"""

from collections.abc import Mapping

from skitter.fetch.request import user_agent
from skitter.robots import product_token
from skitter.settings import LISTS, FetchSettings, Settings, SettingsError
from skitter.settings.changes import in_words, shown, values
from skitter.settings.file import build, from_toml, to_toml, value_of
from skitter.settings.values import KEYS

# Each worker's own, by section or key: its machine, its connections to the engines, its patience with them.
_OWN = [
    "frontier",
    "metrics",
    "alerts",
    "archive.max_file",
    "crawl.concurrency",
    "crawl.workers",
    "crawl.worker_patience",
    "crawl.min_free_disk",
    "crawl.commit_visits",
    "crawl.sync_interval",
    "crawl.plugins",
    "fetch.max_in_flight",
    "fetch.keep_connections",
    "fetch.resolve",
    "fetch.nameservers",
    "fetch.dns_max_ttl",
    "fetch.dns_negative_ttl",
    "fetch.dns_cache",
    "fetch.ca_file",
    "fetch.cookies",
    "fetch.secrets",
    "fetch.proxy",
    "cluster.size",
    "cluster.name",
    "cluster.lease_ahead",
    "cluster.commit_interval",
    "cluster.breaker_tests",
    "redis",
    "postgres",
    "kafka",
    "s3",
    "search",
]
# … but not these: a worker with other topics or another bucket works for another crawl.
_SHARED = [
    "kafka.links_high",
    "kafka.links_medium",
    "kafka.links_low",
    "kafka.documents",
    "kafka.errors",
    "kafka.dead_letters",
    "s3.bucket",
    "s3.prefix",
    "s3.layout",
]
# Fixed: with other values, links would not find their shard, URLs their record, pages their place.
_FIXED = ("crawl.shards", "urls", *_SHARED)
_AGENT = "fetch.user_agent"


def _among(dotted: str, names: tuple[str, ...] | list[str]) -> bool:
    return dotted in names or dotted.partition(".")[0] in names


def decides(dotted: str) -> bool:
    """Whether a setting is the same for all workers of a crawl."""
    return dotted in _SHARED or not _among(dotted, _OWN)


def shared(settings: Settings) -> str:
    """The shared part of the settings, as TOML."""
    return to_toml({key: value for key, value in values(settings).items() if decides(key)})


def agreed(given: Mapping[str, object], words: str, *, strict: bool = True) -> Settings:
    """The settings of a worker that was `given` some, in a crawl that stores these. `strict`: they must not
    contradict.
    """
    kept = _kept(words)
    if strict and (differing := [key for key in given if decides(key) and not _agree(key, given[key], kept)]):
        raise SettingsError(_refusal(differing, given, kept))
    own = {key: value for key, value in given.items() if not decides(key)}
    if _AGENT in given and _agree(
        _AGENT, given[_AGENT], kept
    ):  # the same product in another version, or with another comment
        own[_AGENT] = given[_AGENT]
    return build({**kept, **own})


def changed(words: str, assignments: Mapping[str, object]) -> tuple[str, list[str]]:
    """The stored settings with some of them changed, and each change in words."""
    kept = _kept(words)
    said = []
    for dotted, given in assignments.items():
        value = value_of("cluster set", dotted, given) if isinstance(given, str) else given
        if not decides(dotted):
            raise SettingsError(
                f"cluster set: {dotted} is each worker's own; write it into their files, or give it to `skitter work`"
            )
        before = _of(dotted, kept)
        if value == before:
            continue
        if _among(dotted, _FIXED):
            raise SettingsError(f"cluster set: {dotted} is fixed when a crawl is made; start another crawl")
        said.append(in_words(dotted, value, before))
        kept[dotted] = value
    build(kept)
    return to_toml(kept), said


def unusual(settings: Settings) -> dict[str, str]:
    """Shared settings that differ from their defaults, as written in a file."""
    return {
        key: shown(key, value)
        for key, value in values(settings).items()
        if decides(key) and value != _of(key, {})
    }


def _kept(words: str) -> dict[str, object]:
    try:
        return from_toml(words)
    except SettingsError as problem:
        raise SettingsError(f"the settings of the crawl: {problem}; they are of another Skitter") from None


def _agree(dotted: str, value: object, kept: Mapping[str, object]) -> bool:
    if dotted != _AGENT:
        return value == _of(dotted, kept)
    agents = [user_agent(FetchSettings(user_agent=str(each))) for each in (value, _of(dotted, kept))]
    return product_token(agents[0]) == product_token(agents[1])


def _refusal(differing: list[str], given: Mapping[str, object], kept: Mapping[str, object]) -> str:
    each = [
        f"{key} is {shown(key, given[key])} here and {shown(key, _of(key, kept))} in the crawl"
        for key in differing
    ]
    fix = "leave it out" if len(each) == 1 else "leave them out"
    return f"{', '.join(each)}; {fix}, or change it for all workers with `skitter cluster set`"


def _of(dotted: str, kept: Mapping[str, object]) -> object:
    return kept.get(dotted, () if dotted in LISTS else KEYS[dotted].default)
