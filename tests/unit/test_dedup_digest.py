"""The digest that archives use."""

from base64 import b32encode
from hashlib import sha1 as plain_sha1

from hypothesis import given
from hypothesis import strategies as st

from skitter.dedup.digest import sha1


def test_the_digest_of_nothing_is_the_known_one():
    assert sha1(b"") == b"sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


@given(st.lists(st.binary(), min_size=1, max_size=4))
def test_it_is_sha_1_in_base_32_of_the_pieces_in_a_row(pieces):
    assert sha1(*pieces) == b"sha1:" + b32encode(plain_sha1(b"".join(pieces)).digest())
