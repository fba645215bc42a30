"""The crash mark is readable by the next owner of the shard."""

from skitter.frontier.crashes import NOTHING, InHand


def test_the_crash_mark_survives_its_process(tmp_path):
    hand = InHand(tmp_path / "hand")
    mark = hand.open()
    assert mark[:] == bytes(16)
    assert (tmp_path / "hand").stat().st_blocks  # no hole, which could not be written to on a full disk
    mark[:] = b"0123456789abcdef"
    other = InHand(tmp_path / "hand")
    assert other.open()[:] == b"0123456789abcdef"
    mark[:] = NOTHING
    assert other.open()[:] == bytes(16)
    hand.close()
    other.close()
