"""Bytes on an engine that Skitter did not write, or that are truncated."""

from msgspec import MsgspecError

DAMAGED = (MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that decoding them may raise."""
