"""What differs between two sets of settings, in words, and what a running crawl cannot take over. Pure."""

from collections.abc import Iterator

from skitter.settings import LISTS, Seconds, Settings, SettingsError
from skitter.settings.overlays import described
from skitter.settings.values import KEYS, optional, show

# By section or key. Fixed when a crawl is made: how URLs are told apart and spread over shards.
_FOR_GOOD = ("urls", "crawl.shards")
# Fixed while it runs: its processes, and its engines.
_FIXED = ("crawl.workers", "metrics", "alerts", "cluster", "redis", "postgres", "kafka", "s3")


def values(settings: Settings) -> dict[str, object]:
    """Every setting by its dotted key; overlays and groups by their names, if there are any."""
    own = {dotted: getattr(getattr(settings, key.section), key.name) for dotted, key in KEYS.items()}
    return own | {name: getattr(settings, name) for name in LISTS if getattr(settings, name)}


def shown(dotted: str, value: object) -> str:
    """A value as a person writes it."""
    if value is None:
        return "not set"
    if dotted in LISTS:
        return described(dotted, value)
    kind, _ = optional(KEYS[dotted].kind)
    return f"{value:g}s" if kind is Seconds else show(kind, value)


def in_words(dotted: str, new: object, old: object) -> str:
    """One change."""
    return f"{dotted} = {shown(dotted, new)}, was {shown(dotted, old)}"


def differences(old: Settings, new: Settings) -> list[str]:
    """Each difference in words. SettingsError if a running crawl cannot take it over."""
    return list(_differences(values(old), values(new)))


def _differences(before: dict[str, object], after: dict[str, object]) -> Iterator[str]:
    for dotted in (*KEYS, *LISTS):
        old, new = before.get(dotted, ()), after.get(dotted, ())
        if old == new:
            continue
        if dotted == "crawl.shards" and not new:  # a file that leaves it open: the crawl keeps what it has
            continue
        words = in_words(dotted, new, old)
        if dotted in _FOR_GOOD or dotted.partition(".")[0] in _FOR_GOOD:
            raise SettingsError(f"{words}: this is fixed when a crawl is made; start another crawl with -o")
        if dotted in _FIXED or dotted.partition(".")[0] in _FIXED:
            raise SettingsError(
                f"{words}: this cannot change while the crawl runs; stop it, and resume it with the new value"
            )
        yield words
