"""Who takes which shard, who gives one back: all end with a fair share, whoever comes or goes."""

from hypothesis import given
from hypothesis import strategies as st

from skitter.cluster.shares import plan


def settled(workers, owners):
    """Everybody follows his plan, one after the other, until nobody has one."""
    owners, moves = dict(owners), 0
    for _ in range(200):
        before = dict(owners)
        for worker in workers:
            take, give = plan(worker, workers, owners)
            assert all(owners[shard] == worker for shard in give)
            assert all(owners[shard] is None for shard in take)
            owners |= dict.fromkeys(take, worker) | dict.fromkeys(give)
            moves += len(give)
        if owners == before:
            return owners, moves
    raise AssertionError("they never agree")


@given(
    st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=7, unique=True),
    st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=40),
)
def test_everybody_ends_with_a_fair_share(workers, held):
    owners = {
        shard: workers[number] if number is not None and number < len(workers) else None
        for shard, number in enumerate(held)
    }
    ended, _ = settled(workers, owners)
    shares = [list(ended.values()).count(worker) for worker in workers]
    assert None not in ended.values()
    assert max(shares) - min(shares) <= 1


def test_a_newcomer_costs_no_more_moves_than_its_share():
    owners = {shard: "ab"[shard % 2] for shard in range(12)}
    ended, moves = settled(["a", "b", "c"], owners)
    assert sorted(ended.values()).count("c") == 4
    assert moves == 4


def test_nothing_is_given_back_while_nobody_lacks_anything():
    owners = {0: "a", 1: "a", 2: "b"}
    assert plan("a", ["a", "b"], owners) == ([], [])
    assert plan("b", ["a", "b"], owners) == ([], [])


def test_free_shards_go_to_those_who_lack_some_before_anybody_gives_one_up():
    owners = {0: "a", 1: "a", 2: "a", 3: None, 4: None}
    assert plan("a", ["a", "b"], owners) == ([], [])
    assert sorted(plan("b", ["a", "b"], owners).take) == [3, 4]


def test_one_alone_takes_everything():
    assert sorted(plan("a", [], {0: None, 1: None, 2: None}).take) == [0, 1, 2]


def test_those_who_start_together_begin_at_different_shards():
    free = dict.fromkeys(range(8))
    first = plan("a", ["a", "b"], free).take
    second = plan("b", ["a", "b"], free).take
    assert not set(first) & set(second)
