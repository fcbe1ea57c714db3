"""The active model of the server with its process, queue and writers, and the HTML page for pasting text."""

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
from ms_crf.server.batching import Queue, TagJob
from ms_crf.server.child import ChildProcess, Say
from ms_crf.server.limits import Limits, RequestError
from ms_crf.server.metrics import Metrics
from ms_crf.server.process import PROCESS, ModelInfo, Settings
from ms_crf.server.reading import PreparedRequest

_INTERVAL = .1                         # seconds between checks whether requests still use a model


class ModelLoadError(OptionError):
    """The model cannot be loaded; the message is one line."""


class ServedModel:
    """A model that runs in its own process; `ServedModel.load` starts the process.

    Attributes:
        process: the model process.
        info: type, tags and features of the model.
        queue: the sentences that wait for the model.
        writers: writers of JSON records and of HTML without and with confidences, by (format, confidence).
        loaded: time of loading, in seconds since 1970.
        mark: identifier of this loaded model, sent as MS-CRF-Model. Loading the same run again gives another mark.
    """

    def __init__(self, process: ChildProcess, info: ModelInfo, limits: Limits, metrics: Metrics) -> None:
        self.process, self.info = process, info
        self.queue = Queue(lambda *batch: process.ask(batch), limits.queue, metrics.batch)
        self.writers = {kind: Writer(kind[0], info.scheme, info.tags, info.of_characters, kind[1])
                        for kind in ((JSON, True), (HTML, False), (HTML, True))}
        self._users, self.loaded = 0, time.time()
        self.mark = hashlib.sha256(f'{process.pid} {self.loaded}'.encode()).hexdigest()[:12]

    @classmethod
    async def load(cls, settings: Settings, limits: Limits, metrics: Metrics, say: Say) -> 'ServedModel':
        """Starts a process and waits until it has loaded the model; raises ModelLoadError if loading fails."""
        process = await ChildProcess.start('ms_crf.server.process', PROCESS, say)
        info: ModelInfo | str = ''
        try:
            with contextlib.suppress(RequestError):              # the process has ended
                info = await process.ask(settings)
        except asyncio.CancelledError:           # the server stops
            await process.close()
            raise
        if isinstance(info, ModelInfo):
            return cls(process, info, limits, metrics)
        status = await process.close()
        raise ModelLoadError(info or f'{settings.path}: cannot load the model: the process ended with status {status}')

    def splitter(self, name: str | None) -> str:
        """Returns the splitter for a request that names a splitter, or None for the splitter of the model.

        Raises RequestError if the name is unknown.
        """
        known = self.info.splitters
        if name is not None and name not in known:
            raise RequestError(422, f'expected "splitter" to be one of {", ".join(known)}, got {name!r:.60}')
        return name or self.info.splitter

    def check(self, confidence: bool | None, nbest: int) -> None:
        """Raises RequestError if the model cannot compute confidences or n-best lists that a request asks for."""
        if confidence and not self.info.gives_confidences:
            raise RequestError(422, 'expected "confidence" to be false because the graph was exported without '
                                    'confidences, got true')
        if nbest and not self.info.gives_nbest:
            raise RequestError(422, f'expected "nbest" to be 0 for a model without n-best decoding, got {nbest}')

    async def tag(self, request: PreparedRequest, kind: str) -> list[str]:
        """Tags sentences and returns a JSON record or an HTML fragment for each sentence.

        Args:
            request: the sentences and options.
            kind: 'json' or 'html'.
        """
        confidence = self.info.gives_confidences if request.confidence is None else request.confidence
        writer = self.writers[kind, kind == JSON or confidence]
        items = request.items

        def write(index: int, prediction: Any) -> str:
            if isinstance(prediction, RequestError):
                raise prediction
            return writer.lines(items[index].predicted(prediction)).rstrip('\n')

        return await self.queue.tag(TagJob([item.tokens for item in items], (confidence, request.nbest), write))

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """A context that keeps the process running, even if another model becomes the active model."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def close(self) -> int:
        """Ends the process when no request uses the model any more; returns the exit status of the process."""
        while self._users:
            await asyncio.sleep(_INTERVAL)
        return await self.process.close()


def page(model: ServedModel, name: str, most: int) -> tuple[str, str]:
    """Returns the HTML page of a model and its Content-Security-Policy header.

    Args:
        model: the active model.
        name: name of the run, shown in the heading.
        most: limit of n-best taggings.
    """
    tagged: Page = model.writers[HTML, model.info.gives_confidences].page
    style, script = tagged.style() + asset(__file__, 'page.css'), asset(__file__, 'page.js')
    policy = (f"default-src 'none'; style-src '{policy_hash(style)}'; script-src '{policy_hash(script)}'; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
    counts = [0, *(count for count in (2, 3, 5, 10) if model.info.gives_nbest and count <= most)]
    choices = ''.join(f'<option value="{count}">{f"{count} best" if count else "best only"}</option>'
                      for count in counts)
    return Template(asset(__file__, 'page.html')).substitute(
        style=style, kind=tagged.kind, mark=model.mark, name=escaped(name), legend=tagged.legend(), choices=choices,
        switch=tagged.switch(), script=script), policy
