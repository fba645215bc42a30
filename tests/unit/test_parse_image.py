"""Images: what is known of them without decoding them, and the text in them."""

import shutil
import struct
import zlib

import pytest

from skitter.parse import parse
from skitter.settings import ParseSettings
from tests import documents


def read(content, kind="image/png", **settings):
    return parse("http://site.example/i", [("content-type", kind)], content, ParseSettings(**settings))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"])
def test_size_and_format(kind):
    found = read(documents.picture(kind), f"image/{kind.lower()}")
    assert (found.media["format"], found.media["width"], found.media["height"]) == (kind.lower(), 60, 40)
    assert (found.text, found.ignored) == ("", "")


def test_exif_without_the_place_unless_it_is_asked_for():
    found = read(documents.photo(), "image/jpeg")
    assert found.media["exif"] == {"make": "Camera Works", "taken": "2024:01:31 12:00:00"}
    assert "location" not in found.media
    assert (found.author, found.description) == ("Ada", "A bridge")
    located = read(documents.photo(), "image/jpeg", exif_location=True)
    assert located.media["location"] == {"latitude": 48.5, "longitude": -2.25}


def test_frames_of_an_animation():
    from PIL import Image  # noqa: PLC0415  an extra

    more = [Image.new("RGB", (60, 40), color) for color in ("red", "blue")]
    found = read(documents.picture("GIF", save_all=True, append_images=more), "image/gif")
    assert found.media["frames"] == 3


def png_of(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


def test_one_with_too_many_pixels_is_recorded():
    found = read(png_of(60_000, 60_000))
    assert found.ignored == "the image has more pixels than can be handled"
    assert found.media == {"pixels": 3_600_000_000, "too_large": True}


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n\x1a\n", documents.picture()[:40], b"%!PS-Adobe-3.0 EPSF-3.0", b"GIF89a"]
)
def test_a_damaged_one_is_recorded(content):
    found = read(content)
    assert found.media == {"damaged": True}
    assert "damaged" in found.ignored


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="no tesseract: apt-get install tesseract-ocr")
def test_text_in_an_image_is_read_if_settings_ask_for_it():
    content = documents.written("The quick brown fox")
    assert read(content).text == ""
    found = read(content, ocr="eng")
    assert found.text == "The quick brown fox"
    assert found.media["ocr"] == "eng"
    assert "xyz" in read(content, ocr="xyz").media["ocr"]


def test_without_tesseract_the_record_says_so(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _name: None)
    found = read(documents.picture(), ocr="eng")
    assert found.media["ocr"] == "not read: the program tesseract is not installed"
