"""Imports go one way: the layout is the path of a URL, and no layer imports a later one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import skitter

ROOT = Path(skitter.__file__).parent

# From the bottom to the top; modules on one line do not know each other's insides but may use what is below.
LAYERS = (
    ("runtime",),
    ("model",),
    ("reasons",),
    ("ports",),
    ("settings", "events"),
    ("plugins",),
    ("urls",),
    ("dedup",),
    ("robots",),
    ("reporting",),
    ("engines", "politeness"),
    ("schedule",),
    ("frontier",),
    ("seeds",),
    ("fetch", "parse"),
    ("links",),
    ("visit",),
    ("control",),
    ("crawl",),
    ("export",),
    ("search",),
    ("cluster",),
    ("fleet",),
    ("jobs",),
    ("compose",),
    ("api",),
    ("cli",),
)
# What back ends see: the values, their ports, and what they are made with; nothing that decides.
BACKENDS_SEE = (
    "skitter.backends",
    "skitter.cluster.ports",
    "skitter.crawl.check_values",
    "skitter.dedup.digest",
    "skitter.dedup.simhash",
    "skitter.engines",
    "skitter.events",
    "skitter.frontier",
    "skitter.schedule.learning.learned",
    "skitter.jobs.model",
    "skitter.jobs.ports",
    "skitter.jobs.rows",
    "skitter.model",
    "skitter.ports",
    "skitter.reasons",
    "skitter.reporting.format",
    "skitter.runtime",
    "skitter.search.text",
    "skitter.settings",
    "skitter.urls",
)
# Shipped for tests; nothing of the product may depend on it.
TESTING = "testing"
MOST_ENTRIES = 36  # a folder per idea: `ls` shall be read at a glance


def imported(path: Path) -> set[str]:
    """The skitter modules that a file imports anywhere; what is there for the type checker alone does not count."""
    tree = ast.parse(path.read_text())
    return {name for name in _imported(tree) if name.startswith("skitter.")} - {"skitter.__version__"}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.ImportFrom) and node.module:
        yield from (
            [node.module] if node.module != "skitter" else [f"skitter.{alias.name}" for alias in node.names]
        )
        if node.module.count(".") == 1:  # a module of a package, perhaps
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name.islower())
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imported(child)


def imports(path: Path) -> set[str]:
    """The same by their first name."""
    return {name.split(".")[1] for name in imported(path)}


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
        for name in imported(path)
        if not any(
            f"{name}.".startswith(f"{seen}.") or f"{seen}.".startswith(f"{name}.") for seen in BACKENDS_SEE
        )
    ]
    assert wrong == []


def test_nothing_of_the_product_depends_on_its_tests():
    users = {part(path) for path in ROOT.rglob("*.py") if TESTING in imports(path)} - {TESTING}
    assert users == set()


def test_the_package_is_read_at_a_glance():
    entries = [path.name for path in ROOT.iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)
