"""The arguments of `tag` and `suggest`: defaults, bounds, help, and which of them have no effect."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ms_crf.base.arguments import FILE, option, whole_numbers
from ms_crf.base.errors import OptionError, argument
from ms_crf.formats.conllu import check_tag_column
from ms_crf.formats.convert import LabelStudioArguments
from ms_crf.formats.document import UPOS, Names
from ms_crf.formats.lines import FilePair, are_many, files_of
from ms_crf.formats.registry import (
    BRAT,
    CONLL,
    CONLLU,
    FORMATS,
    HTML,
    JSON,
    LABEL_STUDIO,
    OUTPUTS,
    STREAMS,
    TARGETS,
    TEXT,
    TOKENS,
    columns_of,
    file_pairs,
    of_name,
    of_stream,
    of_target,
)
from ms_crf.models.base import MOST_NBEST
from ms_crf.models.chains import LEAST_CONFIDENCE, MEASURES
from ms_crf.runs.arguments import OfModel
from ms_crf.text.splitting import CHOICES, splitter_fault

AUTO = 'auto'                  # format of an input: by the name of the file
LINES = '-'                    # in place of the path of a file: standard input, or lines that the caller gives


@dataclass
class OfText(OfModel):
    """What every function takes that tags text."""

    input: Any = option(None, 'Input', 'file to read, also .gz (default: standard input); or a folder, or a pattern '
                        'like "texts/*.txt"', FILE)
    input_format: str = option(AUTO, 'Input', 'text: a sentence a line; conll: a token a row; json: an object with '
                               '"tokens" or "text" a line; auto goes by the name of the file', choices=(AUTO, *STREAMS))
    columns: str = option('0,-1', 'Input', 'columns of conll, from 0, or from -1 backwards: of the token, and of tags '
                          'that are read or replaced', 'TOKEN[,TAG]')
    chars: bool = option(None, 'Input', 'each character is a token, not each word (default: as the model was trained)')
    raw: bool = option(False, 'Input', 'find sentences and tokens in the text, in which an empty line ends a sentence')
    splitter: str = option(None, 'Input', f'what finds sentences and tokens: {CHOICES} (default: as the model was '
                           'trained)', 'NAME', must=splitter_fault)
    strict: bool = option(False, 'Input', 'stop at a line that is not UTF-8; otherwise it is reported and read with '
                          'replacement characters')

    @cached_property
    def sources(self) -> list[str]:
        """The files to read; `LINES` for lines."""
        if not isinstance(self.input, str):
            return [LINES]
        return files_of(self.input)[1] if are_many(self.input) else [self.input]

    @property
    def name(self) -> str:
        """The input as messages name it."""
        return 'lines' if not isinstance(self.input, str) else 'standard input' if self.input == LINES else self.input

    def kind(self, source: str) -> str:
        """The format of a file."""
        return of_stream(source, self.input_format).stream

    def indices(self, gold: str) -> tuple[int, ...]:
        """The columns of the token and, if the argument named `gold` is given, of the tag."""
        columns = whole_numbers('columns', self.columns, [1, 2])
        if getattr(self, gold) and len(columns) < 2:
            raise OptionError(f'{argument("columns")} must name the tag beside the token for {argument(gold)}, like '
                              f'0,-1, got {self.columns!r}')
        return columns if getattr(self, gold) else columns[:1]

    def check_raw(self, source: str, where: str) -> None:
        """Raises OptionError if sentences are to be found in a file that is not text."""
        if self.raw and self.kind(source) != TEXT:
            raise OptionError(f'{argument("raw")} needs text, got {self.kind(source)}{where}; add '
                              f'{argument("input_format")} text if that is what it is')


@dataclass
class TagArguments(OfText):
    """What `tag` takes."""

    text: str = option(None, 'Input', 'one sentence', 'TEXT')
    output: Any = option(None, 'Output', 'file to write (default: standard output); of many inputs the folder for a '
                         'file each, where those that are there already stay as they are', FILE)
    format: str = option(TEXT, 'Output', 'text: the line with what was found in brackets; conll: the columns and the '
                         'tag; json: an object a sentence; html: a page with what was found in colour',
                         choices=OUTPUTS)
    confidence: bool = option(None, 'Output', 'posteriors of tags and entities (default: in json and html)')
    nbest: int = option(0, 'Output', 'add the N likeliest taggings of each sentence; in json and html', 'N', least=0,
                        most=MOST_NBEST)
    temperature: float = option(1.0, 'Output', 'what all scores of the model are divided by before confidences are '
                                'computed; ms-crf report finds one that suits it', 'T', least=0.01, most=100)
    score: bool = option(False, 'Output', 'compare with the tags in the input and print the table of scores; tagged '
                         f'sentences are then written only where {argument("output")} names a file')
    unknown_tag: str = option(None, 'Output', f'with {argument("score")}: what stands in place of the tag of a '
                              "token that nobody has annotated, which does not count; '' for nothing (default: as the "
                              'model was trained)', 'TAG')

    @property
    def many(self) -> bool:
        """Whether the input is many files, each with an output of its own."""
        return isinstance(self.input, str) and are_many(self.input) and not self._is_brat(self.input)

    @property
    def returned(self) -> bool:
        """Whether tagged sentences are returned: they are neither written nor only scored."""
        return self.output is None and not self.score

    @cached_property
    def jobs(self) -> list[FilePair]:
        """The inputs, and where their outputs go; an output that is no file has no name."""
        target = self.output if isinstance(self.output, str) else None
        if self.many:
            return file_pairs(self.input, target, self.format)
        return [FilePair(self.input if isinstance(self.input, str) else LINES, target)]

    def kind(self, source: str) -> str:
        """The format of a file."""
        return TEXT if self.text is not None else BRAT if self._is_brat(source) else super().kind(source)

    def _is_brat(self, source: str) -> bool:
        return self.score and self.input_format == AUTO and of_name(source) is FORMATS[BRAT]

    def tag_column(self, source: str) -> int | None:
        """Where CoNLL-U gets tags that are not of spans; None if it is not what is read and written."""
        if (self.format, self.kind(source)) != (CONLL, CONLL) or of_stream(source) is not FORMATS[CONLLU]:
            return None
        columns = columns_of(source, whole_numbers('columns', self.columns, [1, 2]))
        return check_tag_column(columns[1]) if len(columns) > 1 else UPOS

    @property
    def with_confidences(self) -> bool:
        """Whether confidences are asked for, or follow from the output."""
        wanted = self.returned or self.format in (JSON, HTML) if self.confidence is None else self.confidence
        return wanted or self.nbest > 0

    def check(self) -> None:
        """Raises OptionError at the first value that can't be, also between text, formats and outputs."""
        super().check()
        if self.text is not None and self.input:
            raise OptionError(f'{argument("text")} and {argument("input")} name two inputs, expected one of them')
        if self.text is None and self.input is None:
            raise OptionError(f'{argument("text")} or {argument("input")} must be given, got neither')
        if self.nbest and not self.returned and self.format not in (JSON, HTML):
            raise OptionError(f'{argument("nbest")} needs {argument("format")} json or html, got {self.format}')
        self.indices('score')
        if self.many and not (self.score or self.output is None or isinstance(self.output, str)):
            raise OptionError(f'{argument("output")} must name a folder where {argument("input")} is many files, as '
                              f'{self.input} is')
        for job in self.jobs:
            where = f' in {job.source}' if self.many else ''
            self.check_raw(job.source, where)
            if self.score and self.kind(job.source) == TEXT:
                raise OptionError(f'{argument("score")} needs tags in the input, got text{where}; name a column file '
                                  f'or JSON lines with {argument("input")}, or add {argument("input_format")} conll')
            self.tag_column(job.source)

    def reasons(self) -> Mapping[str, str | None]:
        """Why arguments have no effect beside the others."""
        kinds = {self.kind(job.source) for job in self.jobs}
        kind = kinds.pop() if len(kinds) == 1 else ''
        nowhere = f'with {argument("score")} without {argument("output")}' if self.score and not self.output else None
        of_text = f'with {argument("text")}' if self.text is not None else None
        of_brat = f'with {BRAT}' if kind == BRAT else None
        return {'input_format': of_text, 'strict': of_text or of_brat,
                'format': nowhere or (f'without {argument("output")}' if self.returned else None),
                'confidence': nowhere, 'nbest': nowhere,
                'columns': of_text or {TEXT: 'with text', JSON: 'with JSON lines', BRAT: of_brat}.get(kind),
                'chars': 'with columns' if kind == CONLL else f'with {argument("raw")}' if self.raw else of_brat,
                'temperature': nowhere or (None if self.with_confidences else 'without confidences'),
                'unknown_tag': None if self.score else f'without {argument("score")}',
                'splitter': None if self.raw or (self.score and kind != CONLL) else
                f'without {argument("raw")}, or texts with spans to {argument("score")}'}


@dataclass
class SuggestArguments(LabelStudioArguments, OfText):
    """What `suggest` takes."""

    known: list[str] = option(None, 'Input', 'annotated sentences: these and their near-duplicates are not suggested '
                              'again', FILE, several=True)
    count: int = option(100, 'Choice', 'how many sentences', 'N', least=1, most=100_000, short='-n')
    by: str = option(LEAST_CONFIDENCE, 'Choice', 'least-confidence: the posterior of the best tags of a sentence; '
                     'mnlp: its logarithm for a token; token-entropy: that of the tag of a token, on average',
                     choices=MEASURES)
    near: float = option(0.5, 'Choice', 'of two sentences that share more than so much of their word n-grams (Jaccard) '
                         'only one is suggested; 1 for all but equal ones', 'SHARE', least=0, most=1)
    ngram: int = option(2, 'Choice', 'words of an n-gram', 'N', least=1, most=10)
    output: Any = option(None, 'Output', 'file to write (default: standard output); of brat a folder', FILE)
    format: str = option(None, 'Output', f'one of {", ".join(TARGETS)} (default: by the name of {argument("output")}, '
                         f'otherwise {TOKENS})', 'FORMAT', choices=TARGETS)

    @property
    def written(self) -> str:
        """The format of the output."""
        named = of_target(self.output) if isinstance(self.output, str) else None
        return self.format or (named.name if named else TOKENS)

    def check(self) -> None:
        """Raises OptionError at the first value that can't be, also between formats and outputs."""
        super().check()
        if self.input is None:
            raise OptionError(f'{argument("input")} must be given, got nothing')
        self.indices('known')
        for source in self.sources:
            self.check_raw(source, f' in {source}')
        if self.written == BRAT and not isinstance(self.output, str):
            raise OptionError(f'{argument("output")} must name a folder, or one of the files of a pair, for brat')

    def reasons(self) -> Mapping[str, str | None]:
        """Why arguments have no effect beside the others."""
        kinds = {self.kind(source) for source in self.sources}
        return {'columns': None if CONLL in kinds or self.known else 'without columns',
                'chars': f'with {argument("raw")}' if self.raw else 'with columns' if kinds == {CONLL} else None,
                'splitter': None if self.raw or self.known else
                f'without {argument("raw")} or {argument("known")}',
                'format': f'without {argument("output")}' if self.output is None else None,
                'ngram': f'with {argument("near")} 1, by which only equal sentences are left out' if self.near == 1
                else None,
                **dict.fromkeys(Names._fields, None if self.written == LABEL_STUDIO and self.output is not None else
                                f'with {argument("format")} {self.written}')}
