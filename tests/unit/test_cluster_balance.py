"""Who takes which shard, who gives one back: all end with a fair share, whoever comes or goes."""

from hypothesis import given
from hypothesis import strategies as st

from skitter.cluster.balance import plan


def settled(workers, owners):
    """Everybody follows his plan, one after the other, until nobody has one."""
    owners, moves = list(owners), 0
    for _ in range(200):
        before = list(owners)
        for worker in workers:
            take, give = plan(worker, workers, owners)
            assert all(owners[shard] == worker for shard in give)
            assert all(owners[shard] == "" for shard in take)
            for shard in take:
                owners[shard] = worker
            for shard in give:
                owners[shard] = ""
            moves += len(give)
        if owners == before:
            return owners, moves
    raise AssertionError("they never agree")


@given(
    st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=7, unique=True),
    st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=40),
)
def test_everybody_ends_with_a_fair_share(workers, held):
    owners = [workers[number] if number is not None and number < len(workers) else "" for number in held]
    ended, _ = settled(workers, owners)
    shares = [ended.count(worker) for worker in workers]
    assert "" not in ended
    assert max(shares) - min(shares) <= 1


def test_a_newcomer_costs_no_more_moves_than_its_share():
    owners = ["a", "b"] * 6
    ended, moves = settled(["a", "b", "c"], owners)
    assert ended.count("c") == 4
    assert moves == 4


def test_nothing_is_given_back_while_nobody_lacks_anything():
    owners = ["a", "a", "b"]
    assert plan("a", ["a", "b"], owners) == ([], [])
    assert plan("b", ["a", "b"], owners) == ([], [])


def test_free_shards_go_to_those_who_lack_some_before_anybody_gives_one_up():
    owners = ["a", "a", "a", "", ""]
    assert plan("a", ["a", "b"], owners) == ([], [])
    assert sorted(plan("b", ["a", "b"], owners).take) == [3, 4]


def test_one_alone_takes_everything():
    assert sorted(plan("a", [], ["", "", ""]).take) == [0, 1, 2]


def test_those_who_start_together_begin_at_different_shards():
    free = [""] * 8
    first = plan("a", ["a", "b"], free).take
    second = plan("b", ["a", "b"], free).take
    assert not set(first) & set(second)
