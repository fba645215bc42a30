"""`skitter export` that dies in the middle: python -m tests.crash.export_child FILES WORD…

It kills itself with SIGKILL when it is about to create another file after so many, and notes what is whole at once instead of
once a second, so that every place of death is tried.
"""

import os
import signal
import sys

from skitter.cli import main
from skitter.export import destination, journal


def dying_after(files: int) -> type[journal.Journal]:
    class Dying(journal.Journal):
        left = files

        def begun(self, name: str) -> None:
            super().begun(name)
            if not self.left:
                (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self._folder / name).write_bytes(b"half of a fi")
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1

    return Dying


if __name__ == "__main__":
    journal._EVERY = 0.0
    setattr(destination, "Journal", dying_after(int(sys.argv[1])))  # noqa: B010  mypy wants the name exported
    sys.exit(main(sys.argv[2:]))
