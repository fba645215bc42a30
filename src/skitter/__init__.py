"""Skitter: a polite web crawler that never loses work."""

__version__ = "0.1.0"
