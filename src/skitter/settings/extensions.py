"""Links to which files are not followed: extensions, by what the installed parsers can read. Pure but for `extras`."""
# ruff: noqa: SIM905  word lists are easier to read unsplit

from collections.abc import Iterable

from skitter.runtime.extras import is_there

AUTO = "auto"
"""In `scope.skip_extensions`: all files that no installed parser reads."""

_FILES = (
    "7z apk avi bin bmp bz2 css csv deb dmg doc docx eot epub exe flac flv gif gz ico img iso jar jpeg jpg js "
    "m4a m4v mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx ps rar rpm svg tar tgz tif "
    "tiff ttf wasm wav webm webp wmv woff woff2 xls xlsx xz zip zst"
).split()
READ_BY: dict[str, str] = {
    "pdf": "pdf",
    **dict.fromkeys("bmp gif ico jpeg jpg png tif tiff webp".split(), "images"),
    **dict.fromkeys("csv docx epub odp ods odt pptx xlsx".split(), ""),
}
"""The extensions among them that a parser reads, each with the extra that the parser needs, if it needs one."""


def skipped(words: Iterable[str]) -> dict[str, str]:
    """The extensions that are not followed, each with the extra that would read it, or nothing."""
    found: dict[str, str] = {}
    for word in words:
        if word == AUTO:
            found |= {each: READ_BY.get(each, "") for each in _FILES if not _is_read(each)}
        else:
            found[word.lower().lstrip(".")] = ""
    return found


def _is_read(extension: str) -> bool:
    extra = READ_BY.get(extension)
    return extra is not None and is_there(extra)


def readers(words: Iterable[str]) -> str:
    """What `auto` depends on: the extras that read files and are installed; empty if it is not among the words."""
    extras = sorted(extra for extra in set(READ_BY.values()) if extra and is_there(extra))
    return " ".join((AUTO, *extras)) if AUTO in words else ""
