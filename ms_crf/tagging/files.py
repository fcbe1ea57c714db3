"""The function `tag`: text, files and streams in, tags out."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO, cast

from ms_crf.base.errors import CorpusError, OptionError, argument
from ms_crf.base.files import PathLike, text_writer
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats import conllu
from ms_crf.formats.alignment import sentences_of
from ms_crf.formats.columns import for_columns
from ms_crf.formats.document import ReadOptions, Remarks, Report, discard
from ms_crf.formats.lines import FilePair, check_readable, chunks, numbered, open_lines
from ms_crf.formats.raw import raw_sentences, sentence_of_text
from ms_crf.formats.registry import BRAT, CONLL, FORMATS, JSON, TEXT, columns_of, of_stream
from ms_crf.models.base import SentenceError
from ms_crf.models.opening import device_for, open_model, run_plugin
from ms_crf.render.tagged import TaggedList, Writer
from ms_crf.runs.records import check_output, newest
from ms_crf.tagging.arguments import AUTO, LINES, OfText, TagArguments
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.metrics import Scores
from ms_crf.text.partial import MARK, opened
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Deferred

TITLE = 'Tagged text'                  # of a page that is not made of a file
Write = Callable[[str], object]


class TagResult(TaggedList[Sentence]):
    """The sentences that `tag` returns, which notebooks show; empty if they are written or only scored.

    Attributes:
        sentences: the number of sentences that were tagged.
        files: the number of inputs that were tagged.
        done_before: the number of inputs of many whose outputs were there already.
        remarks: a line for each kind of span in the input that was not kept as it is.
        scores: the comparison with the tags in the input; None unless it was asked for. `scores.lines()` is the table,
            `scores.result.spans.f1` a figure of it.
    """

    sentences = files = done_before = 0
    remarks: Sequence[str] = ()
    scores: Scores | None = None


def tag(text: str | None = None, *, input: PathLike | Iterable[str] | None = None,
        output: PathLike | TextIO | None = None, run: PathLike | None = None, mindir: PathLike | None = None,
        input_format: str = AUTO, columns: str = '0,-1', chars: bool | None = None, raw: bool = False,
        splitter: str | None = None, strict: bool = False, format: str = TEXT, confidence: bool | None = None,
        nbest: int = 0, temperature: float = 1.0, score: bool = False, unknown_tag: str | None = None,
        plugin: PathLike | None = None, device: str = 'auto', watcher: Watcher = SILENT) -> TagResult:
    """Tags a text, files or lines with a trained model.

    Args:
        text: one sentence, or raw text with `raw`; in place of an input.
        input: path of a file, also .gz, of a folder, or a pattern like 'texts/*.txt'; or lines of text: an open text
            stream or any other iterable of strings. '-' and `sys.stdin` are standard input, which is answered as lines
            come.
        output: path of a file to write, of many inputs of a folder; or a text stream. Without an output the tagged
            sentences are returned.
        run: run directory; by default the newest in runs/.
        mindir: exported graph, in place of a run.
        input_format: 'text', 'conll' or 'json'; 'auto' goes by the name of the file. Lines are text.
        columns: columns of the token, and of the tag, from 0, or from -1 backwards.
        chars: whether each character is a token; by default as the model was trained.
        raw: whether to find sentences and tokens in the text.
        splitter: the name of what finds them, see `ms_crf.text.splitting`; by default as the model was trained.
        strict: whether a line that is not UTF-8 is an error.
        format: of the output: 'text', 'conll', 'json' or 'html'.
        confidence: whether to compute confidences; by default in JSON, in HTML and in sentences that are returned.
        nbest: number of likeliest taggings to add to each sentence.
        temperature: what all scores of the model are divided by before confidences are computed.
        score: whether to compare with the tags in the input; without an output no sentences are returned then.
        unknown_tag: the tag of tokens that nobody has judged; by default as the model was trained.
        plugin: Python file that registers kinds of model.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: is told what is loaded, how many sentences or files are tagged, and which lines are no UTF-8.

    Returns:
        A list of the tagged sentences, with counts, remarks and scores as attributes. Of raw text each sentence is a
        `TaggedText` with its offsets, otherwise a `Tagged`.

    Raises:
        OptionError: an argument can't be, or has no effect beside the others.
        CorpusError: a file has a fault. A file that is being written then stays as it was.

    Example:
        >>> from ms_crf.api import tag
        >>> [sentence] = tag('Marta Kowalski works in Lisbon .', run='runs/sample')       # doctest: +SKIP
        >>> [span.type for span in sentence.spans]                                        # doctest: +SKIP
        ['PER', 'LOC']
        >>> tag(input='texts', output='tagged', run='runs/sample').files                  # doctest: +SKIP
        12
    """
    given = TagArguments.given({**locals(), 'input': source_of(input)})
    for job in given.jobs:
        if job.source != LINES and given.kind(job.source) != BRAT:
            check_readable(job.source)
    if isinstance(given.output, str) and not given.many:
        check_output(given.output)
    return Tagging(given, watcher).run()


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

    def of_file(self, source: str, columns: tuple[int, ...], report: Report = discard,
                mark: str = MARK) -> Iterator[Sentence | None]:
        """The sentences of a file, or of the caller's lines; None whenever the next one is not there yet.

        Args:
            source: its path, or `LINES`.
            columns, report, mark: see `ReadOptions`.
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

    def reading(self, source: str, columns: tuple[int, ...], report: Report = discard, mark: str = MARK) -> ReadOptions:
        """How a file is read; arguments are those of `of_file`."""
        return ReadOptions(columns_of(source, columns), mark, report, self.splitter, self.characters)

    def name(self, source: str) -> str:
        """A file as messages name it."""
        return self.given.name if source == LINES else source

    def _given_lines(self, raw: bool) -> Iterator[tuple[int, str]]:
        """The caller's lines with their numbers; of raw text each has its end."""
        for number, line in enumerate(cast(Iterable[str], self.given.input), 1):
            if not isinstance(line, str):
                raise TypeError(f'input must be a path or lines of text, got a line of type {type(line).__name__}')
            yield number, line if raw and line.endswith('\n') else line.rstrip('\r\n') + '\n' * raw


class Tagging(Inputs):
    """A model that is loaded as the arguments of `tag` say, and one call with it.

    Args:
        given: the arguments.
        watcher: see `tag`.
        colour: whether text is coloured for a terminal.
    """

    given: TagArguments

    def __init__(self, given: TagArguments, watcher: Watcher = SILENT, colour: bool = False) -> None:
        super().__init__(given, watcher, given.temperature)
        self.colour = colour
        self.confidence = given.confidence if given.confidence is not None else (
            given.with_confidences and self.tagger.gives_confidences)
        if self.confidence and not self.tagger.gives_confidences:
            raise OptionError(f'{argument("confidence")}: this graph gives no confidences; export one with '
                              f'{argument("confidence")}, or use the run itself')
        if given.nbest and not self.tagger.gives_nbest:
            raise OptionError(f'{argument("nbest")}: the n best taggings come from the run of a network only, not from '
                              'an exported graph or a hidden Markov model')
        self.mark = self.model.unknown_tag if given.unknown_tag is None else given.unknown_tag
        self.version = self.model.version if given.format == JSON else ''
        self.result, self.remarks = TagResult(), Remarks(given.name)

    def writer(self, tag_column: int | None = None) -> Writer:
        """What writes sentences in the format of the output; of CoNLL-U with the column of tags."""
        return Writer(self.given.format, self.tagger.scheme, self.tagger.tags, self.tagger.of_characters,
                      self.confidence, self.colour and self.given.format == TEXT, tag_column, self.version)

    def run(self) -> TagResult:
        """Tags all inputs."""
        given, many = self.given, self.given.many
        waiting = given.jobs if given.score else [job for job in given.jobs if not (
            many and job.target and os.path.lexists(job.target))]
        with self.watcher.progress('', len(given.jobs) if many else None, 'files' if many else 'sentences') as done:
            for job in waiting:
                if many and job.target:
                    os.makedirs(os.path.dirname(job.target), exist_ok=True)
                self._run_job(job, (lambda count: None) if many else done)
                done(many)
        self.result.files, self.result.done_before = len(waiting), len(given.jobs) - len(waiting)
        self.result.remarks = self.remarks.lines()
        if many:
            self._check_scored(given.name)
        return self.result

    def answer(self, text: str, writer: Writer, write: Write) -> None:
        """Tags a text, and writes it."""
        self._tag(self.of_text(text), self.given.name, writer, write)

    def _run_job(self, job: FilePair, done: Callable[[int], object]) -> None:
        """Tags an input from its beginning to its end; `done` takes numbers of sentences."""
        name, column = self.name(job.source), self.given.tag_column(job.source)
        writer = self.writer(column)
        items = self._items(job)
        if self.given.format == CONLL:
            items = for_columns(items, name)
            items = items if column is None else conllu.checked(items, name)
        with text_writer(job.target) if job.target else contextlib.nullcontext(self._show) as write:
            write(writer.begin(TITLE if job.source == LINES else os.path.basename(job.source) or TITLE))
            for chunk in chunks(items, lambda item: len(item.tokens)):
                self._tag(chunk, name, writer, write)
                done(len(chunk))
            write(writer.end())
            if not self.given.many:
                self._check_scored(name)

    def _check_scored(self, name: str) -> None:
        if self.given.score and not (self.result.scores and self.result.scores.result.tokens):
            raise CorpusError(name, None, 'expected tagged sentences, got none')

    def _items(self, job: FilePair) -> Iterable[Sentence | None]:
        """The sentences of an input."""
        if self.given.text is not None:
            return self.of_text(self.given.text)
        columns = self.given.indices('score')
        if self.given.kind(job.source) == BRAT:
            reading = self.reading(job.source, columns, self.remarks.add, self.mark)
            return sentences_of(FORMATS[BRAT].read(job.source, reading), reading)
        return self.of_file(job.source, columns, self.remarks.add, self.mark)

    def _show(self, text: str) -> None:
        """Writes text to the output if that is a stream."""
        if self.given.output is not None:
            self.given.output.write(text)
            self.given.output.flush()

    def _tag(self, items: Sequence[Sentence], name: str, writer: Writer, write: Write) -> None:
        try:
            tagged = self.tagger.tag([item.tokens for item in items], self.confidence, self.given.nbest)
        except SentenceError as error:
            if error.index:
                self._tag(items[:error.index], name, writer, write)
            if self.given.text is not None:
                raise OptionError(f'{argument("text")}: {error.reason}') from None
            raise CorpusError(name, items[error.index].line, error.reason) from None
        self.result.sentences += len(items)
        if self.given.score:
            scores = self.result.scores or Scores(self.tagger.found_scheme, self.tagger.scheme, name)
            self.result.scores, scores.path = scores, name
            scores.add([item.line for item in items], [opened(item.tags, self.mark) for item in items],
                       [sentence.tags for sentence in tagged])
        found = [item.predicted(sentence.prediction) for item, sentence in zip(items, tagged)]
        if self.given.returned:
            self.result += [sentence.stripped() if sentence.raw else sentence for sentence in found
                            if sentence.tokens or not sentence.raw]
        else:
            write(''.join(map(writer.lines, found)))
