"""The command line of `infer.py`: text in, tags out."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import TextIOWrapper
from typing import cast

from ms_crf.base import signals
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.files import text_writer
from ms_crf.cli import console
from ms_crf.cli.infer_arguments import Request, parser
from ms_crf.cli.parser import parse
from ms_crf.cli.terminal import Terminal
from ms_crf.formats.alignment import sentences_of
from ms_crf.formats.columns import for_columns
from ms_crf.formats.conllu import checked
from ms_crf.formats.document import Reading, Remarks
from ms_crf.formats.folders import Job
from ms_crf.formats.raw import raw_sentences, sentence_of_text
from ms_crf.formats.registry import BRAT, CONLL, FORMATS, HTML, JSON, TEXT, columns_of, of_stream
from ms_crf.formats.scoring import Scores
from ms_crf.formats.stream import numbered, open_lines
from ms_crf.models.base import SentenceError, device_for, unknown_tag_of
from ms_crf.render.tagged import Writer
from ms_crf.runs.records import model_version, newest
from ms_crf.tagging.streams import chunks
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.partial import opened
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import BLANKS, Deferred

from tqdm import tqdm

RUNS = 'runs'
_TITLE = 'Tagged text'                 # of a page that is not made of a file


def _utf8(text: str) -> str:
    """An argument of the command line as UTF-8; where the locale is another, Python has made lone surrogates of it."""
    if text.isascii() or not any('\udc80' <= character <= '\udcff' for character in text):
        return text
    try:
        return os.fsencode(text).decode('utf-8')
    except UnicodeEncodeError:                                   # surrogates that do not stand for bytes
        return text
    except UnicodeDecodeError as error:
        raise OptionError(f'--text must be UTF-8, got byte {error.object[error.start]:#04x} at column '
                          f'{error.start + 1}') from None


class _Command:
    """One call of infer.py.

    Args:
        request: what it asks for.
    """

    def __init__(self, request: Request) -> None:
        self.request, self.parsed, self.format = request, request.parsed, request.format
        self.scores: Scores | None = None
        self.remarks = Remarks(self.parsed.input or 'standard input')      # on spans in the input

    def load(self) -> None:
        path = self.parsed.mindir or self.parsed.run or newest(RUNS)
        device_for(self.parsed.device, path, watcher=Terminal(console.program('infer')))
        if sys.stderr.isatty():
            console.say(f'loading {path}')
        self.tagger = Tagger.load(path, temperature=self.parsed.temperature)
        self.characters = self.tagger.of_characters if self.parsed.chars is None else self.parsed.chars
        self.splitter = Deferred(self.parsed.splitter or self.tagger.splitter)
        if self.parsed.raw:
            self.splitter.split('')              # says at once if it is not installed
        self.confidence = self.parsed.confidence
        if self.confidence is None:
            self.confidence = self.format in (JSON, HTML) and self.tagger.gives_confidences
        self.mark = self.parsed.unknown_tag
        if self.mark is None:
            self.mark = unknown_tag_of(path, self.tagger.tags)
        self.model = model_version(path) if self.format == JSON else ''
        self._check_model()

    def _writer(self, tag_column: int | None) -> Writer:
        colour = self.request.interactive and self.format == TEXT and 'NO_COLOR' not in os.environ
        return Writer(self.format, self.tagger.scheme, self.tagger.tags, self.tagger.of_characters, self.confidence,
                      colour, tag_column, self.model)

    def _check_model(self) -> None:
        """Raises OptionError if an option asks for something that the model can't compute."""
        if self.confidence and not self.tagger.gives_confidences:
            raise OptionError('--confidence: this graph gives no confidences; export one with --confidence, or use the '
                              'run itself')
        if self.parsed.nbest and not self.tagger.gives_nbest:
            raise OptionError('--nbest: the n best taggings come from the run of a network only, not from an exported '
                              'graph or a hidden Markov model')

    def run(self) -> None:
        if self.request.interactive:
            self.writer = self._writer(None)
            _print(self.writer.begin(_TITLE))
            self._talk()
            _print(self.writer.end())
            return
        done = [job for job in self.request.jobs if self.request.many and job.target and os.path.lexists(job.target)]
        waiting = self.request.jobs if self.parsed.score else [job for job in self.request.jobs if job not in done]
        with self._bar() as bar:
            for job in waiting:
                if self.request.many and job.target:
                    os.makedirs(os.path.dirname(job.target), exist_ok=True)
                self._run_job(job, bar)
        if len(waiting) < len(self.request.jobs):
            _report(f'{len(waiting):,} of {len(self.request.jobs):,} files tagged; the others were in '
                    f'{self.parsed.output} already')
        if self.request.many:
            self._check_scored(self.parsed.input)
        for remark in self.remarks.lines():
            _report(remark)
        for line in self.scores.lines() if self.scores else ():
            console.show(line)

    def _run_job(self, job: Job, bar: tqdm) -> None:
        """Tags an input, from its beginning to its end."""
        self.name = '--text' if self.parsed.text is not None else 'standard input' if job.source == '-' else job.source
        tag_column = self.request.tag_column(job)
        self.writer = self._writer(tag_column)
        items = self._items_of(job)
        if self.format == CONLL:
            items = for_columns(items, self.name)
            items = items if tag_column is None else checked(items, self.name)
        with _output(job.target, not self.parsed.score) as write:
            write(self.writer.begin(_TITLE if not self.parsed.input else os.path.basename(job.source) or _TITLE))
            for chunk in chunks(items, lambda item: len(item.tokens)):
                self._tag(chunk, write)
                if not self.request.many:
                    bar.update(len(chunk))
            write(self.writer.end())
            if not self.request.many:
                self._check_scored(self.name)
        if self.request.many:
            bar.update(1)

    def _check_scored(self, name: str) -> None:
        if self.parsed.score and not (self.scores and self.scores.result.tokens):
            raise CorpusError(name, None, 'expected tagged sentences, got none')

    def _items_of(self, job: Job) -> Iterable[Sentence | None]:
        """The sentences of an input."""
        if self.parsed.text is not None:
            return self._items(_utf8(self.parsed.text))
        kind, raw = self.request.kind(job), self.parsed.raw
        reading = Reading(columns_of(job.source, self.request.columns), self.mark, self.remarks.add, self.splitter,
                          self.characters)
        if kind == BRAT:
            return sentences_of(FORMATS[BRAT].read(job.source, reading), reading)
        lines = numbered(open_lines(job.source, raw), self.name, self.parsed.strict, _report, raw)
        if raw:
            return raw_sentences(lines, self.splitter)
        reader = of_stream(job.source, kind).sentences
        assert reader is not None
        return reader(lines, self.name, reading)

    def _items(self, text: str) -> list[Sentence]:
        """What is in a text that came by itself."""
        if not self.parsed.raw:
            return [sentence_of_text(text, self.characters)]
        return [item for item in raw_sentences([(1, f'{text}\n')], self.splitter) if item is not None]

    def _bar(self) -> tqdm:
        hidden = self.parsed.text is not None or (not self.parsed.output and sys.stdout.isatty())
        total, unit = (len(self.request.jobs), 'files') if self.request.many else (None, 'sentences')
        return tqdm(total=total, unit=unit, leave=False, delay=2, disable=True if hidden else None, dynamic_ncols=True)

    def _tag(self, items: Sequence[Sentence], write: Callable[[str], object]) -> None:
        try:
            tagged = self.tagger.tag([item.tokens for item in items], self.confidence, self.parsed.nbest)
        except SentenceError as error:
            if error.index:
                self._tag(items[:error.index], write)
            line = None if self.parsed.text is not None else items[error.index].line
            raise CorpusError(self.name, line, error.reason) from None
        if self.parsed.score:
            self._score(items, tagged)
        write(''.join(self.writer.lines(item.predicted(one.prediction)) for item, one in zip(items, tagged)))

    def _score(self, items: Sequence[Sentence], tagged: Sequence[Sentence]) -> None:
        if self.scores is None:
            self.scores = Scores(self.tagger.found_scheme, self.tagger.scheme, self.name)
        self.scores.path = self.name
        self.scores.add([item.line for item in items], [opened(item.tags, self.mark) for item in items],
                        [sentence.tags for sentence in tagged])

    def _talk(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  that lines can be edited
        console.say('a sentence a line; an empty line or Ctrl-D ends')
        while True:
            try:
                with signals.handling(signals.interrupt):        # which leaves the terminal as it was
                    text = input('> ')
            except EOFError:
                console.show()
                return
            except UnicodeDecodeError:
                console.say('expected UTF-8')
                continue
            if not text.strip(BLANKS):
                return
            self._tag(self._items(text), _print)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _report(message: str) -> None:
    console.say(f'{console.program("infer")}: {message}')


@contextlib.contextmanager
def _output(name: str | None, shown: bool) -> Iterator[Callable[[str], object]]:
    """A function that writes text to a file, or to standard output without `name`, or nowhere if it is not `shown`."""
    if not name:
        yield _print if shown else lambda _: None
        return
    with text_writer(name) as write:
        yield write


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('infer', _infer, arguments)


def _infer(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    # Lone surrogates, which strings of JSON may hold, can't be written in UTF-8; escaped, they are the same JSON.
    cast(TextIOWrapper, sys.stdout).reconfigure(encoding='utf-8', errors='backslashreplace')
    command = _Command(Request(parsed, named))
    command.load()
    command.run()
    return 0
