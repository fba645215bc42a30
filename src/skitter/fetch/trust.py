"""Which certificate authorities are trusted."""

import ssl
from functools import lru_cache

from skitter.settings import SettingsError


@lru_cache(maxsize=8)
def authorities(ca_file: str) -> str:
    """The file of certificate authorities to trust; SSL_CERT_FILE names the system's. Empty: libcurl's own choice."""
    if not ca_file:
        return ssl.get_default_verify_paths().cafile or ""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca_file)
    except OSError as problem:  # an SSLError is one, too
        raise SettingsError(
            f"fetch.ca_file: {ca_file!r} has no certificates ({problem.strerror}); name a PEM file"
        ) from None
    return ca_file
