"""What happened to a crawl is kept in its directory: read by offset, none twice and none missed."""

from skitter.control.history import History, read
from skitter.events import Requested, SetAside, Stopped, Warned
from skitter.model import Counts, Reason


def test_events_are_read_by_offset_each_once_and_in_order(tmp_path):
    path = tmp_path / "events.jsonl"
    keep = History(path)
    keep(Warned("one"))
    first = read(path)
    keep(SetAside("host", Reason("robots")))
    keep(Stopped("done", Counts(pages=3)))
    rest = read(path, first[-1].id)
    assert [type(each.happened.event).__name__ for each in rest] == ["SetAside", "Stopped"]
    assert read(path, rest[-1].id) == []
    assert [each.id for each in read(path)] == [first[0].id, *(each.id for each in rest)]
    assert len(read(path, 0, limit=2)) == 2


def test_what_people_are_not_told_is_not_kept(tmp_path):
    keep = History(tmp_path / "events.jsonl")
    keep(Requested("u", "h", "", 0.0, 0.0, 200, 0, "page", 1))
    assert read(tmp_path / "events.jsonl") == []


def test_a_line_torn_by_a_crash_is_skipped_and_cut_off_by_the_next_writer(tmp_path):
    path = tmp_path / "events.jsonl"
    History(path)(Warned("one"))
    with path.open("ab") as file:
        file.write(b'{"at":1.0,"event":{"type":"Warn')
    (one,) = read(path)
    assert read(path, one.id) == []
    History(path)(Warned("two"))
    (two,) = read(path, one.id)
    assert two.happened.event == Warned("two")


def test_an_offset_that_is_none_of_ours_is_harmless(tmp_path):
    path = tmp_path / "events.jsonl"
    History(path)(Warned("one"))
    History(path)(Warned("two"))
    assert read(path, 10**18) == []
    assert [each.happened.event for each in read(path, 5)] == [Warned("two")]
