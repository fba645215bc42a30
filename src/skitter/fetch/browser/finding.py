"""Which browser there is on this machine, and what keeps it from the network."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from skitter.settings import SettingsError

# The headless shell first: a page takes less than half of the time and the memory of a full browser.
PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "headless_shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
INSTALL = "install Chromium (Debian: apt-get install chromium-headless-shell bubblewrap), or name it with fetch.browser"
_PATIENCE = 20.0  # seconds to say its version, or to make an empty namespace


def browser(named: str = "") -> str:
    """The path of the program; SettingsError, which says what to do, if there is none."""
    if named:
        found = shutil.which(named)
        if found is None:
            raise SettingsError(f"fetch.browser: {named!r} is no program that can be run; {INSTALL}")
        return found
    for name in PROGRAMS:
        if (found := shutil.which(name)) is not None:
            return found
    raise SettingsError(f"fetch.render needs a browser, and none was found; {INSTALL}")


def version(program: str) -> str:
    """What a program says its version is; empty if it says nothing."""
    try:
        said = subprocess.run(  # noqa: S603  the program that the settings name
            [program, "--version"], capture_output=True, timeout=_PATIENCE, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = said.stdout.strip().splitlines()
    return lines[-1].strip()[:100] if lines else ""


@cache
def bubblewrap() -> str:
    """The path of bwrap, if it can make a process without a network here; empty if not."""
    found = shutil.which("bwrap")
    if found is None:
        return ""
    command = [*walls(found), "true"]
    try:
        tried = subprocess.run(command, capture_output=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found if tried.returncode == 0 else ""


def walls(bwrap: str, program: str = "") -> list[str]:
    """The command that shuts a program in: no network, no other processes, no files of ours, an empty /tmp.

    It runs under a user id of its own, so that the browser's own sandbox works even if we are root.
    """
    command = [bwrap, "--unshare-user", "--uid", "1000", "--gid", "1000", "--unshare-net", "--unshare-pid"]
    command += [
        "--unshare-ipc",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    for folder in ("/home", "/root", "/run", "/mnt", "/media", "/srv", "/tmp"):  # noqa: S108  hidden, not used
        if Path(folder).is_dir():
            command += ["--tmpfs", folder]
    if program:
        home = str(Path(os.path.realpath(program)).parent)
        if home.startswith(("/home/", "/root/", "/tmp/", "/mnt/", "/media/", "/srv/")):  # noqa: S108
            command += ["--ro-bind", home, home]
            command += ["--ro-bind", program, program] if not program.startswith(f"{home}/") else []
    return [*command, "--chdir", "/", "--"]
