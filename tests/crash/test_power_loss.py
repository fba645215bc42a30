"""A power loss at any moment, from the first second on, loses nothing, stores nothing twice and shortens no delay.

The crawl directory is on a file system of its own, in an image on a loop device. What the image holds while the crawl runs
is what a disk would hold: pages of files that were written and not synced are in the kernel's memory only. A copy of the
image is mounted, which replays its journal, and the crawl is taken up in it, as on a machine that has just started.
"""

import random
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from skitter.testing.web import Features, SyntheticWeb, serve_process
from skitter.testing.web.log import gaps
from tests.crash.test_fleet_kill import kill, workers_of
from tests.crash.test_kill import check_after_kills, plan_for, start

SIZE = 96 << 20  # bytes of an image
DELAY = 0.15  # seconds between two requests to a host
_SLACK = 0.01  # seconds by which the server may see a gap shorter than the crawler kept it
_TRIES = 20  # at a copy during which nothing was written


def run(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


@pytest.fixture
def folder():
    """In memory, if possible: syncing is quick there, and so is copying."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@contextmanager
def mounted(image):
    place = image.with_suffix(".mnt")
    place.mkdir()
    try:
        # A journal that is written every second, not every five: so a short crawl sees several of its commits.
        run("mount", "-o", "loop,commit=1", image, place)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"a file system cannot be mounted here: {getattr(problem, 'stderr', '') or problem}")
    try:
        yield place
    finally:
        run("umount", "--lazy", place)


def new_image(folder):
    image = folder / "0.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    try:
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", image)
    except (OSError, subprocess.CalledProcessError) as problem:
        pytest.skip(f"no ext4 can be made here: {getattr(problem, 'stderr', '') or problem}")
    return image


def copied(image, copy):
    """Copy the image at one moment. False if something was written to it all the time."""
    for _ in range(_TRIES):
        shutil.copyfile(image, copy)
        with image.open("rb") as one, copy.open("rb") as other:
            if all(block == other.read(1 << 22) for block in iter(lambda: one.read(1 << 22), b"")):
                return True
    return False


def lose_power(parent, image, copy):
    """Take the copy, then end everybody who would have gone down with the machine."""
    whole = copied(image, copy)
    processes = [parent.pid, *workers_of(parent.pid)]
    for pid in processes:
        kill(pid)
    parent.communicate(timeout=60)
    for pid in processes[1:]:
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.01)
    assert whole or copied(image, copy)


def crawl_with_losses(server, folder, workers, dice, losses):
    """Crawl to the end, with so many losses of power on the way; says how many there were and where the crawl is."""
    image, lost = new_image(folder), 0
    with ExitStack() as stack:
        while True:
            path = stack.enter_context(mounted(image)) / "made" / "crawl"
            plan = plan_for(
                server,
                path,
                workers=workers,
                boot=f"start {lost}",
                overrides={"politeness.delay": f"{DELAY}s"},
            )
            child = start(plan)
            if lost < losses:
                time.sleep(dice.uniform(0.3, 3.0))
            else:
                child.wait(timeout=300)
            if child.poll() is not None:
                _, errors = child.communicate(timeout=60)
                assert child.returncode == 0, errors
                shutil.copytree(path, folder / "end")
                return lost
            lost += 1
            copy = folder / f"{lost}.img"
            lose_power(child, image, copy)
            stack.close()
            image.unlink()
            image = copy


def rounds(folder, losses, seed):
    total, dice = 0, random.Random(seed)
    while total < losses:
        web = SyntheticWeb(
            seed=seed + total,
            hosts=6,
            pages_per_host=18,
            features=Features(page_bytes=2000, foreign_share=0.2),
        )
        workers = dice.choice([0, 2])
        with serve_process(web) as server:
            own = folder / f"{total}"
            own.mkdir()
            lost = crawl_with_losses(server, own, workers, dice, min(4, losses - total))
            repeated = check_after_kills(server, own / "end", lost, max(1, workers))
            shortest = min(gap for host in gaps(server.log()).values() for gap in host)
        shutil.rmtree(own)
        assert shortest >= DELAY - _SLACK
        total += lost
        print(
            f"{workers} workers: {lost} losses of power, {repeated} requests repeated, shortest gap {shortest:.3f} s"
        )
        assert lost, "the crawl ends before the power is lost"
    return total


def test_losses_of_power_lose_nothing(folder):
    assert rounds(folder, losses=6, seed=20) == 6


@pytest.mark.soak
def test_fifty_losses_of_power_lose_nothing(folder):
    assert rounds(folder, losses=50, seed=500) == 50
