"""`make test`: runs the suite in three parts at the same time. Tests of engines and whole crawls mostly wait, the others compute.

The output of the others is shown live, that of the rest when it is there. Exit code 1 if a part fails.
"""

import subprocess
import sys
from collections.abc import Sequence

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
CRAWLS = ("tests/crawl", "tests/crash")


def part(*words: str) -> subprocess.Popen[str]:
    """A part that is heard when it has ended."""
    return subprocess.Popen([*PYTEST, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main() -> int:
    """Run all parts."""
    waiting = {
        "Whole crawls": part("-m", "not engines and not soak", *CRAWLS),
        "With the real engines": part("-m", "engines and not soak"),
    }
    others = ["-m", "not engines and not soak", *(f"--ignore={folder}" for folder in CRAWLS)]
    try:
        codes = [subprocess.run([*PYTEST, *others], check=False).returncode]
        codes += [told(name, running) for name, running in waiting.items()]
    except BaseException:
        end(list(waiting.values()))
        raise
    return 1 if any(codes) else 0


def told(name: str, running: subprocess.Popen[str]) -> int:
    """Wait for a part, and show what it printed."""
    said, _ = running.communicate()
    print(f"\n{name}:\n{said}", flush=True)
    return running.returncode


def end(parts: Sequence[subprocess.Popen[str]]) -> None:
    """Somebody has interrupted the suite."""
    for running in parts:
        running.terminate()
    for running in parts:
        running.wait()


if __name__ == "__main__":
    sys.exit(main())
