"""`make test`: the suite in two halves side by side. The tests of the real engines wait most of the time, the others work.

The others are shown as they go, those of the engines at the end. Exit code 1 if either half fails.
"""

import subprocess
import sys

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m"]


def main() -> int:
    """Run both halves."""
    engines = subprocess.Popen(
        [*PYTEST, "engines and not soak"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        others = subprocess.run([*PYTEST, "not engines and not soak"], check=False).returncode
        said, _ = engines.communicate()
    except BaseException:
        engines.terminate()
        engines.wait()
        raise
    print(f"\nWith the real engines:\n{said}", flush=True)
    return 1 if others or engines.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
