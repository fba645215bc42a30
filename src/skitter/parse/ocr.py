"""Text in images, read by the program tesseract."""

import os
import shutil
import subprocess
import time

from skitter.parse.findings import folded
from skitter.parse.making import short
from skitter.runtime.extras import is_there
from skitter.settings import ParseSettings, SettingsError

_SHARE = 0.7  # of the deadline
_PATIENCE = 10.0  # seconds for a list of languages


def require(settings: ParseSettings) -> None:
    """Raise SettingsError if images cannot be read here in the languages that the settings name."""
    if not is_there("images"):
        from skitter.runtime.installing import install_line  # noqa: PLC0415  rarely needed

        raise SettingsError(
            f"parse.ocr needs a library that is not installed; install it with: {install_line('images')}"
        )
    program = shutil.which("tesseract")
    if program is None:
        raise SettingsError(
            "parse.ocr needs the program tesseract, which is not installed; install it (Debian: apt-get install tesseract-ocr)"
        )
    there = _languages(program)
    for name in settings.ocr.split("+"):
        if there and name not in there:
            raise SettingsError(
                f"parse.ocr: tesseract has no data for {name!r} here, only for {', '.join(sorted(there))}; install it "
                f"(Debian: apt-get install tesseract-ocr-{name.replace('_', '-')})"
            )


def _languages(program: str) -> set[str]:
    """Those that are installed; none if it does not say."""
    try:
        said = subprocess.run(  # noqa: S603  no word of it is a user's
            [program, "--list-langs"], capture_output=True, timeout=_PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return set()
    return set(said.stdout.decode("utf-8", "replace").split("\n")[1:]) - {""}


def text_in(content: bytes, settings: ParseSettings) -> tuple[str, str]:
    """The text that tesseract sees in an image, and in which languages it looked, or why it did not."""
    program = shutil.which("tesseract")
    if program is None:
        return "", "not read: the program tesseract is not installed"
    began = time.monotonic()
    try:
        done = subprocess.run(  # noqa: S603  the languages are checked by a rule, and no shell is involved
            [program, "-", "-", "-l", settings.ocr],
            input=content,
            capture_output=True,
            timeout=settings.deadline * _SHARE,
            env=os.environ | {"OMP_THREAD_LIMIT": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"not read: tesseract took longer than {time.monotonic() - began:.0f} s"
    if done.returncode:
        return "", f"not read: {short(done.stderr.decode('utf-8', 'replace')) or 'tesseract failed'}"
    return folded(done.stdout.decode("utf-8", "replace"))[: settings.max_text], settings.ocr
