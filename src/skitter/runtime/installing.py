"""The pip command that installs a missing extra, from wherever Skitter itself was installed."""

import json
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_line(extra: str) -> str:
    """How to add an extra to this installation."""
    distribution = metadata.distribution("skitter")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    return line_for(extra, origin, _pip())


def line_for(extra: str, origin: dict[str, object], pip: str = "pip") -> str:
    """The install source, as PEP 610 records it; empty for a package index."""
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        return f"{pip} install " + shlex.quote(f"skitter[{extra}] @ git+{url}")
    path = Path(unquote(urlsplit(url).path))
    if url.startswith("file:") and path.exists():
        here = path == Path.cwd()
        details = origin.get("dir_info")
        editable = "-e " if isinstance(details, dict) and details.get("editable") else ""
        return f"{pip} install {editable}" + shlex.quote(f"{'.' if here else path}[{extra}]")
    clone = f"in a clone of Skitter: {pip} install '.[{extra}]'"
    return clone if url else f"{pip} install 'skitter[{extra}]', or {clone}"


def _pip() -> str:
    """`pip`, if that is the one of this Python."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
