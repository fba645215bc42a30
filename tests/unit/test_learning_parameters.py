"""Parameters that change nothing are learned from groups of URLs, and from nothing that only looks like evidence."""

import hashlib
import itertools

import pytest

from skitter.dedup.simhash import sketch
from skitter.schedule.learning import parameters as learning
from skitter.schedule.learning.parameters import (
    FEWEST,
    NEEDLESS,
    OPEN,
    WRONG,
    Content,
    Lessons,
    Parameter,
    Samples,
    lower_bound,
    reduced,
    said,
    without,
)

HOST = "http://a.example"


class Host:
    """A host that answers with what `content` says of a key, and what is learned of it."""

    def __init__(self, content):
        self.content, self.parameters, self.samples, self.wrong = content, {}, Samples(), 0
        self.stored = {}
        self.undone = []

    def fetch(self, target):
        key = HOST + target
        lessons = Lessons("a.example", self.parameters, self.wrong, self.samples)
        content = self.content(target)
        lesson = lessons.learn(key, content, self.stored)
        self.stored[key] = content
        self.wrong = lessons.wrong
        self.undone += lesson.undone
        return lesson

    def state(self, name):
        return self.parameters[name].state if name in self.parameters else OPEN


def text(*parts):
    """Contents that are far apart unless they are equal."""
    digest = hashlib.blake2b("/".join(parts).encode(), digest_size=8).digest()
    return Content(f"sha1:{digest.hex()}", int.from_bytes(digest, "big"))


def by_id_alone(target):
    return text(without(target, "ref")[0])


def token(number):
    return f"{number * 2654435761 % 2**40:012x}"


def test_a_parameter_that_changes_nothing_is_learned_and_only_then():
    host = Host(by_id_alone)
    for number in range(100):
        host.fetch(f"/page?id={number}")
        lesson = host.fetch(f"/page?id={number}&ref={token(number)}")
        assert (lesson.learned == ("ref",)) == (number == FEWEST - 1)
        if lesson.learned:
            break
    assert host.state("ref") == NEEDLESS
    assert host.state("id") == OPEN
    assert reduced(f"{HOST}/page?id=5&ref=never-seen", host.parameters) == (f"{HOST}/page?id=5", ["ref"])
    assert f"{FEWEST} of {FEWEST} groups" in said("ref", host.parameters["ref"])


def test_the_page_without_it_may_come_later_or_never():
    later = Host(by_id_alone)
    for number in range(40):
        later.fetch(f"/page?id={number}&ref={token(number)}")
        later.fetch(f"/page?id={number}")
    never = Host(by_id_alone)
    for number, turn in itertools.product(range(40), range(2)):
        never.fetch(f"/page?id={number}&ref={token(2 * number + turn)}")
    assert later.state("ref") == never.state("ref") == NEEDLESS


def test_one_that_tells_pages_apart_is_never_learned():
    host = Host(text)
    for number in range(200):
        host.fetch(f"/page?id={number}&lang={'en' if number % 2 else 'de'}")
        host.fetch(f"/page?id={number}")
    assert {name for name, each in host.parameters.items() if each.state != OPEN} == set()


def test_one_that_changes_few_pages_is_not_learned():
    host = Host(
        lambda target: text(target) if "id=7&" in target or "id=14&" in target else by_id_alone(target)
    )
    for number in range(30):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&ref={token(number)}")
    assert host.state("ref") == OPEN
    assert host.parameters["ref"].different == 2


def test_few_values_are_dropped_one_by_one():
    host = Host(lambda target: text(target.replace("&start=0", "")))
    for number in range(60):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&start=0")
    assert host.state("start") == NEEDLESS
    assert reduced(f"{HOST}/page?id=1&start=0", host.parameters)[1] == ["start"]
    assert reduced(f"{HOST}/page?id=1&start=10", host.parameters)[1] == []


def test_a_host_that_answers_everything_alike_teaches_nothing():
    host = Host(lambda _target: text("the same"))
    for number in range(300):
        host.fetch(f"/page{number % 9}?id={number}&ref={token(number)}")
        host.fetch(f"/page{number % 9}?id={number}")
    assert {each.state for each in host.parameters.values()} <= {OPEN}


def test_one_page_for_everything_in_the_middle_of_a_crawl_teaches_nothing():
    closed = []
    host = Host(lambda target: text("closed today") if closed else text(target))
    for number in range(50):
        host.fetch(f"/page?id={number}")
    closed.append(True)
    for number in range(300):
        host.fetch(f"/other?id={number}&lang=en")
        host.fetch(f"/other?id={number}")
    assert {each.state for each in host.parameters.values()} <= {OPEN}


def test_pages_that_are_all_alike_are_only_compared_exactly():
    def template(target):
        return Content(f"sha1:{target}", 0xFFFF0000FFFF0000 ^ (len(target) & 1))

    host = Host(template)
    for number in range(200):
        host.fetch(f"/page?id={number}&ref={token(number)}")
        host.fetch(f"/page?id={number}")
    assert {each.state for each in host.parameters.values()} <= {OPEN}


def test_a_byte_that_changes_with_every_answer_does_not_hide_a_session_id():
    turns = itertools.count()

    def noisy(target):
        same, turn = by_id_alone(target), next(turns)
        return Content(f"sha1:{turn}", same.simhash ^ (1 << turn % 64))

    host = Host(noisy)
    for number in range(40):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&ref={token(number)}")
    assert host.state("ref") == NEEDLESS
    assert host.state("id") == OPEN


def test_the_same_words_in_another_order_are_the_same_page():
    def listing(target):
        path = without(target, "sort")[0]
        words = "".join(hashlib.blake2b(f"{path}{n}".encode(), digest_size=8).hexdigest() for n in range(16))
        return Content(text(target).digest, text(target).simhash, bytes.fromhex(words))

    host = Host(listing)
    for number in range(40):
        host.fetch(f"/list?id={number}")
        host.fetch(f"/list?id={number}&sort={'name' if number % 2 else 'date'}")
    assert host.state("sort") == NEEDLESS
    assert host.state("id") == OPEN
    assert reduced(f"{HOST}/list?id=1&sort=size", host.parameters)[1] == []


def test_without_a_sketch_near_texts_say_nothing_and_far_ones_differ():
    apart = {"near": 10, "far": 30}

    def stored(target):
        bits = next((apart[name] for name in apart if f"{name}=" in target), 0)
        same = text(target.partition("?")[0])
        return Content(text(target).digest, same.simhash ^ (2**bits - 1))

    host = Host(stored)
    for number in range(40):
        for more in ("", "?near=1", "?far=1"):
            host.fetch(f"/page{number}{more}")
    assert host.parameters["near"].groups == 0
    assert host.parameters["far"].different > 30


def test_a_sketch_is_of_the_words_alone():
    words = [f"word{n}" for n in range(200)]
    mixed = sorted(words, key=lambda word: hashlib.blake2b(word.encode()).digest())
    assert sketch(" ".join(words), 16) == sketch(" ".join(mixed), 16)
    assert len(sketch(" ".join(words), 16)) == 128
    others = sketch(" ".join(f"other{n}" for n in range(200)), 16)
    assert len(others) == 128
    assert others != sketch(" ".join(words), 16)
    assert sketch("", 16) == b""


def learned():
    host = Host(by_id_alone)
    for number in range(40):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&ref={token(number)}")
    assert host.state("ref") == NEEDLESS
    return host


def test_a_rule_that_turns_out_wrong_is_undone_for_good():
    host = learned()
    host.content = text
    for number in range(41, 45):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&ref={token(number)}")
    assert host.undone == ["ref"]
    assert host.state("ref") == WRONG
    assert "2 differed" in said("ref", host.parameters["ref"])
    host.content = by_id_alone
    for number in range(50, 150):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&ref={token(number)}")
    assert host.state("ref") == WRONG


def test_one_difference_in_many_retests_undoes_nothing():
    host = learned()
    for number in range(100, 150):
        host.fetch(f"/page?id={number}")
        host.fetch(f"/page?id={number}&ref={token(number)}")
    host.content = text
    host.fetch("/page?id=200")
    host.fetch("/page?id=200&ref=x")
    assert host.state("ref") == NEEDLESS
    assert (host.parameters["ref"].retested, host.parameters["ref"].failed) == (71, 1)


def test_after_three_wrong_rules_a_host_teaches_nothing_more():
    host = Host(lambda target: text(target.partition("?")[0]))
    for number in range(60):
        host.fetch(f"/page{number}")
        for name in ("a", "b", "c", "d"):
            host.fetch(f"/page{number}?{name}={token(number)}")
    assert {host.state(name) for name in "abcd"} == {NEEDLESS}
    host.content = text
    for number in range(100, 104):
        host.fetch(f"/page{number}")
        for name in ("a", "b", "c", "d"):
            host.fetch(f"/page{number}?{name}={token(number)}")
    assert sorted(host.undone) == ["a", "b", "c", "d"]
    assert {host.state(name) for name in "abcd"} == {WRONG}
    host.content = lambda target: text(target.partition("?")[0])
    for number in range(200, 260):
        host.fetch(f"/page{number}")
        host.fetch(f"/page{number}?e={token(number)}")
    assert host.state("e") == OPEN


def test_parameters_by_the_million_are_bounded():
    host = Host(by_id_alone)
    host.samples = Samples(groups=200, hosts=4)
    for number in range(3000):
        host.fetch(f"/page?id={number % 50}&p{number}={token(number)}&{'n' * 70}{number}=1")
        host.fetch(f"/page?id={number % 50}")
        host.stored.clear()
    assert len(host.parameters) <= learning._NAMES
    assert len(host.samples.groups) <= 200
    assert all(len(name) <= 64 for name in host.parameters)
    assert all(len(each.values) <= learning._VALUES for each in host.parameters.values())


@pytest.mark.parametrize(
    ("key", "name", "expected"),
    [
        ("http://a/?b=1", "b", ("http://a/", ["1"])),
        ("http://a/?b=1&c=2", "b", ("http://a/?c=2", ["1"])),
        ("http://a/?b=1&b=2&c", "b", ("http://a/?c", ["1", "2"])),
        ("http://a/?b", "b", ("http://a/", [""])),
        ("http://a/", "b", ("http://a/", [])),
        ("http://a/?c=b", "b", ("http://a/?c=b", [])),
    ],
)
def test_a_key_without_a_parameter(key, name, expected):
    assert without(key, name) == expected


def test_several_needless_parameters_are_dropped_together():
    both = {"a": Parameter(state=NEEDLESS, values=["1"]), "c": Parameter(state=NEEDLESS, values=["3"])}
    assert reduced("http://h/?a=1&b=2&c=3", both) == ("http://h/?b=2", ["a", "c"])
    assert reduced("http://h/?a=1&b=2&c=4", both) == ("http://h/?b=2&c=4", ["a"])


def test_the_bound_is_wilsons():
    assert lower_bound(20, 20, 1.0) == pytest.approx(20 / 21)
    assert lower_bound(10, 20, 1.96) == pytest.approx(0.2993, abs=1e-4)
    assert lower_bound(0, 20, 1.96) == pytest.approx(0.0)
