"""The command line that finds the sentences whose annotation would teach most: ms-crf suggest --help"""

import argparse
import sys
from collections.abc import Container, Iterator, Sequence
from typing import Any, cast

from ms_crf.base.errors import CorpusError, OptionError, brief
from ms_crf.cli import console
from ms_crf.cli.infer_arguments import add_forms, columns_of_option
from ms_crf.cli.parser import Parser, add_arguments, add_common, add_model, check_model, parse
from ms_crf.cli.terminal import Terminal
from ms_crf.formats import conversion
from ms_crf.formats.columns import for_columns
from ms_crf.formats.conversion import Source
from ms_crf.formats.convert import OfLabelStudio
from ms_crf.formats.document import Document, Reading, Remarks, Target, counted
from ms_crf.formats.folders import are_many, files_of
from ms_crf.formats.json_fields import Names, Prediction, text_of
from ms_crf.formats.lines import check_readable
from ms_crf.formats.raw import raw_sentences
from ms_crf.formats.readers import read_corpus
from ms_crf.formats.registry import (
    BRAT,
    CONLL,
    FORMATS,
    JSON,
    LABEL_STUDIO,
    TARGETS,
    TEXT,
    TOKENS,
    columns_of,
    of_corpus,
    of_stream,
    of_target,
)
from ms_crf.formats.stream import numbered, open_lines
from ms_crf.models.base import SentenceError, device_for
from ms_crf.models.chains import ChainDecoder
from ms_crf.models.uncertainty import (
    LEAST_CONFIDENCE,
    MEASURES,
    TOKEN_ENTROPY,
    Unsure,
    gives_entropy,
    of_confidence,
    token_entropies,
)
from ms_crf.runs.options import dashed
from ms_crf.runs.records import model_version, newest
from ms_crf.tagging.streams import chunks
from ms_crf.tagging.suggestions import Alike, Candidate, Pool
from ms_crf.tagging.tagger import Tagger
from ms_crf.text.partial import scoring_scheme
from ms_crf.text.schemes import PLAIN
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import BLANK, CHARACTERS, Deferred, check_name

from tqdm import tqdm

VERB, RUNS = 'suggest', 'runs'
MOST, MOST_WORDS = 100_000, 10


def parser() -> Parser:
    made = Parser(prog=console.program(VERB),
                  description='Finds the sentences of text that nobody has annotated whose annotation would teach a '
                              'model most, and writes them with its tags, to be corrected: the one that it is least '
                              'sure of comes first.')
    group = made.add_argument_group('Model')
    add_model(group)
    add_common(group)
    group = made.add_argument_group('Input')
    group.add_argument('--input', metavar='FILE',
                       help='file to choose from, also .gz (default: standard input); or a folder, or a pattern like '
                            '"texts/*.txt"')
    group.add_argument('--known', metavar='FILE', nargs='+', action='extend', default=[],
                       help='annotated sentences: these and their near-duplicates are not suggested again')
    add_forms(group, 'the tag is that of --known', splitter=', in --known too')
    group = made.add_argument_group('Choice')
    group.add_argument('-n', '--count', metavar='N', type=int, default=100,
                       help='how many sentences (default: %(default)s)')
    group.add_argument('--by', choices=MEASURES, default=LEAST_CONFIDENCE,
                       help='least-confidence: the posterior of the best tags of a sentence; mnlp: its logarithm for '
                            'a token; token-entropy: that of the tag of a token, on average (default: %(default)s)')
    group.add_argument('--near', metavar='SHARE', type=float, default=0.5,
                       help='of two sentences that share more than so much of their word n-grams (Jaccard) only one '
                            'is suggested; 1 for all but equal ones (default: %(default)s)')
    group.add_argument('--ngram', metavar='N', type=int, default=2, help='words of an n-gram (default: %(default)s)')
    group = made.add_argument_group('Output')
    group.add_argument('--output', metavar='FILE', help='file to write (default: standard output); of brat a folder')
    group.add_argument('--format', choices=TARGETS, metavar='FORMAT',
                       help=f'one of {", ".join(TARGETS)} (default: by the name of --output, otherwise {TOKENS})')
    add_arguments(made, OfLabelStudio)
    return made


class _Request:
    """What one call asks for, checked as far as it can be before the model is loaded.

    Args:
        parsed: all arguments.
        named: the names of the arguments that the command line names.

    Attributes:
        format: that of the output.
        columns: indices of the columns of token and tag, or of the token alone.
        sources: the files to choose from, '-' for standard input.
    """

    def __init__(self, parsed: argparse.Namespace, named: Container[str]) -> None:
        self.parsed = parsed
        check_model(parsed)
        for name, least, most in (('count', 1, MOST), ('near', 0, 1), ('ngram', 1, MOST_WORDS)):
            value = getattr(parsed, name)
            if not least <= value <= most:
                raise OptionError(f'--{name} must be from {least} to {most:,}, got {brief(value)}')
        if not parsed.input and sys.stdin is not None and sys.stdin.isatty():
            raise OptionError('--input must name a file, or text must come through a pipe; see --help')
        if parsed.splitter is not None:
            check_name(parsed.splitter, '--splitter')
        self.columns = columns_of_option(parsed.columns, bool(parsed.known), '--known')
        self.sources = (files_of(parsed.input)[1] if parsed.input and are_many(parsed.input)
                        else [parsed.input or '-'])
        self.names = OfLabelStudio(parsed.from_name, parsed.to_name, parsed.label_type).names
        self.format = parsed.format or (parsed.output and (row := of_target(parsed.output)) and row.name) or TOKENS
        self._check_meaning(named)
        for path in (*self.sources, *parsed.known):
            if path != '-':
                self._check_source(path, path in parsed.known)
        if parsed.output:
            conversion.check_target(parsed.output, self.format)
        elif self.format == BRAT:
            raise OptionError('--output must name a folder, or one of the files of a pair, for brat')

    def kind(self, source: str) -> str:
        """The format of an input."""
        return of_stream(source, self.parsed.input_format).stream

    def _check_source(self, path: str, known: bool) -> None:
        if not known or of_corpus(path) is not FORMATS[BRAT]:
            check_readable(path)
        if self.parsed.raw and not known and self.kind(path) != TEXT:
            raise OptionError(f'--raw needs text, got {self.kind(path)} in {path}; add --input-format text if that is '
                              'what it is')

    def _check_meaning(self, named: Container[str]) -> None:
        """Raises OptionError if one of the named options has no effect beside the others."""
        kinds = {self.kind(source) for source in self.sources}
        why = {'columns': None if CONLL in kinds or self.parsed.known else 'without columns',
               'chars': 'with --raw' if self.parsed.raw else 'with columns' if kinds == {CONLL} else None,
               'splitter': None if self.parsed.raw or self.parsed.known else 'without --raw or --known',
               **dict.fromkeys(Names._fields, None if self.format == LABEL_STUDIO else f'with --format {self.format}'),
               'ngram': 'with --near 1, by which only equal sentences are left out' if self.parsed.near == 1 else None}
        for name, reason in why.items():
            if name in named and reason:
                raise OptionError(f'--{dashed(name)} means nothing {reason}; leave it away')


class _Command:
    """One call of the command.

    Args:
        request: what it asks for.
    """

    def __init__(self, request: _Request) -> None:
        self.request, self.parsed = request, request.parsed
        path = self.parsed.mindir or self.parsed.run or newest(RUNS)
        device_for(self.parsed.device, path, watcher=Terminal(console.program('suggest')))
        self.tagger, self.model = Tagger.load(path), model_version(path)
        if not self.tagger.gives_confidences:
            raise OptionError(f'{path}: this graph gives no confidences; export one with --confidence, or use the run '
                              'itself')
        if self.parsed.by == TOKEN_ENTROPY and not gives_entropy(self.tagger.decoder):
            raise OptionError(f'--by {TOKEN_ENTROPY} needs the posterior of every tag, which exported graphs and heads '
                              f'of one\'s own do not give; use the run itself, or --by {LEAST_CONFIDENCE}')
        self.characters = self.tagger.of_characters if self.parsed.chars is None else self.parsed.chars
        self.splitter = Deferred(self.parsed.splitter or self.tagger.splitter)
        if self.parsed.raw:
            self.splitter.split('')              # says at once if it is not installed

    def run(self) -> int:
        """Chooses and writes; returns the exit status."""
        known = Alike(self.parsed.ngram, self.parsed.near, self._known())
        pool = Pool(self.parsed.count, known)
        with tqdm(unit='sentences', leave=False, delay=2, disable=None, dynamic_ncols=True) as bar:
            for chunk in chunks(self._items(), lambda entry: len(entry[1].tokens)):
                for (source, item), unsure, score in zip(chunk, *self._judged(chunk)):
                    pool.add(Candidate(score, item.tokens, _document(source, item, unsure, self.model)))
                bar.update(len(chunk))
        chosen, near = pool.chosen()
        if not pool.read:
            raise CorpusError(self.parsed.input or 'standard input', None, 'expected sentences, got none')
        if not chosen:
            raise CorpusError(self.parsed.input or 'standard input', None, 'expected sentences that are not like those '
                                                                           'of --known, got none')
        self._write([candidate.document for candidate in chosen])
        fewer = '' if len(chosen) == self.parsed.count else ', all that are left'
        _report(f'{counted(len(chosen), "sentence")} of {pool.read:,}{fewer}; {self.parsed.by} from '
                f'{chosen[0].score:.4f} to {chosen[-1].score:.4f}; left out: {pool.known_left_out:,} known, '
                f'{pool.repeated:,} repeated, {near:,} near-duplicates among the rest')
        return 0

    def _known(self) -> Iterator[list[str]]:
        for path in self.parsed.known:
            for sentence in read_corpus(path, self.request.columns, self.splitter):
                yield sentence.tokens

    def _items(self) -> Iterator[tuple[str, Sentence]]:
        """(name, sentence) of all inputs."""
        for source in self.request.sources:
            name, kind, raw = 'standard input' if source == '-' else source, self.request.kind(source), self.parsed.raw
            lines = numbered(open_lines(source, raw), name, self.parsed.strict, _report, raw)
            reader = of_stream(source, kind).sentences
            assert reader is not None
            reading = Reading(columns_of(source, self.request.columns[:1]), characters=self.characters)
            items = raw_sentences(lines, self.splitter) if raw else reader(lines, name, reading)
            for item in for_columns(items, name) if FORMATS[self.request.format].columns else items:
                if item is not None and item.tokens:
                    yield name, item

    def _judged(self, chunk: Sequence[tuple[str, Sentence]]) -> tuple[list[Unsure], list[float]]:
        """What the model says of sentences, and how unsure it is of each."""
        sentences = [item.tokens for _, item in chunk]
        try:
            if self.parsed.by == TOKEN_ENTROPY:
                found = token_entropies(cast(ChainDecoder, self.tagger.decoder), sentences)
                return found, [one.entropy for one in found]
            found = [Unsure(one.tags, one.confidence or 0.0, 0.0) for one in self.tagger.tag(sentences, True)]
        except SentenceError as error:
            name, item = chunk[error.index]
            raise CorpusError(name, item.line, error.reason) from None
        return found, [of_confidence(one.confidence, len(one.tags), self.parsed.by) for one in found]

    def _write(self, documents: list[Document]) -> None:
        remarks = Remarks(self.parsed.input or 'standard input')
        splitter = self.splitter if self.parsed.raw else Deferred(CHARACTERS if self.characters else BLANK)
        scheme = scoring_scheme(self.tagger.found_scheme)          # that of the files, in which people annotate
        target = Target(self.request.format, splitter, scheme if scheme != PLAIN and 'tags' in
                        FORMATS[self.request.format].holds else None, names=self.request.names)
        source = Source(documents, JSON, self.tagger.scheme, (0, 1))
        if self.parsed.output:
            conversion.write(source, target, self.parsed.output, remarks.add)
        else:
            sys.stdout.writelines(conversion.lines(source, target, remarks.add))
        for remark in remarks.lines():
            _report(remark)


def _document(source: str, item: Sentence, unsure: Unsure, model: str) -> Document:
    """A sentence with the tags of a model.

    A text that a record holds is kept whole, as the record's other fields belong to it.
    """
    has_text = not item.rows and (item.record is None or text_of(item.record) == item.text)
    if item.record is None or not has_text:
        item = item.stripped()
    placed = item.moved(0).replace(tags=unsure.tags, rows=(), lines=(), raw=False)
    return Document(placed.text, source, item.line, sentences=[placed], bordered=False, has_text=has_text,
                    prediction=Prediction(round(unsure.confidence, 6), model), record=item.record)


def _report(message: str) -> None:
    console.say(f'{console.program(VERB)}: {message}')


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command(VERB, _suggest, arguments)


def _suggest(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    # Lone surrogates, which strings of JSON may hold, can't be written in UTF-8; escaped, they are the same JSON.
    cast(Any, sys.stdout).reconfigure(encoding='utf-8', errors='backslashreplace')
    return _Command(_Request(parsed, named)).run()
