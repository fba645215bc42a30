"""May we fetch this URL? What is kept of an origin's rules, for how long, and how a "no" is worded."""

import asyncio

import pytest
from msgspec.msgpack import encode

from skitter import urls
from skitter.backends.memory import MemoryCache
from skitter.frontier import ShardFrontier
from skitter.model import RobotsCopy
from skitter.robots.in_force import _AT_HAND, Permissions
from skitter.testing.clock import EPOCH, VirtualClock
from skitter.testing.reference import MemoryAtHand

ORIGIN = "http://a.test"
RULES = b"User-agent: *\nDisallow: /private\nAllow: /private/but\nCrawl-delay: 7\n"


class CountingFrontier(ShardFrontier):
    """A frontier that counts how often it is asked for a robots.txt."""

    def __init__(self, store):
        super().__init__(store, at_hand=store)
        self.asked = 0

    async def robots(self, origin):
        self.asked += 1
        return await super().robots(origin)


class Ground:
    """Permissions over a frontier that has some copies."""

    def __init__(self, *copies):
        self.store = MemoryAtHand()
        for copy in copies:
            self.settled(copy)
        self.clock = VirtualClock()
        self.frontier = CountingFrontier(self.store)
        asyncio.run(self.frontier.open(EPOCH))
        self.permissions = Permissions(self.frontier, MemoryCache(10, self.clock), self.clock, "skitter")

    def settled(self, copy):
        """The frontier has it."""
        self.store.rows.robots[copy.origin] = encode(copy)

    def refusal(self, url):
        return asyncio.run(self.permissions.in_force(urls.origin(url))).refusal(url)

    def rules(self, origin=ORIGIN):
        return asyncio.run(self.permissions.in_force(origin)).rules


def copy(body=RULES, **fields):
    return RobotsCopy(**{"origin": ORIGIN, "status": 200, "body": body, "expires": EPOCH + 100.0} | fields)


def test_without_an_answer_nothing_is_allowed():
    reason = Ground().refusal(f"{ORIGIN}/")
    assert reason.code == "robots.unknown"
    assert Ground().rules() is None


def test_forbidden_urls_are_refused_with_the_line():
    ground = Ground(copy())
    assert ground.refusal(f"{ORIGIN}/public") is None
    assert ground.refusal(f"{ORIGIN}/private/but/this") is None
    reason = ground.refusal(f"{ORIGIN}/private/x")
    assert reason.code == "robots"
    assert reason.detail == "robots.txt line 2: Disallow: /private"


def test_rules_belong_to_an_origin_not_to_a_host():
    ground = Ground(copy(), copy(b"", origin="https://a.test"))
    assert ground.refusal("http://a.test/private") is not None
    assert ground.refusal("https://a.test/private") is None
    assert ground.refusal("http://a.test:8080/").code == "robots.unknown"


@pytest.mark.parametrize(("access", "code"), [("none", "robots.unreachable"), ("all", None)])
def test_no_file_allows_everything_and_no_answer_nothing(access, code):
    reason = Ground(copy(b"", access=access)).refusal(f"{ORIGIN}/private")
    assert (reason and reason.code) == code


def test_rules_are_parsed_once_and_again_when_the_copy_has_expired():
    ground = Ground(copy())
    assert len({id(ground.rules()) for _ in range(5)}) == 1
    assert ground.frontier.asked == 1
    ground.clock.advance(99.0)
    ground.rules()
    assert ground.frontier.asked == 1
    ground.clock.advance(1.0)
    ground.rules()
    assert ground.frontier.asked == 2


def test_an_old_copy_is_still_an_answer():
    """Whoever has a visit may finish it; the frontier asks for the robots.txt before it hands out another one."""
    ground = Ground(copy(expires=EPOCH - 1.0))
    assert ground.rules().delay == 7.0
    assert ground.refusal(f"{ORIGIN}/private").code == "robots"


def test_a_new_copy_is_in_force_at_once_and_not_the_one_that_was_kept():
    ground = Ground(copy())
    assert ground.refusal(f"{ORIGIN}/private") is not None
    new = copy(b"User-agent: skitter\nDisallow: /other\n")
    assert asyncio.run(ground.permissions.renew(new)).allows(f"{ORIGIN}/private")
    ground.settled(new)
    assert ground.refusal(f"{ORIGIN}/private") is None
    assert ground.refusal(f"{ORIGIN}/other").detail == "robots.txt line 2: Disallow: /other"


def test_rules_read_before_a_renewal_are_not_in_force_after_it():
    ground = Ground(copy())

    async def overtaken():
        asking = asyncio.ensure_future(ground.permissions.in_force(ORIGIN))
        while not ground.frontier.asked:
            await asyncio.sleep(0)
        await ground.permissions.forget(ORIGIN)
        ground.settled(copy(b""))
        return await asking, await ground.permissions.in_force(ORIGIN)

    before, after = asyncio.run(overtaken())
    assert before.refusal(f"{ORIGIN}/private") is not None
    assert after.refusal(f"{ORIGIN}/private") is None


def test_rules_that_are_at_hand_count_as_hits_and_are_bounded():
    ground = Ground(*(copy(origin=f"http://{number}.test") for number in range(_AT_HAND + 1)))
    for _ in range(2):
        for number in range(_AT_HAND + 1):
            assert ground.rules(f"http://{number}.test").delay == 7.0
    assert len(ground.permissions._at_hand) <= _AT_HAND
    ground.rules(f"http://{_AT_HAND}.test")
    assert ground.permissions.metrics().hits == 1


def test_urls_too_expensive_to_match_are_refused_with_the_reason():
    costly = b"User-agent: *\n" + b"".join(b"Disallow: /%d*x*y\n" % number for number in range(4000))
    reason = Ground(copy(costly)).refusal(f"{ORIGIN}/{'z' * 5000}")
    assert reason.code == "robots"
    assert reason.detail == "robots.txt 4000 rules with wildcards are too many for so long a URL"
