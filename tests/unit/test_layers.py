"""Imports go one way: the layout is the path of a URL, and nobody looks back up."""

import ast
from pathlib import Path

import skitter

ROOT = Path(skitter.__file__).parent

# From the bottom to the top; modules on one line do not know each other's insides but may use what is below.
LAYERS = (
    ("model", "words", "hiding"),
    ("ports",),
    ("claims",),
    ("breaker", "settings", "events", "display", "clock", "installing", "durable"),
    ("surt", "digest", "simhash", "suffixes", "keys"),
    ("urls",),
    ("robots", "seeds", "directory", "log", "process", "gathering"),
    ("politeness", "scope", "permission", "intake"),
    ("schedule",),
    ("fetch", "parse", "dedup", "links"),
    ("page", "trouble", "waiting"),
    ("linkfilter",),
    ("visit", "export"),
    ("shard", "report", "searching", "checking"),
    ("post", "sharded"),
    ("team", "fleet", "cluster"),
    ("compose",),
    ("api", "worker"),
    ("cli",),
)
# Back ends see only these.
BACKENDS_SEE = {
    "backends",
    "breaker",
    "claims",
    "model",
    "ports",
    "settings",
    "events",
    "hiding",
    "urls",
    "surt",
    "digest",
    "durable",
    "words",
    "installing",
}
# Shipped for tests; nothing of the product may depend on it.
TESTING = "testing"


def imports(path: Path) -> set[str]:
    """The skitter modules, by their first name, that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [node.module]
                if node.module != "skitter"
                else [f"skitter.{alias.name}" for alias in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("skitter.")}
    return found - {"__version__"}


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_module_imports_only_from_below():
    height = {name: level for level, names in enumerate(LAYERS) for name in names}
    wrong = []
    for path in ROOT.rglob("*.py"):
        here = part(path)
        if here in {"__init__", "__main__", "backends", TESTING}:
            continue
        assert here in height, f"{here} has no place in the layers"
        for name in imports(path) - {here}:
            allowed = (
                here == "compose" if name == "backends" else name in height and height[name] < height[here]
            )
            if not allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_back_ends_know_the_model_and_the_ports_only():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / "backends").rglob("*.py")
        for name in imports(path) - BACKENDS_SEE
    ]
    assert wrong == []


def test_nothing_of_the_product_depends_on_its_tests():
    users = {part(path) for path in ROOT.rglob("*.py") if TESTING in imports(path)} - {TESTING}
    assert users == set()
