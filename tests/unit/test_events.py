"""The event stream, and its readers."""

from skitter.events import Event, Events, Settled, Stopped, Warned
from skitter.model import Counts

STOPPED, WARNED = Stopped("done", Counts()), Warned("a word")


class Gathering:
    """A reader that works when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Event] = []
        self.done: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.waiting.append(event)

    def flush(self) -> None:
        self.done += self.waiting
        self.waiting = []


def test_a_reader_gets_what_it_subscribed_to_and_others_get_all():
    everything: list[Event] = []
    warnings: list[Event] = []
    events = Events(everything.append)
    events.subscribe(warnings.append, Warned)
    events.emit(STOPPED)
    events.emit(WARNED)
    assert everything == [STOPPED, WARNED]
    assert warnings == [WARNED]


def test_it_is_known_whether_anybody_hears_a_kind():
    events = Events()
    assert not events.readers[Settled]
    events.subscribe(print, Warned)
    assert not events.readers[Settled]
    events.subscribe(print)
    assert events.readers[Settled]


def test_readers_that_gather_are_done_when_flush_returns():
    reader, events = Gathering(), Events()
    events.subscribe(reader, Stopped, Warned)
    events.emit(STOPPED)
    events.emit(WARNED)
    assert reader.done == []
    events.flush()
    assert reader.done == [STOPPED, WARNED]
