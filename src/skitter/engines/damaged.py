"""Bytes on an engine that somebody else has put there, or that were cut."""

from msgspec import MsgspecError

DAMAGED = (MsgspecError, UnicodeDecodeError, RecursionError)
"""What reading them may come to."""
