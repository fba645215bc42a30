"""`python -m skitter.testing.warc_check FILE...`: one line per problem; exit 1 if there is any, 2 for wrong usage."""

import sys
from pathlib import Path

from skitter.testing.warc_check import problems


def main(names: list[str]) -> int:
    """Check the named files as one collection."""
    if not names:
        sys.stderr.write("usage: python -m skitter.testing.warc_check FILE...\n")
        return 2
    found = 0
    try:
        for problem in problems(*map(Path, names)):
            found += 1
            sys.stdout.write(f"{problem}\n")
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
