"""A model that is served: the process that tags with it, the queue in front of it, how its answers are written."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from ms_crf.formats.registry import HTML, JSON
from ms_crf.render.tagged import Writer
from ms_crf.server.batching import Job, Queue
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.metrics import Metrics
from ms_crf.server.process import Process
from ms_crf.server.reading import Wanted
from ms_crf.server.worker import Settings


class Model:
    """A model in a process of its own; `Model.load` makes one.

    Attributes:
        about: what it is.
        queue: what waits for it.
        writers: of records, and of pieces of a page without and with confidences.
        mark: tells it from another one that was loaded at another time.
    """

    def __init__(self, process: Process, limits: Limits, metrics: Metrics) -> None:
        self.process, self.about = process, process.about
        self.queue = Queue(process.send, limits.queue, metrics.batch)
        about = self.about
        self.writers = {kind: Writer(kind[0], about.scheme, about.tags, about.of_characters, kind[1])
                        for kind in ((JSON, True), (HTML, False), (HTML, True))}
        self.page = self.writers[HTML, about.gives_confidences].page
        self._users, self._free = 0, asyncio.Event()
        self._free.set()
        self.loaded = time.time()
        self.mark = hashlib.sha256(f'{process.pid} {self.loaded}'.encode()).hexdigest()[:12]

    @classmethod
    async def load(cls, settings: Settings, limits: Limits, metrics: Metrics, say: Callable[[str], None]) -> 'Model':
        """Starts the process and waits for it; raises Failed if there is no such model."""
        return cls(await Process.start(settings, say), limits, metrics)

    def splitter(self, name: str | None) -> str:
        """The splitter of a request that names one, or None for the model's; raises Refused if it is unknown."""
        known = self.about.splitters
        if name is not None and name not in known:
            raise Refused(422, f'expected "splitter" to be one of {", ".join(known)}, got {name!r:.60}')
        return name or self.about.splitter

    def check(self, confidence: bool | None, nbest: int) -> None:
        """Raises Refused if the model can't compute what is asked for."""
        if confidence and not self.about.gives_confidences:
            raise Refused(422, 'expected "confidence" to be false for a graph that was exported without, got true')
        if nbest and not self.about.gives_nbest:
            raise Refused(422, f'expected "nbest" to be 0 for a model that does not compute it, got {nbest}')

    async def tag(self, wanted: Wanted, kind: str) -> list[str]:
        """For each sentence its record, or its piece of a page.

        Args:
            wanted: the sentences.
            kind: 'json' or 'html'.
        """
        confidence = self.about.gives_confidences if wanted.confidence is None else wanted.confidence
        writer = self.writers[kind, kind == JSON or confidence]
        items = wanted.items

        def write(index: int, said: tuple[Any, ...]) -> str:
            if len(said) == 2:
                raise Refused(*said)
            return writer.lines(items[index].predicted(said)).rstrip('\n')

        return await self.queue.tag(Job([item.tokens for item in items], (confidence, wanted.nbest), write))

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Within the block the process stays, whichever model serves others by then."""
        self._users += 1
        self._free.clear()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._free.set()

    async def close(self) -> int:
        """Lets its process end once nobody uses it; returns the status of the process."""
        await self._free.wait()
        return await self.process.close()
