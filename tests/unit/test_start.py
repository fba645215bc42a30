"""The package starts with only its required dependencies, and `--version` without loading the engine."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import skitter

ROOT = Path(skitter.__file__).resolve().parents[2]

BLOCKED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

sys.meta_path.insert(0, Absent())
{program}
"""


def optional_packages():
    """Everything that pyproject.toml calls optional, by the name it is imported by."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    names = {words.partition(">")[0].strip() for extra in extras.values() for words in extra}
    return sorted(name.replace("-", "_") for name in names)


def python(program, *arguments):
    source = BLOCKED.format(absent=optional_packages(), program=program)
    return subprocess.run(
        [sys.executable, "-c", source, *arguments], capture_output=True, text=True, check=False, timeout=120
    )


pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").is_file(),
    reason="needs the source tree: pyproject.toml names what is optional",
)


def test_the_list_of_optional_packages_is_there_and_blocks():
    assert {"pytest", "hypothesis", "warcio", "fastwarc", "mypy", "ruff"} <= set(optional_packages())
    done = python("import pytest")
    assert done.returncode == 1
    assert "No module named 'pytest'" in done.stderr


def test_crawl_is_the_function_also_for_those_who_have_imported_parts_of_the_package_of_that_name():
    done = python(
        "import skitter.crawl.directory, skitter.cli\nimport skitter\nprint(skitter.crawl.__module__)"
    )
    assert (done.stderr, done.stdout) == ("", "skitter.api\n")


def test_every_public_name_can_be_imported_without_optional_packages():
    done = python(
        "import skitter\nfor name in skitter.__all__: getattr(skitter, name)\nprint(skitter.__version__)"
    )
    assert done.stderr == ""
    assert done.stdout.strip() == skitter.__version__


# Modules whose library is an extra: those that speak to an engine of a cluster, or read a kind of document. Nobody imports
# them without need.
ENGINES = tuple(
    f"skitter.{name}"
    for name in (
        "backends.kafka",
        "backends.postgres",
        "backends.redis",
        "compose.full",
        "compose.making",
        "compose.small",
        "parse.image",
        "parse.pdf",
        "serve.app",
    )
)


def test_every_module_of_the_product_can_be_imported_without_optional_packages():
    program = f"""
import importlib, pkgutil, skitter
for module in pkgutil.walk_packages(skitter.__path__, "skitter."):
    if not module.name.startswith("skitter.testing") and not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError:
            if not module.name.startswith({ENGINES!r}):
                raise
"""
    done = python(program)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("crawl", "--help")])
def test_the_command_line_works_without_optional_packages(arguments):
    done = python("import sys\nfrom skitter.cli import main\nsys.exit(main())", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "skitter" in done.stdout.lower()


def test_a_small_crawl_works_without_optional_packages(tmp_path):
    """It ends at once: nothing listens where it goes, and the address is refused before that."""
    program = "import sys\nfrom skitter.cli import main\nsys.exit(main())"
    done = python(program, "crawl", "http://127.0.0.1:9/", "-o", str(tmp_path / "c"), "-q")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_version_loads_no_engine():
    program = """
import sys
from skitter.cli import main
code = main(["--version"])
print(*sorted({"numpy", "rocksdict", "pycurl", "selectolax", "publicsuffixlist"} & set(sys.modules)))
sys.exit(code)
"""
    done = python(program)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == [""]


def test_a_worker_loads_nothing_that_a_crawl_on_one_machine_does_not_need():
    program = """
import sys
import skitter.compose.fleet_worker
needless = ("skitter.backends.opensearch", "skitter.backends.sqlite_fts", "skitter.cluster", "skitter.search.text", "numpy", "sqlite3", "http.client")
print(*sorted(name for name in sys.modules if name.startswith(needless)))
"""
    done = python(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
