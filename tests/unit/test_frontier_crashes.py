"""The crash mark is readable by the next owner of the shard."""

from skitter.frontier.crashes import InHand


def test_the_crash_mark_survives_its_process(tmp_path):
    hand = InHand(tmp_path / "hand")
    assert hand.read() == bytes(16)
    assert (tmp_path / "hand").stat().st_blocks  # no hole, which could not be written to on a full disk
    hand.write(b"0123456789abcdef")
    other = InHand(tmp_path / "hand")
    assert other.read() == b"0123456789abcdef"
    hand.write(None)
    assert other.read() == bytes(16)
    hand.close()
    other.close()
