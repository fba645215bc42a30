"""Which pages count as duplicates."""

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from skitter.dedup.digest import payload_digest
from skitter.dedup.simhash import simhash
from skitter.dedup.twins import Duplicates, distance
from skitter.model import Page
from skitter.settings import DedupSettings
from skitter.testing.reference import memory_frontier

WORDS = [f"word{n}" for n in range(2000)]


def text(seed, words=600):
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def page(url, body, simhash_=None, domain="a.test"):
    return Page(
        url=url, requested_url=url, key=url, host=domain, domain=domain, status=200, fetched_at=1.0,
        size=len(body), digest=payload_digest(body), simhash=simhash_,
    )  # fmt: skip


async def nothing_stored():
    frontier = memory_frontier()
    await frontier.open(0.0)
    return Duplicates(frontier, DedupSettings())


def test_the_digest_is_that_of_the_archive():
    assert payload_digest(b"") == "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


def test_texts_differing_in_a_word_are_near_and_others_far():
    changed = near = 0
    for seed in range(200):
        one = text(seed, words=1500)
        words = one.split()
        words[seed * 7] = "changed"
        changed += 1
        near += distance(simhash(one, 32), simhash(" ".join(words), 32)) <= 3
        assert distance(simhash(one, 32), simhash(text(seed + 1000), 32)) > 10
    assert near >= changed * 0.9


def test_white_space_does_not_matter_and_order_does():
    one = text(1)
    assert simhash(one.replace(" ", " \n\t "), 32) == simhash(one, 32)
    assert distance(simhash(one, 32), simhash(" ".join(reversed(one.split())), 32)) > 10


def test_a_short_text_has_no_simhash():
    assert simhash("a b c", 32) is None
    assert simhash("", 0) is None
    assert simhash("a b", 0) is None


def test_simhash_is_the_same_on_every_machine():
    assert simhash("the quick brown fox jumps over the lazy dog " * 4, 3) == 0xF0EC672FE6599DC1


def test_a_long_text_is_near_one_that_differs_in_any_word(monkeypatch):
    one = text(3, words=20_000)
    whole = simhash(one, 32)
    for place in range(0, 20_000, 2_500):
        words = one.split()
        words[place] = "changed"
        assert distance(whole, simhash(" ".join(words), 32)) <= 3
    monkeypatch.setattr("skitter.dedup.simhash._BLOCK", 1024)  # where it is cut does not matter
    assert simhash(one, 32) == whole


def test_a_word_longer_than_a_block_is_hashed_too():
    long = "x" * 100_000
    assert simhash(f"a b {long} c d", 3) == simhash(f"a b {long} c d", 3)
    assert simhash(f"a b {long} c d", 3) != simhash(f"a b {long[:-1]} c d", 3)


def test_bit_counts_do_not_overflow_a_byte():
    assert distance(simhash("a b c " * 5_000, 3), simhash("a b c " * 10, 3)) <= 3


def by_hand(words):
    """SimHash by its definition, one number at a time."""
    base, mix, modulo = 0xD1342543DE82EF95, 0x9E3779B97F4A7C15, 2**64
    hashes = [sum(o * base**i for i, o in enumerate(word.encode(), 1)) % modulo for word in words]
    votes = [0] * 64
    for first, second, third in zip(hashes, hashes[1:], hashes[2:], strict=False):
        shingle = ((first * mix % modulo ^ second) * mix % modulo) ^ third
        shingle = (shingle ^ shingle >> 29) * mix % modulo
        shingle ^= shingle >> 32
        votes = [vote + (1 if shingle >> bit & 1 else -1) for bit, vote in enumerate(votes)]
    return sum((vote > 0) << bit for bit, vote in enumerate(votes))


@given(
    st.lists(st.sampled_from(["a", "ab", "b", "\u4e2d\u6587", "\xa0"]), min_size=3, max_size=40),
    st.integers(1, 9),
)
def test_simhash_matches_its_definition(words, times):
    assert simhash(" ".join(words * times), 3) == by_hand(words * times)


@given(st.text())
def test_simhash_never_raises(anything):
    value = simhash(anything, 3)
    assert value is None or 0 <= value < 2**64


def test_pages_on_their_way_to_the_store_are_compared_too():
    async def scenario():
        duplicates = await nothing_stored()
        first = page("http://a.test/1", b"same", 0b0000)
        assert await duplicates.claim([first]) == [None]
        [identical] = await duplicates.claim([page("http://a.test/2", b"same", 0b0000)])
        assert identical.url == first.url
        [near] = await duplicates.claim([page("http://a.test/3", b"other", 0b0111)])
        assert near.url == first.url
        [far] = await duplicates.claim([page("http://a.test/4", b"another", 0b1111)])
        assert far is None
        [elsewhere] = await duplicates.claim([page("http://b.test/1", b"same", 0b0000, domain="b.test")])
        assert elsewhere is None
        duplicates.committed([first])
        assert await duplicates.claim([page("http://a.test/5", b"same", None)]) == [
            None
        ]  # the store answers from here on

    asyncio.run(scenario())


def test_an_empty_page_repeats_nothing():
    async def scenario():
        duplicates = await nothing_stored()
        empty = [page("http://a.test/1", b""), page("http://a.test/2", b"")]
        assert await duplicates.claim(empty) == [None, None]

    asyncio.run(scenario())


def test_pages_of_one_group_are_compared_with_each_other_in_order():
    async def scenario():
        duplicates = await nothing_stored()
        group = [
            page(f"http://a.test/{number}", body, None)
            for number, body in enumerate((b"x", b"y", b"x", b"x"))
        ]
        twins = await duplicates.claim(group)
        assert [twin and twin.url for twin in twins] == [None, None, "http://a.test/0", "http://a.test/0"]

    asyncio.run(scenario())
