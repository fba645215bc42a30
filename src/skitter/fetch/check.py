"""Settings with which no request could be made, found before anything is created or started.

`settings.rules` checks what one value shows by itself; this checks what needs this machine's files, or the
modules that make requests.
"""

from skitter.fetch.address import Guard, overrides
from skitter.fetch.request import identity
from skitter.settings import FetchSettings


def check(settings: FetchSettings) -> None:
    """Raise SettingsError, naming the setting, if requests would fail because of our own settings."""
    identity(settings)
    Guard(settings.allow_private)
    overrides(settings.resolve)
    if settings.ca_file:
        from skitter.fetch.trust import authorities  # noqa: PLC0415  ssl takes 10 ms, and few name a file

        authorities(settings.ca_file)
