"""The sentences of inputs, in the tokens that a model was trained on."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import cast

from ms_crf.base.files import PathLike
from ms_crf.base.watchers import Watcher
from ms_crf.formats.document import Reading, Report, nowhere
from ms_crf.formats.lines import numbered, open_lines
from ms_crf.formats.raw import raw_sentences, sentence_of_text
from ms_crf.formats.registry import columns_of, of_stream
from ms_crf.models.opening import device_for, open_model, run_plugin
from ms_crf.runs.records import newest
from ms_crf.tagging.arguments import LINES, OfText
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.partial import MARK
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Deferred


def source_of(value: PathLike | Iterable[str] | None) -> object:
    """An argument `input` as `OfText` takes it: a path, `LINES` for standard input, or an iterator of lines."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return value
    return LINES if value is sys.stdin else iter(value)


class Inputs:
    """Loads a model, and reads sentences for it.

    Args:
        given: what names the model, and says how inputs are read.
        watcher: is told what is loaded, and which lines are no UTF-8.
        temperature: of the model.

    Attributes:
        path: of the model.
        model: its run directory or graph, opened.
        tagger: what tags with it.
        characters: whether each character of a text is a token.
        splitter: finds sentences and tokens in raw text.
    """

    def __init__(self, given: OfText, watcher: Watcher, temperature: float = 1.0) -> None:
        if given.plugin:
            run_plugin(given.plugin)
        self.given, self.watcher = given, watcher
        self.path = given.mindir or given.run or newest('runs')
        self.model = open_model(self.path)
        device_for(given.device, self.model, watcher=watcher)
        watcher.say(f'loading {self.path}')
        self.tagger = Tagger.load(self.model, temperature=temperature)
        self.characters = self.tagger.of_characters if given.chars is None else given.chars
        self.splitter = Deferred(given.splitter or self.tagger.splitter)
        if given.raw:
            self.splitter.split('')              # raises at once if it is not installed

    def of_text(self, text: str) -> list[Sentence]:
        """The sentences of a text that came alone: one, or of raw text those that are found."""
        if not self.given.raw:
            return [sentence_of_text(text, self.characters)]
        return [item for item in raw_sentences([(1, f'{text}\n')], self.splitter) if item is not None]

    def of_file(self, source: str, columns: tuple[int, ...], report: Report = nowhere,
                mark: str = MARK) -> Iterator[Sentence | None]:
        """The sentences of a file, or of the caller's lines; None whenever the next one is not there yet.

        Args:
            source: its path, or `LINES`.
            columns, report, mark: see `Reading`.
        """
        name, raw = self.name(source), self.given.raw
        if isinstance(self.given.input, str):
            lines = numbered(open_lines(source, raw), name, self.given.strict, self.watcher.warn, raw)
        else:
            lines = self._given_lines(raw)
        if raw:
            return raw_sentences(lines, self.splitter)
        reader = of_stream(source, self.given.input_format).sentences
        assert reader is not None
        return reader(lines, name, self.reading(source, columns, report, mark))

    def reading(self, source: str, columns: tuple[int, ...], report: Report = nowhere, mark: str = MARK) -> Reading:
        """How a file is read; arguments are those of `of_file`."""
        return Reading(columns_of(source, columns), mark, report, self.splitter, self.characters)

    def name(self, source: str) -> str:
        """A file as messages name it."""
        return self.given.name if source == LINES else source

    def _given_lines(self, raw: bool) -> Iterator[tuple[int, str]]:
        """The caller's lines with their numbers; of raw text each has its end."""
        for number, line in enumerate(cast(Iterable[str], self.given.input), 1):
            if not isinstance(line, str):
                raise TypeError(f'input must be a path or lines of text, got a line of type {type(line).__name__}')
            yield number, line if raw and line.endswith('\n') else line.rstrip('\r\n') + '\n' * raw
