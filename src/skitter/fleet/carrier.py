"""Links in transit between two workers of a fleet."""

from collections.abc import Mapping, Sequence

from skitter.fleet.messages import Carried, Carry
from skitter.fleet.processes import WorkerProcess


class Carrier:
    """Passes links from worker to worker, and counts what was sent and what was accepted."""

    def __init__(self, owners: Mapping[int, WorkerProcess]) -> None:
        self._owners = owners
        self._under_way: dict[tuple[int, int], tuple[int, int]] = {}  # (sender, number) -> (owner, links)
        self.sent = self.accepted = 0

    def carry(self, message: Carry) -> None:
        """Send links to their owner. If it is away, they are sent again when it is back."""
        key = (message.sender, message.number)
        if key not in self._under_way:
            self._under_way[key] = (message.to, message.size)
            self.sent += message.size
        self._owners[message.to].say(message)

    def carried(self, message: Carried) -> None:
        """Tell the sender that the owner has them."""
        _, links = self._under_way.pop((message.sender, message.number), (0, 0))
        self.accepted += links
        self._owners[message.sender].say(message)

    def forget(self, shards: Sequence[int]) -> None:
        """Nothing is in transit from or to these shards: their worker is gone."""
        for key, (owner, links) in list(self._under_way.items()):
            if owner in shards or key[0] in shards:
                del self._under_way[key]
                self.sent -= links
