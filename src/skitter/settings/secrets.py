"""Passwords and keys: from the environment or from a file, never from the command line."""

import os
from collections.abc import Mapping
from pathlib import Path

from skitter.settings.engines import SECRETS
from skitter.settings.units import SettingsError


def secret(setting: str, file: str, environ: Mapping[str, str] = os.environ) -> str:
    """The secret of a setting such as redis.password_file; empty if there is none.

    The file wins over the variable. Its last line break is not part of the secret.
    """
    if not file:
        return environ.get(SECRETS[setting], "")
    try:
        return Path(file).read_text("utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not text"
        raise SettingsError(
            f"{setting}: {file}: {reason}; name a readable file, or set {SECRETS[setting]}"
        ) from None
