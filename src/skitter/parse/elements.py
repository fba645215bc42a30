"""XML read as a stream of elements: bytes in, calls out, with memory that does not grow with the file.

Nothing is expanded or fetched: a declaration of an entity ends the reading, an external DTD or XInclude is ignored.
Nesting and the length of one tag have limits; the size of the whole is limited by whoever feeds it.
"""

from collections.abc import Callable, Iterable
from xml.parsers import expat

_DEEPEST = 500  # nested elements; text in nested tables has 60
_LONGEST_TAG = 2**20  # bytes that expat holds until a tag is complete
_PIECE = 2**16

Start = Callable[[str, dict[str, str]], None]
End = Callable[[str], None]


class Stop(Exception):  # noqa: N818  it is no error
    """Raised by a caller's function to end the reading, with the reason or nothing."""


def read(pieces: Iterable[bytes], start: Start, end: End, text: Callable[[str], None]) -> str:
    """Call these for every tag, without the prefix of its name, and every text; returns why reading ended early, if it did."""
    parser, depth = expat.ParserCreate(), 0

    def opened(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise Stop(f"its elements are nested more than {_DEEPEST} deep")
        start(name.rpartition(":")[2], attributes)

    def closed(name: str) -> None:
        nonlocal depth
        depth -= 1
        end(name.rpartition(":")[2])

    parser.buffer_text = True
    # Names of entities that are declared nowhere (&nbsp;) are skipped instead of ending the file.
    parser.UseForeignDTD(True)  # noqa: FBT003
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler, parser.EndElementHandler = opened, closed
    parser.CharacterDataHandler, parser.EntityDeclHandler = text, _refuse
    return _fed(parser, pieces)


def cut(content: bytes) -> Iterable[bytes]:
    """A document in pieces."""
    return (content[at : at + _PIECE] for at in range(0, len(content), _PIECE))


def _fed(parser: expat.XMLParserType, pieces: Iterable[bytes]) -> str:
    fed = 0
    try:
        for piece in pieces:
            parser.Parse(piece, False)  # noqa: FBT003
            fed += len(piece)
            # Expat before 2.6 reads an incomplete tag again with each piece.
            if fed - max(parser.CurrentByteIndex, 0) > _LONGEST_TAG:
                return "a tag is longer than any can be"
        parser.Parse(b"", True)  # noqa: FBT003
    except expat.ExpatError as error:
        return f"the XML is damaged: {error}"
    except Stop as stop:
        return str(stop)
    except (ValueError, LookupError) as error:  # an encoding that Python does not know
        return f"the XML cannot be read: {error}"
    return ""


def _refuse(*_declaration: object) -> None:
    raise Stop("it declares entities, which are not expanded")
