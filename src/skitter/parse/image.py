"""Images: size, format, frames, and what EXIF says, without decoding a pixel. If settings ask for it, the text in them.

Positions in EXIF are personal data, and left out unless settings ask for them. Text is read by the program `tesseract`, as a
process with a deadline of its own; an image with very many pixels is not given to it.
"""

import io
import re
import warnings
from collections.abc import Mapping
from typing import Any

from PIL import ExifTags, Image

from skitter.model import Document
from skitter.parse import ocr
from skitter.parse.making import known, made, short
from skitter.parse.sniff import Body
from skitter.settings import ParseSettings

# Others would start programs (EPS), or are not on the web.
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "AVIF", "TIFF", "BMP", "ICO")
_ANIMATED = frozenset(("PNG", "GIF", "WEBP", "AVIF"))
_EXIF = {
    "Make": "make",
    "Model": "model",
    "Software": "software",
    "DateTime": "modified",
    "DateTimeOriginal": "taken",
    "Orientation": "orientation",
    "Artist": "artist",
    "Copyright": "copyright",
    "ImageDescription": "description",
}
_READABLE = frozenset(("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP"))  # by tesseract
_MOST_PIXELS = 40_000_000  # given to tesseract, which takes four bytes and a microsecond for each
_FEWEST_PIXELS = 32 * 32  # an icon has no text
_PIXELS = re.compile(r"\((\d+) pixels\)")


def parse(body: Body, settings: ParseSettings) -> Document:
    """Describe an image, and read its text if settings ask for that."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(body.content), formats=_FORMATS) as image:
                details, told = _details(image, settings)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as bomb:
        pixels = _PIXELS.search(str(bomb))
        number = int(pixels[1]) if pixels else None
        ignored = "the image has more pixels than can be handled"
        return made(body, settings, ignored=ignored, media=known({"pixels": number, "too_large": True}))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  a damaged image raises anything
        ignored = "the image is damaged, or of a kind that cannot be read"
        return made(body, settings, ignored=ignored, media={"damaged": True})
    text, details["ocr"] = _text(body.content, details, settings) if settings.ocr else ("", None)
    return made(
        body,
        settings,
        title=told.get("title", ""),
        author=told.get("artist", ""),
        description=told.get("description", ""),
        text=text,
        media=known(details),
    )


def _details(image: Image.Image, settings: ParseSettings) -> tuple[dict[str, Any], dict[str, str]]:
    """What is known of an image, and what it says about itself in words."""
    exif = _exif(image)
    words = {name: exif.pop(name, "") for name in ("artist", "description")}
    for field, name in (("Title", "title"), ("Author", "artist"), ("Description", "description")):
        said = image.info.get(field)  # of a PNG
        words[name] = words.get(name) or (short(str(said)) if said else "")
    details: dict[str, Any] = {
        "format": (image.format or "").lower(),
        "width": image.width,
        "height": image.height,
        "mode": image.mode,
        "frames": _frames(image),
        "exif": exif,
    }
    if settings.exif_location:
        details["location"] = _location(image)
    return details, words


def _frames(image: Image.Image) -> int | None:
    """The number of pictures in an animation; None if it is none."""
    count = getattr(image, "n_frames", 1) if image.format in _ANIMATED else 1
    return count if count > 1 else None


def _raw_exif(image: Image.Image) -> Image.Exif | None:
    # Of a PNG it may stand behind the pixels, which would be decoded to get there.
    if image.format == "PNG" and "exif" not in image.info:
        return None
    return image.getexif()


def _exif(image: Image.Image) -> dict[str, Any]:
    found: dict[str, Any] = {}
    raw = _raw_exif(image)
    if raw is None:
        return found
    for tags in (raw, raw.get_ifd(ExifTags.IFD.Exif)):
        for number, value in tags.items():
            name = _EXIF.get(ExifTags.TAGS.get(number, ""))
            if name and isinstance(value, str | int):
                found[name] = short(value) if isinstance(value, str) else value
    return found


def _location(image: Image.Image) -> dict[str, float] | None:
    """Latitude and longitude in degrees."""
    raw = _raw_exif(image)
    gps: Mapping[int, Any] = {} if raw is None else raw.get_ifd(ExifTags.IFD.GPSInfo)
    found: dict[str, float] = {}
    for name, value, side in (("latitude", 2, 1), ("longitude", 4, 3)):
        parts = gps.get(value)
        if not isinstance(parts, tuple) or len(parts) != 3:
            return None
        degrees = float(parts[0]) + float(parts[1]) / 60 + float(parts[2]) / 3600
        found[name] = round(-degrees if gps.get(side) in ("S", "W") else degrees, 6)
    return found


def _text(content: bytes, details: Mapping[str, Any], settings: ParseSettings) -> tuple[str, str]:
    """The text that tesseract sees in an image, and in which languages it looked, or why it did not."""
    pixels = details["width"] * details["height"]
    if str(details["format"]).upper() not in _READABLE or not _FEWEST_PIXELS <= pixels <= _MOST_PIXELS:
        return "", "not read: it has too few or too many pixels, or a format that tesseract cannot read"
    return ocr.text_in(content, settings)
