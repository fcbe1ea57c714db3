"""The arguments of `tag` and `suggest`: defaults, bounds, help texts, and which arguments have no effect together."""

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
from ms_crf.runs.arguments import ModelArguments
from ms_crf.text.splitting import CHOICES, splitter_fault

AUTO = 'auto'                  # input format: determined by the name of the file
LINES = '-'                    # instead of the path of a file: standard input, or lines passed by the caller


@dataclass
class TextArguments(ModelArguments):
    """Arguments of every function that tags text."""

    input: Any = option(None, 'Input', 'file to read, also .gz; or a folder, or a pattern such as "texts/*.txt" '
                        '(default: standard input)', FILE)
    input_format: str = option(AUTO, 'Input', 'text: one sentence per line; conll: one token per row; json: in each '
                               'line an object with "tokens" or "text"; auto: by the name of the file',
                               choices=(AUTO, *STREAMS))
    columns: str = option('0,-1', 'Input', 'for conll: indices of the columns of token and tag, counted from 0; -1 is '
                          'the last column', 'TOKEN[,TAG]')
    chars: bool = option(None, 'Input', 'each character is a token, instead of each word (default: as in the training '
                         'of the model)')
    raw: bool = option(False, 'Input', 'split raw text into sentences and tokens; an empty line also ends a sentence')
    splitter: str = option(None, 'Input', f'tokenizer for raw text: {CHOICES} (default: as in the training of the '
                           'model)', 'NAME', must=splitter_fault)
    strict: bool = option(False, 'Input', 'stop at a line that is not valid UTF-8; without this option the line is '
                          'reported and read with replacement characters')

    @cached_property
    def sources(self) -> list[str]:
        """The files to read; [`LINES`] for lines."""
        if not isinstance(self.input, str):
            return [LINES]
        return files_of(self.input)[1] if are_many(self.input) else [self.input]

    @property
    def name(self) -> str:
        """The name of the input for messages."""
        return 'lines' if not isinstance(self.input, str) else 'standard input' if self.input == LINES else self.input

    def kind(self, source: str) -> str:
        """Returns the format of a file."""
        return of_stream(source, self.input_format).stream

    def indices(self, gold: str) -> tuple[int, ...]:
        """Returns the index of the token column, and of the tag column if the argument named `gold` is set."""
        columns = whole_numbers('columns', self.columns, [1, 2])
        if getattr(self, gold) and len(columns) < 2:
            raise OptionError(f'{argument("columns")} must name token and tag for {argument(gold)}, like 0,-1, got '
                              f'{self.columns!r}')
        return columns if getattr(self, gold) else columns[:1]

    def check_raw(self, source: str, where: str) -> None:
        """Raises OptionError if `raw` is set for a file that is not text; `where` is a part of the message."""
        if self.raw and self.kind(source) != TEXT:
            raise OptionError(f'{argument("raw")} needs text, got {self.kind(source)}{where}; add '
                              f'{argument("input_format")} text if the file contains text')


@dataclass
class TagArguments(TextArguments):
    """Arguments of `tag`."""

    text: str = option(None, 'Input', 'text of one sentence to tag', 'TEXT')
    output: Any = option(None, 'Output', 'file to write (default: standard output); for several input files a folder, '
                         'in which existing files are skipped', FILE)
    format: str = option(TEXT, 'Output', 'text: the input with entities in brackets; conll: the columns and the tag; '
                         'json: one object per sentence; html: a page with highlighted entities', choices=OUTPUTS)
    confidence: bool = option(None, 'Output', 'compute confidences of tags and entities (default: only for json and '
                              'html)')
    nbest: int = option(0, 'Output', 'add the n-best taggings of each sentence to json and html; 0 for none', 'N',
                        least=0, most=MOST_NBEST)
    temperature: float = option(1.0, 'Output', 'correct confidences by dividing all scores by T; above 1 confidences '
                                'become lower; ms-crf report computes a value', 'T', least=0.01, most=100)
    score: bool = option(False, 'Output', 'compare with the tags of the input and print the table of scores; tagged '
                         f'sentences are then written only with {argument("output")}')
    unknown_tag: str = option(None, 'Output', f'for {argument("score")}: mark in place of the tag of an unlabelled '
                              "token, which scores ignore; '' for no mark (default: as in the training of the model)",
                              'TAG')

    @property
    def many(self) -> bool:
        """Whether the input is several files, each with its own output file."""
        return isinstance(self.input, str) and are_many(self.input) and not self._is_brat(self.input)

    @property
    def returned(self) -> bool:
        """Whether tagged sentences are returned instead of written or only scored."""
        return self.output is None and not self.score

    @cached_property
    def jobs(self) -> list[FilePair]:
        """The inputs with their output files; the target is None if the output is not a file."""
        target = self.output if isinstance(self.output, str) else None
        if self.many:
            return file_pairs(self.input, target, self.format)
        return [FilePair(self.input if isinstance(self.input, str) else LINES, target)]

    def kind(self, source: str) -> str:
        """Returns the format of a file."""
        return TEXT if self.text is not None else BRAT if self._is_brat(source) else super().kind(source)

    def _is_brat(self, source: str) -> bool:
        return self.score and self.input_format == AUTO and of_name(source) is FORMATS[BRAT]

    def tag_column(self, source: str) -> int | None:
        """Returns the column of plain tags in CoNLL-U output; None if input and output are not CoNLL-U."""
        if (self.format, self.kind(source)) != (CONLL, CONLL) or of_stream(source) is not FORMATS[CONLLU]:
            return None
        columns = columns_of(source, whole_numbers('columns', self.columns, [1, 2]))
        return check_tag_column(columns[1]) if len(columns) > 1 else UPOS

    @property
    def with_confidences(self) -> bool:
        """Whether confidences are requested, or part of the output format."""
        requested = self.returned or self.format in (JSON, HTML) if self.confidence is None else self.confidence
        return requested or self.nbest > 0

    def check(self) -> None:
        """Raises OptionError at the first invalid value, or invalid combination of text, formats and outputs."""
        super().check()
        if self.text is not None and self.input:
            raise OptionError(f'{argument("text")} and {argument("input")} name two inputs, expected one of them')
        if self.text is None and self.input is None:
            raise OptionError(f'{argument("text")} or {argument("input")} must be given, got neither')
        if self.nbest and not self.returned and self.format not in (JSON, HTML):
            raise OptionError(f'{argument("nbest")} needs {argument("format")} json or html, got {self.format}')
        self.indices('score')
        if self.many and not (self.score or self.output is None or isinstance(self.output, str)):
            raise OptionError(f'{argument("output")} must name a folder if {argument("input")} is several files, as '
                              f'{self.input} is')
        for job in self.jobs:
            where = f' in {job.source}' if self.many else ''
            self.check_raw(job.source, where)
            if self.score and self.kind(job.source) == TEXT:
                raise OptionError(f'{argument("score")} needs tags in the input, got text{where}; name a column file '
                                  f'or JSON lines with {argument("input")}, or add {argument("input_format")} conll')
            self.tag_column(job.source)

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect."""
        kinds = {self.kind(job.source) for job in self.jobs}
        kind = kinds.pop() if len(kinds) == 1 else ''
        unused = f'with {argument("score")} without {argument("output")}' if self.score and not self.output else None
        of_text = f'with {argument("text")}' if self.text is not None else None
        of_brat = f'with {BRAT}' if kind == BRAT else None
        return {'input_format': of_text, 'strict': of_text or of_brat,
                'format': unused or (f'without {argument("output")}' if self.returned else None),
                'confidence': unused, 'nbest': unused,
                'columns': of_text or {TEXT: 'with text', JSON: 'with JSON lines', BRAT: of_brat}.get(kind),
                'chars': 'with columns' if kind == CONLL else f'with {argument("raw")}' if self.raw else of_brat,
                'temperature': unused or (None if self.with_confidences else 'without confidences'),
                'unknown_tag': None if self.score else f'without {argument("score")}',
                'splitter': None if self.raw or (self.score and kind != CONLL) else
                f'without {argument("raw")}, or texts with spans to {argument("score")}'}


@dataclass
class SuggestArguments(LabelStudioArguments, TextArguments):
    """Arguments of `suggest`."""

    known: list[str] = option(None, 'Input', 'files of annotated sentences; these sentences and near-duplicates of '
                              'them are not suggested', FILE, several=True)
    count: int = option(100, 'Selection', 'number of sentences to suggest', 'N', least=1, most=100_000, short='-n')
    by: str = option(LEAST_CONFIDENCE, 'Selection', 'measure of uncertainty; least-confidence: low probability of the '
                     'best tags of a sentence; mnlp: low log probability per token; token-entropy: high mean entropy '
                     'of the tags of a token', choices=MEASURES)
    near: float = option(0.5, 'Selection', 'near-duplicates: of two sentences whose word n-grams have a larger Jaccard '
                         'index only one is suggested; 1 removes only equal sentences', 'SHARE', least=0, most=1)
    ngram: int = option(2, 'Selection', 'number of words in the n-grams that detect near-duplicates', 'N', least=1,
                        most=10)
    output: Any = option(None, 'Output', 'file to write, or a folder for brat (default: standard output)', FILE)
    format: str = option(None, 'Output', f'output format: {", ".join(TARGETS)} (default: by the name of '
                         f'{argument("output")}, otherwise {TOKENS})', 'FORMAT', choices=TARGETS)

    @property
    def written(self) -> str:
        """The name of the output format."""
        named = of_target(self.output) if isinstance(self.output, str) else None
        return self.format or (named.name if named else TOKENS)

    def check(self) -> None:
        """Raises OptionError at the first invalid value, or invalid combination of formats and outputs."""
        super().check()
        if self.input is None:
            raise OptionError(f'{argument("input")} must be given, got nothing')
        self.indices('known')
        for source in self.sources:
            self.check_raw(source, f' in {source}')
        if self.written == BRAT and not isinstance(self.output, str):
            raise OptionError(f'{argument("output")} must name a folder or a .txt or .ann file for brat')

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect."""
        kinds = {self.kind(source) for source in self.sources}
        return {'columns': None if CONLL in kinds or self.known else 'without columns',
                'chars': f'with {argument("raw")}' if self.raw else 'with columns' if kinds == {CONLL} else None,
                'splitter': None if self.raw or self.known else
                f'without {argument("raw")} or {argument("known")}',
                'format': f'without {argument("output")}' if self.output is None else None,
                'ngram': f'with {argument("near")} 1, which removes only equal sentences' if self.near == 1
                else None,
                **dict.fromkeys(Names._fields, None if self.written == LABEL_STUDIO and self.output is not None else
                                f'with {argument("format")} {self.written}')}
