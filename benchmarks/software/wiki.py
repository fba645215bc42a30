"""A DokuWiki that anybody may edit: 200 pages in eight namespaces, a third of them with old revisions."""

import contextlib
import gzip
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from benchmarks.software import ADDRESS, Hit, Software, free_port, needed, nginx, running
from skitter.testing.web.words import below, dice, paragraphs, phrase

PAGES = 200
NAMESPACES = 8
REVISIONS = 3
FIRST = 1_700_000_000  # a time of long ago: history starts here
_PROGRAM, _SETTINGS = "/usr/share/dokuwiki", "/etc/dokuwiki"
_SERVER = """
    root {root}; index doku.php;
    location ~ ^/(bin|conf|data|inc|vendor)/ {{ deny all; }}
    location ~ \\.php$ {{
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_pass {address}:{port};
    }}
"""


def names() -> list[str]:
    """The ids of all pages."""
    return ["start", *(f"part{n % NAMESPACES}:page{n}" for n in range(1, PAGES))]


@contextlib.contextmanager
def serving() -> Iterator[Software]:
    """Serve it for as long as it takes."""
    needed(_PROGRAM, _SETTINGS, "/usr/bin/php-cgi")
    with tempfile.TemporaryDirectory(prefix="skitter-wiki-") as name:
        here, port, php = Path(name), free_port(), free_port()
        root = _installed(here, f"http://{ADDRESS}:{port}")
        server = _SERVER.format(root=root, address=ADDRESS, port=php)
        command = ["/usr/bin/php-cgi", "-b", f"{ADDRESS}:{php}"]
        with (
            running(command, php, PHP_FCGI_CHILDREN="2", PHP_FCGI_MAX_REQUESTS="0"),
            nginx(here, port, server),
        ):
            seed = f"http://{ADDRESS}:{port}/doku.php"
            yield Software(seed, "wiki pages", set(names()), _view, here / "access.log")


def _view(hit: Hit) -> str:
    """The page that a request shows as it is read: not its source, its history or an old version."""
    parts = urlsplit(hit.target)
    query = parse_qs(parts.query)
    if hit.status != 200 or parts.path not in ("/", "/doku.php") or query.keys() - {"id"}:
        return ""
    return query.get("id", ["start"])[0]


def _installed(here: Path, base: str) -> Path:
    root, settings, data = here / "wiki", here / "conf", here / "data"
    shutil.copytree(_PROGRAM, root)
    shutil.copytree(_SETTINGS, settings)
    (root / "inc/preload.php").write_text(f"<?php define('DOKU_CONF', '{settings}/');\n")
    (settings / "local.php").write_text(
        f"<?php $conf['title'] = 'A wiki'; $conf['useacl'] = 1; $conf['superuser'] = '@admin'; "
        f"$conf['savedir'] = '{data}'; $conf['updatecheck'] = 0; $conf['baseurl'] = '{base}';\n"
    )
    (settings / "acl.auth.php").write_text("# <?php exit()?>\n*  @ALL  8\n")
    (settings / "users.auth.php").write_text("# <?php exit()?>\n")
    for folder in ("pages", "attic", "media", "media_attic", "meta", "media_meta", "cache", "index", "locks", "tmp", "log"):  # fmt: skip
        (data / folder).mkdir(parents=True)
    _write_pages(data)
    return root


def _write_pages(data: Path) -> None:
    changes: list[tuple[int, str]] = []
    everything = names()
    for number, page in enumerate(everything):
        times = [FIRST + 1000 * number + 100 * n for n in range(REVISIONS if number % 3 == 0 else 1)]
        file = data / "pages" / f"{page.replace(':', '/')}.txt"
        lines = []
        for turn, when in enumerate(times):
            text = _text(page, number, turn, everything)
            _put(
                data / "attic" / f"{page.replace(':', '/')}.{when}.txt.gz",
                gzip.compress(text.encode(), mtime=0),
            )
            _put(file, text.encode())
            kind, said = ("E", "edited") if turn else ("C", "created")
            lines.append(f"{when}\t127.0.0.1\t{kind}\t{page}\t\t{said}\t\t{len(text)}\n")
            changes.append((when, lines[-1]))
        os.utime(file, (times[-1], times[-1]))
        _put(data / "meta" / f"{page.replace(':', '/')}.changes", "".join(lines).encode())
    _put(data / "meta/_dokuwiki.changes", "".join(line for _when, line in sorted(changes)).encode())


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _text(page: str, number: int, turn: int, everything: list[str]) -> str:
    """What somebody wrote, and links: to its children in a tree, so that every page is reached, and anywhere."""
    chance = dice("wiki", page)
    blocks = paragraphs(chance, 240)[: 4 + turn]
    onward = [2 * number + 1, 2 * number + 2, *(below(chance, len(everything)) for _ in range(4))]
    links = [f"  * [[:{everything[to]}]]" for to in onward if to < len(everything)]
    halves = [
        f"==== {phrase(chance, 3).title()} ====\n\n" + "\n\n".join(some) for some in (blocks[:2], blocks[2:])
    ]
    return (
        f"====== {phrase(chance, 4).title()} ======\n\n"
        + "\n\n".join(halves)
        + "\n\n"
        + "\n".join(links)
        + "\n"
    )
