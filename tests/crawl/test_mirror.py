"""`export --format files`: a site on a disk, whose links lead from file to file, and nowhere else unless they must."""

import re
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from skitter.cli import main
from tests.crawl.harness import crawl
from tests.crawl.test_assets import CSS, HTML, settings, site

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
BODIES = {
    "a.test/": (
        HTML,
        (
            b"<!doctype html><title>Home</title><link rel=stylesheet href=/css/main.css?v=1><h1 style='background:url(i.png)'>Home</h1>"
            b"<a href=/about>about</a> <a href=docs/>docs</a> <a href=/old#part>moved</a> <a href='http://elsewhere.test/x'>out</a>"
            b"<a href='mailto:a@a.test'>mail</a> <a href='#top'>top</a> <a href='/gone'>gone</a> <a href='/private'>no</a>"
            b"<img src=/i.png srcset='/i.png 1x, /big/i.png 2x'> <a href='/caf%C3%A9'>cafe</a> <a href='/index.html'>index</a>"
        ),
    ),
    "a.test/about": (
        HTML,
        b"<title>About</title><a href=/>home</a><a target=_blank href='/docs/?page=2'>second</a>",
    ),
    "a.test/docs/": (
        HTML,
        b"<base href=/docs/deep/><title>Docs</title><a href=leaf.html>leaf</a><img src=../../i.png>",
    ),
    "a.test/docs/?page=2": (HTML, b"<title>Docs 2</title><a href='?page=1'>first</a>"),
    "a.test/docs/deep/leaf.html": (HTML, b"<title>Leaf</title><a href=../../about#us>about</a>"),
    "a.test/index.html": (HTML, b"<title>Index</title><p>another page than the home page <a href=/>home</a>"),
    "a.test/caf%C3%A9": (HTML, "<meta charset=utf-8><title>Café</title><a href=/>home</a>".encode()),
    "a.test/private": (HTML, b"<meta name=robots content=noarchive><title>Private</title>a secret"),
    "a.test/old": ("", b"301 a.test/about"),
    "a.test/css/main.css": (CSS, b"unused"),
    "a.test/css/main.css?v=1": (CSS, b"@import 'two.css'; body { background: url(../i.png) }"),
    "a.test/css/two.css": (
        CSS,
        b"p { background: url('/big/i.png') } a { background: url(http://elsewhere.test/y.png) }",
    ),
    "a.test/i.png": ("image/png", PNG),
    "a.test/big/i.png": ("image/png", PNG + b"big"),
}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    with site(BODIES) as served:
        crawl(folder / "crawl", [served.url("a.test/")], settings())
    assert main(["export", str(folder / "crawl"), "--format", "files", "-o", str(folder / "out"), "-q"]) == 0
    return folder / "out"


def references(file: Path) -> list[str]:
    text = file.read_text()
    if file.suffix == ".css":
        return re.findall(r"""(?:url\(|@import )["']?([^"')]+)""", text)
    tree = LexborHTMLParser(text)
    found = [node.attributes[name] for name in ("href", "src") for node in tree.css(f"[{name}]")]
    found += re.findall(
        r"url\(([^)]+)\)", " ".join(node.attributes["style"] or "" for node in tree.css("[style]"))
    )
    for node in tree.css("[srcset]"):
        found += [each.split()[0] for each in (node.attributes["srcset"] or "").split(",")]
    return [each.strip("\"'") for each in found if each]


def test_every_page_and_asset_is_a_file_of_its_own(mirrored):
    host = next(folder for folder in mirrored.iterdir() if folder.is_dir())
    files = {str(path.relative_to(host)) for path in host.rglob("*") if path.is_file()}
    assert {
        "about.html",
        "docs/index.html",
        "docs/deep/leaf.html",
        "index.html",
        "café.html",
        "i.png",
    } <= files
    assert (host / "index.html").read_text().count("another page")  # that is its name by right
    assert len([name for name in files if name.startswith("index~")]) == 1
    assert (host / "big/i.png").read_bytes() == PNG + b"big"
    assert not any("secret" in path.read_text(errors="replace") for path in host.rglob("*.html"))  # noarchive


def test_references_lead_to_files_and_only_what_is_not_stored_leads_out(mirrored):
    out, seen = set(), 0
    for file in [*mirrored.rglob("*.html"), *mirrored.rglob("*.css")]:
        for reference in references(file):
            if reference.startswith(("http", "mailto:", "#")):
                out.add(re.sub(r":\d+", "", reference))
                continue
            target = unquote(urlsplit(urljoin(file.as_uri(), reference)).path)
            assert Path(target).is_file(), f"{file}: {reference}"
            assert Path(target).is_relative_to(mirrored)
            seen += 1
    assert seen > 20
    assert out == {
        "http://elsewhere.test/x",
        "http://elsewhere.test/y.png",
        "mailto:a@a.test",
        "#top",
        "http://a.test/gone",
        "http://a.test/private",
        "http://a.test/docs/?page=1",
    }


def test_a_redirect_leads_to_where_it_ended_and_fragments_stay(mirrored):
    home = next(path for path in mirrored.rglob("index~*.html"))
    assert "about.html#part" in references(home)
    leaf = next(mirrored.rglob("leaf.html"))
    assert references(leaf) == ["../../about.html#us"]


def test_the_first_page_leads_to_the_seeds(mirrored):
    (start,) = references(mirrored / "index.html")
    assert "Home" in (mirrored / unquote(start)).read_text()


def test_it_is_a_folder_and_nothing_else(mirrored, tmp_path, capsys):
    crawled = str(mirrored.parent / "crawl")
    assert main(["export", crawled, "--format", "files"]) == 2
    assert "name a folder with -o" in capsys.readouterr().err
    assert main(["export", crawled, "--format", "files", "-o", str(mirrored)]) == 2
    assert "name a new or empty folder" in capsys.readouterr().err
