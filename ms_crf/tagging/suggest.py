"""The function `suggest`, which selects unlabelled sentences to annotate next (active learning).

It selects the sentences with the highest uncertainty scores, without duplicates and near-duplicates of each other or of
known sentences. Two sentences are near-duplicates if the Jaccard index of their sets of lower-case word n-grams is
above a threshold. The Jaccard index is the size of the intersection divided by the size of the union.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO, cast

from ms_crf.base.errors import CorpusError, OptionError, argument
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats import conversion
from ms_crf.formats.columns import for_columns
from ms_crf.formats.conversion import Source
from ms_crf.formats.document import Document, Prediction, Remarks, Target
from ms_crf.formats.json_lines import text_of
from ms_crf.formats.lines import check_readable, chunks
from ms_crf.formats.registry import BRAT, FORMATS, JSON, of_corpus, read_corpus
from ms_crf.models import chains
from ms_crf.models.base import SentenceError
from ms_crf.models.chains import LEAST_CONFIDENCE, TOKEN_ENTROPY, ChainDecoder, Uncertainty
from ms_crf.tagging.arguments import AUTO, LINES, SuggestArguments
from ms_crf.tagging.files import Inputs, source_of
from ms_crf.text.partial import scoring_scheme
from ms_crf.text.schemes import PLAIN
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import BLANK, CHARACTERS, Deferred

SPARE = 10_000                 # number of candidates to keep in addition to the requested number of sentences


class Suggestion(NamedTuple):
    """A candidate sentence."""

    score: float               # uncertainty; higher scores are selected first, and equal tokens have equal scores
    tokens: list[str]
    document: Document         # contains this sentence only, with text, file and line number
    tags: Sequence[str] = ()   # predicted tags
    confidence: float = 1.0    # posterior of all tags together


class Suggestions(list[Suggestion]):
    """The sentences that `suggest` returns, the highest score first.

    Attributes:
        read: number of sentences in the input.
        known: number of sentences omitted because they are annotated already.
        repeated: number of sentences omitted because the same tokens occurred before.
        near: number of near-duplicates with scores above the lowest selected score.
        remarks: one line for each kind of data that the output format cannot represent.
    """

    remarks: Sequence[str] = ()

    def __init__(self, pool: 'CandidatePool') -> None:
        chosen, near = pool.chosen()
        super().__init__(chosen)
        self.read, self.known, self.repeated, self.near = pool.read, pool.known_left_out, pool.repeated, near


def suggest(input: PathLike | Iterable[str], *, known: Sequence[PathLike] | None = None,
            output: PathLike | TextIO | None = None, run: PathLike | None = None, mindir: PathLike | None = None,
            input_format: str = AUTO, columns: str = '0,-1', chars: bool | None = None, raw: bool = False,
            splitter: str | None = None, strict: bool = False, count: int = 100, by: str = LEAST_CONFIDENCE,
            near: float = 0.5, ngram: int = 2, format: str | None = None, from_name: str | None = None,
            to_name: str | None = None, label_type: str | None = None, plugin: PathLike | None = None,
            device: str = 'auto', watcher: Watcher = SILENT) -> Suggestions:
    """Selects the unlabelled sentences about which a model is most uncertain, for annotation (active learning).

    Args:
        input: path of a file, also .gz, or of a folder, or a pattern such as 'texts/*.txt'. Or lines of text: an open
            text stream or another iterable of strings. '-' and `sys.stdin` mean standard input.
        known: files of annotated sentences; these sentences and near-duplicates of them are not suggested.
        output: path of a file to write, or of a folder for brat; or a text stream.
        run, mindir, input_format, columns, chars, raw, splitter, strict, plugin, device: as for `tag`.
        count: number of sentences to select.
        by: measure of uncertainty: 'least-confidence', 'mnlp' or 'token-entropy', see `ms_crf.models.chains`.
        near: threshold for near-duplicates: of two sentences with a larger Jaccard index only one is selected.
        ngram: number of words in an n-gram.
        format: output format, such as 'tokens' or 'label-studio' (default: by the name of `output`, otherwise
            'tokens').
        from_name, to_name, label_type: names in the labelling configuration of Label Studio.
        watcher: receives messages, progress, and warnings about invalid UTF-8.

    Returns:
        The selected sentences with predicted tags and scores, the highest score first; counts are attributes.

    Raises:
        OptionError: an argument is invalid, or has no effect in this combination.
        CorpusError: an input file is invalid, or contains no sentences.

    Example:
        >>> from ms_crf.api import suggest
        >>> chosen = suggest('raw.txt', known=['train.tsv'], run='runs/mine', count=2)    # doctest: +SKIP
        >>> [(round(each.score, 2), each.document.text) for each in chosen]                # doctest: +SKIP
        [(0.81, 'Kowalski moved to Porto in May .'), (0.64, 'Lisbon Systems hired her .')]
    """
    arguments = SuggestArguments.from_call({**locals(), 'input': source_of(input)})
    for path in [path for path in arguments.sources if path != LINES] + [
            path for path in arguments.known or () if of_corpus(path) is not FORMATS[BRAT]]:
        check_readable(path)
    if isinstance(arguments.output, str):
        conversion.check_target(arguments.output, arguments.written)
    return _Chooser(arguments, watcher).run()


class _Chooser(Inputs):
    """One call of `suggest`.

    Args:
        arguments: its arguments.
        watcher: see there.
    """

    arguments: SuggestArguments

    def __init__(self, arguments: SuggestArguments, watcher: Watcher) -> None:
        super().__init__(arguments, watcher)
        if not self.tagger.gives_confidences:
            raise OptionError(f'{self.path}: this graph computes no confidences; export it with '
                              f'{argument("confidence")}, or use the run itself')
        if arguments.by == TOKEN_ENTROPY and not chains.gives_entropy(self.tagger.decoder):
            raise OptionError(f'{argument("by")} {TOKEN_ENTROPY} needs the posterior of every tag, which exported '
                              'graphs and custom heads do not compute; use the run itself, or '
                              f'{argument("by")} {LEAST_CONFIDENCE}')

    def run(self) -> Suggestions:
        """Selects sentences, and writes them if there is an output."""
        arguments, model = self.arguments, self.model.version
        pool = CandidatePool(arguments.count, DuplicateIndex(arguments.ngram, arguments.near, self._known()))
        with self.watcher.progress('', None, 'sentences') as done:
            for chunk in chunks(self._items(), lambda entry: len(entry[1].tokens)):
                for (source, item), tagged, score in zip(chunk, *self._scored(chunk)):
                    pool.add(Suggestion(score, item.tokens, _document(source, item, tagged, model), tagged.tags,
                                        tagged.confidence))
                done(len(chunk))
        chosen = Suggestions(pool)
        if not chosen.read:
            raise CorpusError(arguments.name, None, 'expected sentences, got none')
        if not chosen:
            raise OptionError(f'{arguments.name}: expected sentences that differ from {argument("known")}, got none')
        if arguments.output is not None:
            chosen.remarks = self._write([sentence.document for sentence in chosen])
        return chosen

    def _known(self) -> Iterator[list[str]]:
        for path in self.arguments.known or ():
            for sentence in read_corpus(path, self.arguments.indices('known'), self.splitter):
                yield sentence.tokens

    def _items(self) -> Iterator[tuple[str, Sentence]]:
        """Yields (name of the input, sentence) for all inputs."""
        for source in self.arguments.sources:
            name, items = self.name(source), self.of_file(source, self.arguments.indices('known')[:1])
            for item in for_columns(items, name) if FORMATS[self.arguments.written].columns else items:
                if item is not None and item.tokens:
                    yield name, item

    def _scored(self, chunk: Sequence[tuple[str, Sentence]]) -> tuple[list[Uncertainty], list[float]]:
        """Returns predictions of the model for sentences, and their uncertainty scores."""
        sentences = [item.tokens for _, item in chunk]
        try:
            if self.arguments.by == TOKEN_ENTROPY:
                predictions = chains.token_entropies(cast(ChainDecoder, self.tagger.decoder), sentences)
                return predictions, [each.entropy for each in predictions]
            predictions = [Uncertainty(each.tags, each.confidence or 0.0, 0.0)
                           for each in self.tagger.tag(sentences, True)]
        except SentenceError as error:
            name, item = chunk[error.index]
            raise CorpusError(name, item.line, error.reason) from None
        return predictions, [chains.of_confidence(each.confidence, len(each.tags), self.arguments.by)
                             for each in predictions]

    def _write(self, documents: list[Document]) -> list[str]:
        """Writes the selected sentences; returns one line for each kind of data that the format cannot represent."""
        arguments, remarks = self.arguments, Remarks(self.arguments.name)
        splitter = self.splitter if arguments.raw else Deferred(CHARACTERS if self.characters else BLANK)
        scheme = scoring_scheme(self.tagger.file_scheme)         # scheme of the files, in which people annotate
        with_tags = scheme != PLAIN and 'tags' in FORMATS[arguments.written].holds
        target = Target(arguments.written, splitter, scheme if with_tags else None, names=arguments.names)
        source = Source(documents, JSON, self.tagger.scheme, (0, 1))
        if isinstance(arguments.output, str):
            conversion.write(source, target, arguments.output, remarks.add)
        else:
            arguments.output.writelines(conversion.lines(source, target, remarks.add))
        return remarks.lines()


def _document(source: str, item: Sentence, tagged: Uncertainty, model: str) -> Document:
    """Returns a document of one sentence with predicted tags.

    The text of a JSON record is not stripped, because other fields of the record may contain offsets in it.
    """
    has_text = not item.rows and (item.record is None or text_of(item.record) == item.text)
    if item.record is None or not has_text:
        item = item.stripped()
    moved = item.moved(0).replace(tags=tagged.tags, rows=(), lines=(), raw=False)
    return Document(moved.text, source, item.line, sentences=[moved], has_boundary=False, has_text=has_text,
                    prediction=Prediction(round(tagged.confidence, 6), model), record=item.record)


class DuplicateIndex:
    """An index of sentences that finds duplicates and near-duplicates.

    Args:
        size: number of words in an n-gram.
        threshold: Jaccard index above which two sentences are near-duplicates; 1 means only equal sentences.
        sentences: lists of tokens to add.
    """

    def __init__(self, size: int, threshold: float, sentences: Iterable[Sequence[str]] = ()) -> None:
        self.size, self.threshold = size, threshold
        self._same: set[tuple[str, ...]] = set()
        self._sentences_with: dict[int, list[int]] = {}    # hash of an n-gram: indices of its sentences
        self._ngrams_of: list[set[int]] = []     # by sentence, hashes of its n-grams
        for sentence in sentences:
            self.add(sentence)

    def add(self, tokens: Sequence[str]) -> None:
        """Adds a sentence."""
        if self.same(tokens):
            return
        self._same.add(tuple(tokens))
        if self.threshold < 1:
            ngrams = self._ngrams(tokens)
            for ngram in ngrams:
                self._sentences_with.setdefault(ngram, []).append(len(self._ngrams_of))
            self._ngrams_of.append(ngrams)

    def same(self, tokens: Sequence[str]) -> bool:
        """Whether the index contains a sentence with the same tokens."""
        return tuple(tokens) in self._same

    def near(self, tokens: Sequence[str]) -> bool:
        """Whether the index contains a near-duplicate of a sentence."""
        if self.threshold >= 1:
            return False
        ngrams = self._ngrams(tokens)
        # A near-duplicate shares more than threshold * n of the n n-grams, so it contains at least one of any n -
        # int(threshold * n) n-grams. The rarest n-grams have the fewest sentences to compare.
        enough = len(ngrams) - int(self.threshold * len(ngrams))
        rarest = sorted(ngrams, key=lambda ngram: len(self._sentences_with.get(ngram, ())))[:enough]
        sharing = {index for ngram in rarest for index in self._sentences_with.get(ngram, ())}
        return any(len(ngrams & other) / len(ngrams | other) > self.threshold
                   for other in map(self._ngrams_of.__getitem__, sharing))

    def _ngrams(self, tokens: Sequence[str]) -> set[int]:
        """Returns hashes of the n-grams; a sentence of fewer words is a single n-gram."""
        words = [token.lower() for token in tokens]
        return {hash(tuple(words[first:first + self.size])) for first in range(max(1, len(words) - self.size + 1))}


class CandidatePool:
    """Selects candidates with high scores from a stream, in bounded memory.

    Candidates are considered from the highest to the lowest score, and for equal scores in their order of arrival.
    Near-duplicates of known sentences and of better candidates are omitted. When the pool is full, near-duplicates are
    removed, then the candidates with the lowest scores.

    Args:
        count: number of candidates to select.
        known: index of sentences that are not selected.
        spare: number of candidates to keep in addition to `count`.

    Attributes:
        read: number of candidates added.
        known_left_out: number of candidates with the tokens of a known sentence.
        repeated: number of candidates with the tokens of a candidate in the pool.
    """

    def __init__(self, count: int, known: DuplicateIndex, spare: int = SPARE) -> None:
        self.count, self.room, self._known = count, count + spare, known
        self.read = self.known_left_out = self.repeated = 0
        self._held: list[Suggestion] = []
        self._tokens: set[tuple[str, ...]] = set()
        self._least = float('-inf')              # candidates up to this score are rejected, after a removal

    def add(self, candidate: Suggestion) -> None:
        """Adds a candidate, unless its tokens are known or in the pool, or its score is too low."""
        self.read += 1
        key = tuple(candidate.tokens)
        if self._known.same(key):
            self.known_left_out += 1
        elif key in self._tokens:
            self.repeated += 1
        elif candidate.score > self._least:
            self._tokens.add(key)
            self._held.append(candidate)
            if len(self._held) >= 2 * self.room:
                self._shrink()

    def chosen(self) -> tuple[list[Suggestion], int]:
        """Returns the selected candidates, highest score first, and the number of near-duplicates omitted."""
        selected: list[Suggestion] = []
        omitted = 0
        for candidate, duplicate in self._by_score():
            if len(selected) == self.count:
                break
            omitted += duplicate
            if not duplicate:
                selected.append(candidate)
        return selected, omitted

    def _by_score(self) -> Iterator[tuple[Suggestion, bool]]:
        """Yields candidates by falling score, and whether each is a near-duplicate of a known or better sentence."""
        before = DuplicateIndex(self._known.size, self._known.threshold)
        for candidate in sorted(self._held, key=lambda held: -held.score):           # stable for equal scores
            duplicate = self._known.near(candidate.tokens) or before.near(candidate.tokens)
            if not duplicate:
                before.add(candidate.tokens)
            yield candidate, duplicate

    def _shrink(self) -> None:
        different = [candidate for candidate, duplicate in self._by_score() if not duplicate]
        self._held = different[:self.room]
        self._tokens = {tuple(candidate.tokens) for candidate in self._held}
        if len(different) > self.room:
            self._least = self._held[-1].score
