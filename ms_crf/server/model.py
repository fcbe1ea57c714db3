"""A model that is served: its queue, how its answers are written, and the page on which text is pasted and tagged."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Iterator
from string import Template
from typing import Any

from ms_crf.base.errors import OptionError
from ms_crf.formats.registry import HTML, JSON
from ms_crf.render.html import Page, asset, escaped, policy_hash
from ms_crf.render.tagged import Writer
from ms_crf.server.batching import Job, Queue
from ms_crf.server.child import Child, Say
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.metrics import Metrics
from ms_crf.server.process import WORK, About, Settings
from ms_crf.server.reading import Wanted

_LOOK = .1                             # seconds between two looks at who uses a model


class Failed(OptionError):
    """A model that can't be served, in one line."""


class Model:
    """A model in a process of its own; `Model.load` makes one.

    Attributes:
        process: tags.
        about: what it is.
        queue: what waits for it.
        writers: of records, and of pieces of a page without and with confidences.
        mark: tells it from another one that was loaded at another time.
    """

    def __init__(self, process: Child, about: About, limits: Limits, metrics: Metrics) -> None:
        self.process, self.about = process, about
        self.queue = Queue(lambda *batch: process.ask(batch), limits.queue, metrics.batch)
        self.writers = {kind: Writer(kind[0], about.scheme, about.tags, about.of_characters, kind[1])
                        for kind in ((JSON, True), (HTML, False), (HTML, True))}
        self._users, self.loaded = 0, time.time()
        self.mark = hashlib.sha256(f'{process.pid} {self.loaded}'.encode()).hexdigest()[:12]

    @classmethod
    async def load(cls, settings: Settings, limits: Limits, metrics: Metrics, say: Say) -> 'Model':
        """Starts the process and waits until it has loaded the model; raises Failed if it can't."""
        process = await Child.start('ms_crf.server.process', WORK, say)
        about: About | str = ''
        try:
            with contextlib.suppress(Refused):                   # it has ended
                about = await process.ask(settings)
        except asyncio.CancelledError:           # the server is to end
            await process.close()
            raise
        if isinstance(about, About):
            return cls(process, about, limits, metrics)
        status = await process.close()
        raise Failed(about or f'{settings.path}: the process that loads it ended with status {status}')

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

        def write(index: int, said: Any) -> str:
            if isinstance(said, Refused):
                raise said
            return writer.lines(items[index].predicted(said)).rstrip('\n')

        return await self.queue.tag(Job([item.tokens for item in items], (confidence, wanted.nbest), write))

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """Within the block the process stays, whichever model serves others by then."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def close(self) -> int:
        """Lets its process end once nobody uses it; returns the status of the process."""
        while self._users:
            await asyncio.sleep(_LOOK)
        return await self.process.close()


def page(model: Model, name: str, most: int) -> tuple[str, str]:
    """Returns the page of a model, and the policy (Content-Security-Policy) that it is sent with.

    Args:
        model: that tags.
        name: as it is shown.
        most: likeliest taggings that may be asked for.
    """
    tagged: Page = model.writers[HTML, model.about.gives_confidences].page
    style, script = tagged.style() + asset(__file__, 'page.css'), asset(__file__, 'page.js')
    policy = (f"default-src 'none'; style-src '{policy_hash(style)}'; script-src '{policy_hash(script)}'; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    counts = [0, *(count for count in (2, 3, 5, 10) if model.about.gives_nbest and count <= most)]
    choices = ''.join(f'<option value="{count}">{f"the {count} likeliest" if count else "the best only"}</option>'
                      for count in counts)
    return Template(asset(__file__, 'page.html')).substitute(
        style=style, kind=tagged.kind, mark=model.mark, name=escaped(name), legend=tagged.legend(), choices=choices,
        switch=tagged.switch(), script=script), policy
