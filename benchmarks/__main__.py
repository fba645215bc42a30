"""`make bench`: whole crawls first, then the blocks they are made of, each in a process of its own."""

import subprocess
import sys

from benchmarks import crawls

BLOCKS = ("fetch", "parse", "archive", "frontier")

if __name__ == "__main__":
    crawls.main()
    for block in BLOCKS:
        print(f"\n== {block}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{block}"], check=True)
