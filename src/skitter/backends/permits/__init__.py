"""Permits to send to an IP address: of one process, and of the workers of a fleet. Those of a cluster are in `redis`."""

from skitter.backends.permits.memory import MemoryPermits
from skitter.backends.permits.table import SharedPermits

__all__ = ["MemoryPermits", "SharedPermits"]
