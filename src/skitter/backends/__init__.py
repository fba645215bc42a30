"""Implementations of the ports, one folder per engine. Only `compose` imports these."""
