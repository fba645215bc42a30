"""`make test`: runs the suite in two halves in parallel. The tests of the real engines mostly wait, the others compute.

The output of the others is shown live, that of the engine tests at the end. Exit code 1 if either half fails.
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
