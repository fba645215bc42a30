"""Settings with which no request could be made, found before anything is created or started.

`settings.rules` checks what one value shows by itself; this checks what needs this machine's files, or the
modules that make requests.
"""

from typing import TYPE_CHECKING

from skitter.fetch.address import Guard, overrides
from skitter.fetch.request import identity
from skitter.settings import Settings, SettingsError
from skitter.settings.sites import Sites, sites_of

if TYPE_CHECKING:
    from skitter.fetch.access import Access


def check(settings: Settings) -> None:
    """Raise SettingsError, naming the setting, if requests would fail because of our own settings."""
    fetch = settings.fetch
    identity(fetch)
    Guard(fetch.allow_private)
    overrides(fetch.resolve)
    if fetch.ca_file:
        from skitter.fetch.trust import authorities  # noqa: PLC0415  ssl takes 10 ms, and few name a file

        authorities(fetch.ca_file)
    access_of(settings, sites_of(settings))
    if fetch.render != "never" or any("fetch.render" in site.values for site in settings.site):
        from skitter.fetch.browser.finding import browser  # noqa: PLC0415  few crawls render pages

        browser(fetch.browser)


def access_of(settings: Settings, sites: Sites | None) -> "Access | None":
    """What requests carry; None if all carry the crawl's identity and nothing else, and go straight to their host."""
    fetch = settings.fetch
    asked = (
        fetch.headers or fetch.cookies or fetch.keep_cookies or fetch.secrets or fetch.proxy or fetch.identity
    )
    if not asked and not any(dotted.startswith("fetch.") for site in settings.site for dotted in site.values):
        return None
    from skitter.fetch.access import Access  # noqa: PLC0415  most crawls do without

    return Access(settings, sites)


def carried_in_words(settings: Settings, sites: Sites | None, url: str, now: float) -> list[str]:
    """What a request for a URL carries besides the crawl's identity, and which way it goes; never a secret itself."""
    from skitter.fetch.transfer import Target, target  # noqa: PLC0415  only `why` asks

    try:
        access = access_of(settings, sites)
    except SettingsError as problem:
        return [f"what a request to it carries is not known here: {problem}"]
    where = target(url)
    if access is None or not isinstance(where, Target):
        return []
    carried = access.of(url, where, now)
    fetch = (settings if sites is None else sites.of(url)).fetch
    names = [line.partition(":")[0] for line in (*fetch.headers, *carried.hidden)]
    way = carried.way
    return [
        *([f"a request to it carries {', '.join(names)}"] if names else []),
        *(["it shows a client certificate"] if way is not None and way.certificate is not None else []),
        *([f"it goes through {fetch.proxy}"] if fetch.proxy else []),
    ]
