"""Encodings: the cases of html5lib, web-platform-tests, html-encoding-sniffer and w3lib."""

import base64
import codecs
from typing import Any

from skitter.parse import charset, sniff
from tests.conformance.cases import needs_cases, rows

# The standard's prescan knows no raw text and believes a declaration inside a script or a style sheet; so do these
# cases. Browsers tokenize, and so do web-platform-tests in-script, in-style and in-title (rows 121, 122, 127), which say
# the opposite of the same markup. We side with the browsers; no algorithm passes both.
PRESCAN_INTO_SCRIPTS = {54, 55, 56}

UTF_32 = "UTF-32 is no encoding of the web (Encoding Standard, 4.2)"
LITTLE_ENDIAN = "utf-16 means little-endian (Encoding Standard, 4.2)"
BAD_QUOTES = (
    "MIME Sniffing Standard 4.5 closes an open quote at the end and ignores what follows a closing one"
)
NO_TAG = "'< meta' is text, not a tag"
FIRST_KILOBYTE = "the first 1024 bytes are searched wherever the body begins"
OTHER_PRAGMA = "only http-equiv=content-type declares an encoding"
NO_LABEL = "not a label of the Encoding Standard"
NO_DECLARATION = "without a declaration ASCII is called windows-1252, as browsers do"
W3LIB = {
    **dict.fromkeys(
        (2, 3, 212, 213, 214, 215, 216, 217, 218, 219, 220, 221, 222, 223, 230, 231, 232, 233), UTF_32
    ),
    **dict.fromkeys((225, 226, 228), LITTLE_ENDIAN),
    **dict.fromkeys((20, 30, 31), BAD_QUOTES),
    **dict.fromkeys((64, 94, 237), NO_TAG),
    **dict.fromkeys((72, 101), FIRST_KILOBYTE),
    **dict.fromkeys((74, 76, 103), OTHER_PRAGMA),
    105: NO_LABEL,
    **dict.fromkeys((258, 263, 273), NO_DECLARATION),
}


@needs_cases
def test_a_document_is_read_in_the_encoding_that_browsers_take():
    cases = rows("html_encoding.jsonl")
    wrong = set()
    for number, row in enumerate(cases):
        http = charset.named(row.get("http_charset", ""))
        got = charset.of_html(base64.b64decode(row["body_b64"]), http, default="windows-1252")
        if got != row["expected_encoding"].lower():
            wrong.add(number)
    assert wrong == PRESCAN_INTO_SCRIPTS
    assert len(cases) == 139


def plain(value: Any) -> Any:
    """Bytes out of their JSON dress."""
    return value["__bytes_latin1__"].encode("latin-1") if isinstance(value, dict) else value


def codec(name: str | None) -> str:
    """Python's own name of a codec, so that w3lib's names and ours compare."""
    return codecs.lookup(charset.codec(name)).name if name else ""


BY_CODEC = {codec(name): name for name in charset.SINGLE_BYTE | charset.MULTI_BYTE}


def answer(function: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    """What we say where w3lib's function says its result."""
    first = arguments[0]
    if function == "read_bom":
        name, length = charset.mark(first)
        return [codec(name), first[:length]]
    if function == "resolve_encoding":
        return codec(charset.named(first))
    if function == "http_content_type_encoding":
        return codec(sniff.content_type(first or "")[1])
    if function == "html_body_declared_encoding":
        return codec(charset.declared(first if isinstance(first, bytes) else first.encode()))
    if function == "to_unicode":
        name = BY_CODEC.get(codec(arguments[1])) or charset.named(arguments[1])
        return charset.decode(first, name) if name else None
    assert function == "html_to_unicode"
    http = charset.usable(sniff.content_type(first or "")[1])
    name = charset.of_html(arguments[1], http, options.get("default_encoding"))
    return [codec(name), charset.decode(arguments[1], name)]


def expected(function: str, result: Any) -> Any:
    if function == "to_unicode":
        return result
    if isinstance(result, list):
        return [codec(result[0]), plain(result[1]) or b"" if function == "read_bom" else result[1]]
    return codec(result)


@needs_cases
def test_labels_marks_and_declarations_match_w3lib():
    cases = rows("encoding_w3lib.jsonl")
    wrong = {
        number
        for number, row in enumerate(cases)
        if answer(row["fn"], [plain(value) for value in row["args"]], row["kwargs"])
        != expected(row["fn"], row["result"])
    }
    assert wrong == set(W3LIB)
    assert len(cases) == 274
