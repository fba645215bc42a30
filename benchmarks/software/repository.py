"""A cgit over a real repository: the history of one folder of this one, sixty commits."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks.software import ADDRESS, Hit, Software, free_port, needed, nginx, running

COMMITS = 60
FOLDER = "benchmarks"
_CGIT = "/usr/lib/cgit/cgit.cgi"
_SERVER = """
    location /cgit-css/ {{ alias /usr/share/cgit/; }}
    location / {{
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME {program};
        fastcgi_param SCRIPT_NAME "";
        fastcgi_param PATH_INFO $uri;
        fastcgi_param QUERY_STRING $args;
        fastcgi_param HTTP_HOST $http_host;
        fastcgi_param CGIT_CONFIG {folder}/cgitrc;
        fastcgi_pass {address}:{port};
    }}
"""
# Its default is "index, nofollow", by which a crawler would see one page.
_SETTINGS = """virtual-root=/
css=/cgit-css/cgit.css
robots=index, follow
enable-blame=1
enable-commit-graph=1
enable-log-filecount=1
snapshots=tar.gz zip
cache-size=0
repo.url=project
repo.path={repository}
repo.desc=A project
"""


@contextlib.contextmanager
def serving() -> Iterator[Software]:
    """Serve it for as long as it takes."""
    needed(_CGIT, "/usr/sbin/fcgiwrap")
    with tempfile.TemporaryDirectory(prefix="skitter-cgit-") as name:
        here, port, wrap = Path(name), free_port(), free_port()
        made = here / "project.git"
        _make(made)
        (here / "cgitrc").write_text(_SETTINGS.format(repository=made))
        server = _SERVER.format(program=_CGIT, folder=here, address=ADDRESS, port=wrap)
        command = ["/usr/sbin/fcgiwrap", "-c", "2", "-s", f"tcp:{ADDRESS}:{wrap}"]
        with running(command, wrap), nginx(here, port, server):
            views = Views(made)
            seed = f"http://{ADDRESS}:{port}/project/"
            yield Software(seed, "views of files and commits", views.all, views.shown, here / "access.log")


def _git(repository: Path, *arguments: str, **more: str) -> str:
    command = ["git", "-c", "safe.directory=*", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=more or None).stdout


def _make(bare: Path) -> None:
    """The commits that changed a folder of this repository, with that folder as their root."""
    here = Path(__file__).resolve().parents[2]
    subprocess.run(["git", "clone", "--quiet", "--bare", "--shared", str(here), str(bare)], check=True)
    changed = _git(bare, "log", "--first-parent", "--format=%H", f"-{COMMITS}", "HEAD", "--", FOLDER).split()
    if len(changed) < COMMITS:
        raise SystemExit(f"this needs {COMMITS} commits that changed {FOLDER}/, and there are {len(changed)}")
    parent: list[str] = []
    for commit in reversed(changed):
        said, when = _git(bare, "log", "-1", "--format=%s%x00%cI", commit).strip().split("\0")
        names = ("AUTHOR", "COMMITTER")
        who = {f"GIT_{each}_{what}": text for each in names for what, text in (("NAME", "A. Programmer"), ("EMAIL", "a@example.org"), ("DATE", when))}  # fmt: skip
        made = _git(bare, "commit-tree", f"{commit}:{FOLDER}", *parent, "-m", said, **who)
        parent = ["-p", made.strip()]
    for ref in _git(bare, "for-each-ref", "--format=%(refname)").split():
        _git(bare, "update-ref", "-d", ref)
    _git(bare, "update-ref", "refs/heads/master", parent[1])
    _git(bare, "symbolic-ref", "HEAD", "refs/heads/master")


class Views:
    """What there is to see: every file as it is today, and every commit."""

    def __init__(self, repository: Path) -> None:
        self._commits = _git(repository, "log", "--format=%H", "master").split()
        self._blobs = {commit: _blobs(repository, commit) for commit in self._commits}
        self._today = self._blobs[self._commits[0]]
        self.all = {f"file {path}" for path in self._today} | {f"commit {commit}" for commit in self._commits}

    def shown(self, hit: Hit) -> str:
        """Which of them a request shows; empty for trees, logs, diffs, raw files and old versions."""
        parts = urlsplit(hit.target)
        query = parse_qs(parts.query)
        _, _project, kind, path = (unquote(parts.path) + "///").split("/", 3)
        path = path.strip("/")
        at = query.get("id", self._commits[:1])[0]
        if hit.status != 200 or query.keys() - {"id", "h"}:
            return ""
        if kind == "commit" and not path:
            return f"commit {at}"
        if kind == "tree" and path in self._today and self._blobs.get(at, {}).get(path) == self._today[path]:
            return f"file {path}"
        return ""


def _blobs(repository: Path, commit: str) -> dict[str, str]:
    lines = _git(repository, "ls-tree", "-r", commit).splitlines()
    return {path: about.split()[2] for about, _, path in (line.partition("\t") for line in lines)}
