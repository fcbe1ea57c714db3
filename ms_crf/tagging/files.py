"""The function `tag`, which tags text, files and streams."""

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
from ms_crf.tagging.arguments import AUTO, LINES, TagArguments, TextArguments
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.metrics import Scores
from ms_crf.text.partial import MARK, opened
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Deferred

TITLE = 'Tagged text'                  # title of a page without an input file
Write = Callable[[str], object]


class TagResult(TaggedList[Sentence]):
    """The sentences that `tag` returns, displayed by notebooks; empty if sentences are written or only scored.

    Attributes:
        sentences: number of tagged sentences.
        files: number of tagged inputs.
        done_before: number of input files that were skipped because their output file existed.
        remarks: one line for each kind of input spans that could not be kept unchanged.
        scores: comparison with the tags of the input; None without `score`. `scores.lines()` is the printed table,
            `scores.result.spans.f1` is F1.
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
        text: one sentence, or with `raw` any text; instead of `input`.
        input: path of a file, also .gz, or of a folder, or a pattern such as 'texts/*.txt'. Or lines of text: an open
            text stream or another iterable of strings. '-' and `sys.stdin` mean standard input, whose lines are tagged
            as they arrive.
        output: path of a file to write, or of a folder for several input files; or a text stream. Without `output`
            tagged sentences are returned.
        run: run directory (default: the newest run in runs/).
        mindir: exported graph, instead of a run.
        input_format: 'text', 'conll' or 'json'; 'auto' uses the name of the file. Lines are text.
        columns: indices of the columns of token and tag, counted from 0; -1 is the last column.
        chars: whether each character is a token (default: as in the training of the model).
        raw: whether to split the text into sentences and tokens.
        splitter: name of the splitter for `raw`, see `ms_crf.text.splitting` (default: as in the training of the
            model).
        strict: whether a line that is not valid UTF-8 is an error.
        format: output format: 'text', 'conll', 'json' or 'html'.
        confidence: whether to compute confidences (default: for JSON, HTML and returned sentences).
        nbest: number of n-best taggings to add to each sentence; 0 for none.
        temperature: number that divides all scores before confidences are computed; above 1 confidences are lower.
        score: whether to compare with the tags of the input; without `output` no sentences are returned.
        unknown_tag: mark of an unlabelled token (default: as in the training of the model).
        plugin: Python file that registers custom model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives messages, progress, and warnings about invalid UTF-8.

    Returns:
        A list of tagged sentences (`Sentence`), with counts, remarks and scores as attributes. With `raw`, offsets
        count characters of the whole text.

    Raises:
        OptionError: an argument is invalid, or has no effect in this combination.
        CorpusError: an input file is invalid, or a file cannot be read or written. An output file is then unchanged.

    Example:
        >>> from ms_crf.api import tag
        >>> [sentence] = tag('Marta Kowalski works in Lisbon .', run='runs/sample')       # doctest: +SKIP
        >>> [span.type for span in sentence.spans]                                        # doctest: +SKIP
        ['PER', 'LOC']
        >>> tag(input='texts', output='tagged', run='runs/sample').files                  # doctest: +SKIP
        12
    """
    arguments = TagArguments.from_call({**locals(), 'input': source_of(input)})
    for job in arguments.jobs:
        if job.source != LINES and arguments.kind(job.source) != BRAT:
            check_readable(job.source)
    if isinstance(arguments.output, str) and not arguments.many:
        check_output(arguments.output)
    return Tagging(arguments, watcher).run()


def source_of(value: PathLike | Iterable[str] | None) -> object:
    """Converts an argument `input` for `TextArguments`: a path, `LINES` for standard input, or an iterator of lines."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return value
    return LINES if value is sys.stdin else iter(value)


class Inputs:
    """Loads a model, and reads sentences for it.

    Args:
        arguments: the arguments that name the model and describe the inputs.
        watcher: receives messages and warnings about invalid UTF-8.
        temperature: temperature of the tagger.

    Attributes:
        path: path of the run directory or exported graph.
        model: the opened run directory or graph.
        tagger: its `Tagger`.
        characters: whether each character of a text is a token.
        splitter: splitter for raw text.
    """

    def __init__(self, arguments: TextArguments, watcher: Watcher, temperature: float = 1.0) -> None:
        if arguments.plugin:
            run_plugin(arguments.plugin)
        self.arguments, self.watcher = arguments, watcher
        self.path = arguments.mindir or arguments.run or newest('runs')
        self.model = open_model(self.path)
        device_for(arguments.device, self.model, watcher=watcher)
        watcher.say(f'loading {self.path}')
        self.tagger = Tagger.load(self.model, temperature=temperature)
        self.characters = self.tagger.of_characters if arguments.chars is None else arguments.chars
        self.splitter = Deferred(arguments.splitter or self.tagger.splitter)
        if arguments.raw:
            self.splitter.split('')              # raises an error now if its library is not installed

    def of_text(self, text: str) -> list[Sentence]:
        """Returns the sentences of the argument `text`: one sentence, or with `raw` all sentences of the text."""
        if not self.arguments.raw:
            return [sentence_of_text(text, self.characters)]
        return [item for item in raw_sentences([(1, f'{text}\n')], self.splitter) if item is not None]

    def of_file(self, source: str, columns: tuple[int, ...], report: Report = discard,
                mark: str = MARK) -> Iterator[Sentence | None]:
        """Yields the sentences of a file or of the caller's lines, and None while the next sentence is not available.

        Args:
            source: path of the file, or `LINES`.
            columns, report, mark: see `ReadOptions`.
        """
        name, raw = self.name(source), self.arguments.raw
        if isinstance(self.arguments.input, str):
            lines = numbered(open_lines(source, raw), name, self.arguments.strict, self.watcher.warn, raw)
        else:
            lines = self._caller_lines(raw)
        if raw:
            return raw_sentences(lines, self.splitter)
        reader = of_stream(source, self.arguments.input_format).sentences
        assert reader is not None
        return reader(lines, name, self.reading(source, columns, report, mark))

    def reading(self, source: str, columns: tuple[int, ...], report: Report = discard, mark: str = MARK) -> ReadOptions:
        """Returns the settings for reading a file; for the arguments see `of_file`."""
        return ReadOptions(columns_of(source, columns), mark, report, self.splitter, self.characters)

    def name(self, source: str) -> str:
        """Returns the name of a file for messages."""
        return self.arguments.name if source == LINES else source

    def _caller_lines(self, raw: bool) -> Iterator[tuple[int, str]]:
        """Yields the caller's lines with their line numbers; with `raw` each line ends in a newline."""
        for number, line in enumerate(cast(Iterable[str], self.arguments.input), 1):
            if not isinstance(line, str):
                raise TypeError(f'input must be a path or lines of text, got a line of type {type(line).__name__}')
            yield number, line if raw and line.endswith('\n') else line.rstrip('\r\n') + '\n' * raw


class Tagging(Inputs):
    """One call of `tag`, with a loaded model.

    Args:
        arguments: the arguments of `tag`.
        watcher: see `tag`.
        colour: whether entities in text are coloured for a terminal.
    """

    arguments: TagArguments

    def __init__(self, arguments: TagArguments, watcher: Watcher = SILENT, colour: bool = False) -> None:
        super().__init__(arguments, watcher, arguments.temperature)
        self.colour = colour
        self.confidence = arguments.confidence if arguments.confidence is not None else (
            arguments.with_confidences and self.tagger.gives_confidences)
        if self.confidence and not self.tagger.gives_confidences:
            raise OptionError(f'{argument("confidence")}: this graph computes no confidences; export it with '
                              f'{argument("confidence")}, or use the run itself')
        if arguments.nbest and not self.tagger.gives_nbest:
            raise OptionError(f'{argument("nbest")}: n-best taggings need the run of a neural network; exported graphs '
                              'and hidden Markov models do not compute them')
        self.mark = self.model.unknown_tag if arguments.unknown_tag is None else arguments.unknown_tag
        self.version = self.model.version if arguments.format == JSON else ''
        self.result, self.remarks = TagResult(), Remarks(arguments.name)

    def writer(self, tag_column: int | None = None) -> Writer:
        """Returns the writer for the output format; `tag_column` is the column of plain tags in CoNLL-U."""
        return Writer(self.arguments.format, self.tagger.scheme, self.tagger.tags, self.tagger.of_characters,
                      self.confidence, self.colour and self.arguments.format == TEXT, tag_column, self.version)

    def run(self) -> TagResult:
        """Tags all inputs and returns the result."""
        arguments, many = self.arguments, self.arguments.many
        waiting = arguments.jobs if arguments.score else [job for job in arguments.jobs if not (
            many and job.target and os.path.lexists(job.target))]
        with self.watcher.progress('', len(arguments.jobs) if many else None, 'files' if many else 'sentences') as done:
            for job in waiting:
                if many and job.target:
                    os.makedirs(os.path.dirname(job.target), exist_ok=True)
                self._run_job(job, (lambda count: None) if many else done)
                done(many)
        self.result.files, self.result.done_before = len(waiting), len(arguments.jobs) - len(waiting)
        self.result.remarks = self.remarks.lines()
        if many:
            self._check_scored(arguments.name)
        return self.result

    def answer(self, text: str, writer: Writer, write: Write) -> None:
        """Tags a text and writes the result."""
        self._tag(self.of_text(text), self.arguments.name, writer, write)

    def _run_job(self, job: FilePair, done: Callable[[int], object]) -> None:
        """Tags one input; `done` is called with the number of sentences of each chunk."""
        name, column = self.name(job.source), self.arguments.tag_column(job.source)
        writer = self.writer(column)
        items = self._items(job)
        if self.arguments.format == CONLL:
            items = for_columns(items, name)
            items = items if column is None else conllu.checked(items, name)
        with text_writer(job.target) if job.target else contextlib.nullcontext(self._show) as write:
            write(writer.begin(TITLE if job.source == LINES else os.path.basename(job.source) or TITLE))
            for chunk in chunks(items, lambda item: len(item.tokens)):
                self._tag(chunk, name, writer, write)
                done(len(chunk))
            write(writer.end())
            if not self.arguments.many:
                self._check_scored(name)

    def _check_scored(self, name: str) -> None:
        if self.arguments.score and not (self.result.scores and self.result.scores.result.tokens):
            raise CorpusError(name, None, 'expected tagged sentences, got none')

    def _items(self, job: FilePair) -> Iterable[Sentence | None]:
        """Returns the sentences of an input."""
        if self.arguments.text is not None:
            return self.of_text(self.arguments.text)
        columns = self.arguments.indices('score')
        if self.arguments.kind(job.source) == BRAT:
            reading = self.reading(job.source, columns, self.remarks.add, self.mark)
            return sentences_of(FORMATS[BRAT].read(job.source, reading), reading)
        return self.of_file(job.source, columns, self.remarks.add, self.mark)

    def _show(self, text: str) -> None:
        """Writes text to the output if the output is a stream."""
        if self.arguments.output is not None:
            self.arguments.output.write(text)
            self.arguments.output.flush()

    def _tag(self, items: Sequence[Sentence], name: str, writer: Writer, write: Write) -> None:
        try:
            tagged = self.tagger.tag([item.tokens for item in items], self.confidence, self.arguments.nbest)
        except SentenceError as error:
            if error.index:
                self._tag(items[:error.index], name, writer, write)
            if self.arguments.text is not None:
                raise OptionError(f'{argument("text")}: {error.reason}') from None
            raise CorpusError(name, items[error.index].line, error.reason) from None
        self.result.sentences += len(items)
        if self.arguments.score:
            scores = self.result.scores or Scores(self.tagger.file_scheme, self.tagger.scheme, name)
            self.result.scores, scores.path = scores, name
            scores.add([item.line for item in items], [opened(item.tags, self.mark) for item in items],
                       [sentence.tags for sentence in tagged])
        results = [item.predicted(sentence.prediction) for item, sentence in zip(items, tagged)]
        if self.arguments.returned:
            self.result += [sentence.stripped() if sentence.raw else sentence for sentence in results
                            if sentence.tokens or not sentence.raw]
        else:
            write(''.join(map(writer.lines, results)))
