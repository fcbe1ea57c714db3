"""The command line that finds the sentences whose annotation would teach most: ms-crf suggest --help"""

import argparse
import sys
from collections.abc import Container, Iterator, Sequence
from typing import Any, cast

from ms_crf.base.errors import CorpusError, OptionError, brief
from ms_crf.cli import console
from ms_crf.cli.convert import add_names, names_of
from ms_crf.cli.infer_arguments import add_forms, columns_of_option
from ms_crf.cli.parser import Parser, add_common, add_model, check_model, parse
from ms_crf.cli.terminal import Terminal
from ms_crf.formats import conversion
from ms_crf.formats.conversion import BRAT, JSON, LABEL_STUDIO, OF_COLUMNS, OF_TAGS, TO, TOKENS, Source, Target
from ms_crf.formats.dataset import home
from ms_crf.formats.document import Document, Placed, Remarks, counted
from ms_crf.formats.folders import are_many, files_of
from ms_crf.formats.json_fields import Names, Prediction, text_of
from ms_crf.formats.raw import items as raw_items
from ms_crf.formats.readers import check_readable, read_corpus
from ms_crf.formats.stream import CONLL, TEXT, Item, format_of, numbered, open_lines, read
from ms_crf.models.base import SentenceError
from ms_crf.models.chains import ChainDecoder
from ms_crf.models.opening import device_for, open_model
from ms_crf.models.uncertainty import (
    LEAST_CONFIDENCE,
    MEASURES,
    TOKEN_ENTROPY,
    Unsure,
    gives_entropy,
    of_confidence,
    token_entropies,
)
from ms_crf.render.tagged import for_columns
from ms_crf.runs.options import dashed
from ms_crf.runs.records import newest
from ms_crf.tagging.suggestions import Alike, Candidate, Pool
from ms_crf.tagging.tagger import Tagger, chunks
from ms_crf.text.schemes import PLAIN
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
    group.add_argument('--format', choices=TO, metavar='FORMAT',
                       help=f'one of {", ".join(TO)} (default: by the name of --output, otherwise {TOKENS})')
    add_names(group)
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
        self.names = names_of(parsed)
        self.format = parsed.format or (parsed.output and conversion.format_out(parsed.output)) or TOKENS
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
        return self.parsed.input_format if self.parsed.input_format != 'auto' else format_of(source)

    def _check_source(self, path: str, known: bool) -> None:
        if not known or not conversion.brat.is_brat(path):
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
        model = open_model(self.parsed.mindir or self.parsed.run or newest(RUNS))
        device_for(self.parsed.device, model, watcher=Terminal(console.program('suggest')))
        self.tagger, self.model = Tagger.load(model), model.version
        if not self.tagger.gives_confidences:
            raise OptionError(f'{model.path}: this graph gives no confidences; export one with --confidence, or use '
                              'the run itself')
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

    def _items(self) -> Iterator[tuple[str, Item]]:
        """(name, sentence) of all inputs."""
        for source in self.request.sources:
            name, kind, raw = 'standard input' if source == '-' else source, self.request.kind(source), self.parsed.raw
            lines = numbered(open_lines(source, raw), name, self.parsed.strict, _report, raw)
            items = raw_items(lines, self.splitter) if raw else read(lines, name, kind, self.characters,
                                                                     self.request.columns[:1])
            for item in for_columns(items, name) if self.request.format in OF_COLUMNS else items:
                if item is not None and item.tokens:
                    yield name, item

    def _judged(self, chunk: Sequence[tuple[str, Item]]) -> tuple[list[Unsure], list[float]]:
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
        scheme = home(self.tagger.found_scheme)          # that of the files, in which people annotate
        target = Target(self.request.format, splitter, scheme if self.request.format in OF_TAGS and scheme != PLAIN
                        else None, names=self.request.names)
        source = Source(documents, JSON, self.tagger.scheme, (0, 1))
        if self.parsed.output:
            conversion.write(source, target, self.parsed.output, remarks.add)
        else:
            sys.stdout.writelines(conversion.lines(source, target, remarks.add))
        for remark in remarks.lines():
            _report(remark)


def _document(source: str, item: Item, unsure: Unsure, model: str) -> Document:
    """A sentence with the tags of a model.

    A text that a record holds is kept whole, as the record's other fields belong to it.
    """
    has_text = not item.rows and (item.record is None or text_of(item.record) == item.text)
    begin, end = item.starts[0], item.starts[-1] + len(item.tokens[-1])
    if item.record is not None and has_text:
        begin, end = 0, len(item.text)
    places = [(start - begin, start - begin + len(token)) for token, start in zip(item.tokens, item.starts)]
    placed = Placed(item.tokens, places, item.line, unsure.tags, (item.line,) * len(places))
    return Document(item.text[begin:end], source, item.line, sentences=[placed], bordered=False, has_text=has_text,
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
