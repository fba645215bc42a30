"""Settings that no request could be made with, found before anything is made or started.

What one value shows by itself is judged when the settings are read (`settings.rules`); here is what needs this machine's files,
or the modules that make requests.
"""

from skitter.fetch.address import Guard, overrides
from skitter.fetch.request import identity
from skitter.settings import FetchSettings


def check(settings: FetchSettings) -> None:
    """Raise SettingsError, with the name of the setting, where requests would fail for a reason of our own."""
    identity(settings)
    Guard(settings.allow_private)
    overrides(settings.resolve)
    if settings.ca_file:
        from skitter.fetch.trust import authorities  # noqa: PLC0415  ssl takes 10 ms, and few name a file

        authorities(settings.ca_file)
