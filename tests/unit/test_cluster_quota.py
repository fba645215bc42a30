"""Pages are allowed to shards so that together they never store more than the limit, whoever dies or comes late."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skitter.cluster.quota import Allowance, Quota, Wish, allowances, read, written

SHARDS = 3


def after(allowed, limit, wishes, stored=None):
    """What each shard may store, by plain numbers: {shard: (epoch, pages)} and {shard: (epoch, used, wanted)}."""
    quota = Quota(1.0, 0, {shard: Allowance(*entry) for shard, entry in allowed.items()})
    asked = {shard: Wish(*wish) for shard, wish in wishes.items()}
    found = allowances(quota, limit, asked, stored or dict.fromkeys(range(SHARDS), 0))
    return {shard: (entry.epoch, entry.pages) for shard, entry in found.items()}


@pytest.mark.parametrize(
    ("allowed", "wishes", "expected"),
    [
        ({}, {0: (1, 0, 8)}, {0: (1, 8)}),  # there is enough
        ({}, {0: (1, 0, 50)}, {0: (1, 10)}),  # there is less
        ({}, {0: (1, 0, 8), 1: (1, 0, 8)}, {0: (1, 5), 1: (1, 5)}),  # equal parts
        ({}, {0: (1, 0, 2), 1: (1, 0, 50)}, {0: (1, 2), 1: (1, 8)}),  # as far as they are wanted
        ({0: (1, 9)}, {1: (1, 0, 8)}, {0: (1, 9), 1: (1, 1)}),  # what others have stays theirs
        ({0: (1, 9)}, {0: (1, 3, 3), 1: (1, 0, 8)}, {0: (1, 3), 1: (1, 7)}),  # until they give it back
        ({0: (1, 9)}, {0: (1, 3, 12)}, {0: (1, 10)}),  # or want more
        ({0: (1, 9)}, {0: (2, 4, 4)}, {0: (2, 4)}),  # a new owner has what the last one had
        ({0: (2, 9)}, {0: (1, 3, 3)}, {0: (2, 9)}),  # and the last one has no say
        ({0: (1, 10)}, {1: (1, 0, 8)}, {0: (1, 10), 1: (1, 0)}),  # nothing is left
        ({0: (1, 12)}, {1: (1, 0, 8)}, {0: (1, 12), 1: (1, 0)}),  # less than nothing: the limit was larger
        ({}, {0: (1, 12, 12)}, {0: (1, 12)}),  # what is stored is stored
    ],
)
def test_of_ten_pages(allowed, wishes, expected):
    assert after(allowed, 10, wishes) == expected


def test_pages_that_nobody_asked_for_count():
    """Stored before there was a limit, or by a worker that knew of none."""
    assert after({}, 10, {0: (1, 0, 8)}, {0: 0, 1: 7, 2: 1}) == {0: (1, 2)}
    assert after({1: (1, 3)}, 10, {0: (1, 0, 8)}, {0: 0, 1: 7, 2: 0}) == {0: (1, 3), 1: (1, 3)}


def test_a_quota_comes_back_as_it_was_and_no_two_versions_are_alike():
    assert read("") is None
    quota = Quota(1234.5, 7, {3: Allowance(9, 100)})
    again = read(written(quota))
    assert again == Quota(1234.5, 8, {3: Allowance(9, 100)})
    assert written(again) != written(quota)


class Office:
    """The engine: one quota, the pages that are stored, and whose the shards are."""

    def __init__(self, limit):
        self.limit = limit
        self.words = written(Quota(0.0))
        self.pages = [0] * SHARDS
        self.epochs = [0] * SHARDS

    def swap(self, seen, new):
        if self.words == seen:
            self.words = new
        return self.words


class Owner:
    """A shard under an epoch, in a worker that may be dead, frozen or late."""

    def __init__(self, office, shard):
        office.epochs[shard] += 1
        self.office, self.shard, self.epoch = office, shard, office.epochs[shard]
        self.stored = office.pages[shard]
        self.in_flight = self.allowed = 0
        self.late = []  # swaps that were sent and given up

    def begin(self, many):
        self.in_flight += max(0, min(many, self.allowed - self.stored - self.in_flight))

    def settle(self):
        """A settlement under an old epoch changes nothing; it is all one to the owner of the past, who is about to go."""
        self.stored += self.in_flight
        if self.office.epochs[self.shard] == self.epoch:
            self.office.pages[self.shard] += self.in_flight
        self.in_flight = 0

    def exchange(self, more, fate):
        used = self.stored + self.in_flight
        wish = Wish(self.epoch, used, used + more)
        self.allowed = max(used, min(self.allowed, wish.pages))
        quota = read(self.office.words)
        stored = dict(enumerate(self.office.pages))
        allowed = allowances(quota, self.office.limit, {self.shard: wish}, stored)
        seen, new = self.office.words, written(Quota(quota.began, quota.writes, allowed))
        if fate == "late":
            self.late.append((seen, new))
            return
        if fate == "deaf":  # it was done, and the answer was lost
            self.office.swap(seen, new)
            return
        assert self.office.swap(seen, new) == new
        if allowed[self.shard].epoch == self.epoch:
            self.allowed = allowed[self.shard].pages


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["take", "begin", "settle", *["exchange"] * 5, "late", "late", "deaf", "arrive", "arrive"]
        ),
        st.integers(0, 1),  # the third has no work until the end
        st.integers(0, 1),
        st.sampled_from([0, 1, 50]),
    ),
    min_size=20,
    max_size=60,
)


@given(st.sampled_from([0, 9, 50]), steps)
@settings(max_examples=300, deadline=None)
def test_the_limit_is_kept_whatever_happens_and_reached_when_it_can_be(limit, story):
    """Owners come and are forgotten without a word, swaps arrive late or twice, answers are lost."""
    office = Office(limit)
    owners = [[Owner(office, shard)] for shard in range(SHARDS)]
    for what, shard, which, number in story:
        owner = owners[shard][-1 - which % len(owners[shard])]  # its owner, or the one before
        match what:
            case "take":
                owners[shard].append(Owner(office, shard))
            case "begin":
                owner.begin(number)
            case "settle":
                owner.settle()
            case "exchange" | "late" | "deaf":
                owner.exchange(number, what)
            case "arrive":
                if owner.late:
                    office.swap(*owner.late.pop(number % len(owner.late)))
        # Even if every owner used all that it believes to be allowed, at once.
        assert sum(max(each[-1].allowed, office.pages[shard]) for shard, each in enumerate(owners)) <= limit
    # All the others are gone; one shard alone has work, and the rest are looked after by their last owners.
    for each in owners:
        each[-1].settle()
    for shard in (1, 2, 0):
        owners[shard][-1].exchange(0, "")
    last = owners[0][-1]
    last.exchange(99, "")
    last.begin(99)
    last.settle()
    assert sum(office.pages) == limit
