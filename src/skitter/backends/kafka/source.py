"""Pages from Kafka, batch by batch, to be indexed."""

from collections.abc import AsyncIterator, Sequence

from skitter.backends.kafka.documents import DocumentReader
from skitter.backends.kafka.sending import Sender
from skitter.engines.breaker import until_again
from skitter.engines.retry import patiently
from skitter.ports import EngineAway, Entry
from skitter.settings import Settings

_LOOKS = 5  # empty reads of about a second each that mean there are no pages; the group needs time to form


class DocumentSource:
    """Reads pages as one of a group of readers. A batch is committed when the next one is requested."""

    def __init__(self, settings: Settings) -> None:
        self._sender = Sender(settings.kafka)
        self.guard = self._sender.guard
        self._reader = DocumentReader(settings, self._sender)
        self._size = settings.search.bulk

    async def batches(self, *, until_none_are_left: bool = False) -> AsyncIterator[Sequence[Entry]]:
        """Batches as they arrive, without end or until none has arrived for a while."""
        empty = 0
        while not (until_none_are_left and empty >= _LOOKS):
            batch = await patiently(lambda: self._reader.batch(self._size))
            if batch:
                empty = 0
                yield batch
            elif until_none_are_left:
                empty = empty + 1 if await self._answers() else 0
            await patiently(self._reader.done)

    async def _answers(self) -> bool:
        """Whether the brokers answer; without them, no pages proves nothing."""
        try:
            await self.guard.call(self._sender.check)
        except EngineAway as away:
            await until_again(away)
            return False
        return True

    async def close(self) -> None:
        """Leave the group; uncommitted messages are read again by the next reader."""
        await self._reader.close()
        await self._sender.close()
