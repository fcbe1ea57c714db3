"""The function `suggest`: which sentences of unlabelled text to annotate next.

It chooses the sentences with the highest scores, none of them like another or like known ones. Sentences are alike if
they have the same tokens, or if they share many word n-grams: if the Jaccard index of the two sets, what they share of
what is in either, is above a threshold. Capitals don't count there.
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

SPARE = 10_000                 # candidates that are held beside as many as are wanted


class Suggestion(NamedTuple):
    """A sentence that may be chosen."""

    score: float               # the higher, the sooner it is chosen; equal tokens have equal scores
    tokens: list[str]
    document: Document         # with its text, file and line; the sentence is all that the document holds
    tags: Sequence[str] = ()   # of the model
    confidence: float = 1.0    # the posterior of all tags together


class Suggestions(list[Suggestion]):
    """The sentences that `suggest` returns, the highest score first.

    Attributes:
        read: the number of sentences in the input.
        known: how many of them were left out because they are annotated.
        repeated: how many because a sentence with the same tokens came before.
        near: how many near-duplicates were left out before the last sentence was chosen.
        remarks: a line for each kind of loss in the format of the output.
    """

    remarks: Sequence[str] = ()

    def __init__(self, pool: 'Pool') -> None:
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
    """Finds the sentences of unlabelled text whose annotation would teach a model most.

    Args:
        input: path of a file, also .gz, of a folder, or a pattern like 'texts/*.txt'; or lines of text: an open text
            stream or any other iterable of strings. '-' and `sys.stdin` are standard input.
        known: files of annotated sentences; they and their near-duplicates are not suggested again.
        output: path of a file to write, of brat a folder; or a text stream.
        run, mindir, input_format, columns, chars, raw, splitter, strict, plugin, device: as for `tag`.
        count: how many sentences to choose.
        by: the measure: 'least-confidence', 'mnlp' or 'token-entropy', see `ms_crf.models.chains`.
        near: of two sentences whose word n-grams have a larger Jaccard index only one is chosen.
        ngram: words of an n-gram.
        format: of the output, such as 'tokens' or 'label-studio'; by default by its name, otherwise 'tokens'.
        from_name, to_name, label_type: the names in a labelling interface of Label Studio.
        watcher: is told what is loaded, how many sentences are read, and which lines are no UTF-8.

    Returns:
        The chosen sentences with their tags and scores, the highest score first, and counts as attributes.

    Raises:
        OptionError: an argument can't be, or has no effect beside the others.
        CorpusError: a file has a fault, or there is nothing to choose from.

    Example:
        >>> from ms_crf.api import suggest
        >>> chosen = suggest('raw.txt', known=['train.tsv'], run='runs/mine', count=2)    # doctest: +SKIP
        >>> [(round(one.score, 2), one.document.text) for one in chosen]                  # doctest: +SKIP
        [(0.81, 'Kowalski moved to Porto in May .'), (0.64, 'Lisbon Systems hired her .')]
    """
    given = SuggestArguments.given({**locals(), 'input': source_of(input)})
    for path in [path for path in given.sources if path != LINES] + [
            path for path in given.known or () if of_corpus(path) is not FORMATS[BRAT]]:
        check_readable(path)
    if isinstance(given.output, str):
        conversion.check_target(given.output, given.written)
    return _Chooser(given, watcher).run()


class _Chooser(Inputs):
    """One call of `suggest`.

    Args:
        given: its arguments.
        watcher: see there.
    """

    given: SuggestArguments

    def __init__(self, given: SuggestArguments, watcher: Watcher) -> None:
        super().__init__(given, watcher)
        if not self.tagger.gives_confidences:
            raise OptionError(f'{self.path}: this graph gives no confidences; export one with '
                              f'{argument("confidence")}, or use the run itself')
        if given.by == TOKEN_ENTROPY and not chains.gives_entropy(self.tagger.decoder):
            raise OptionError(f'{argument("by")} {TOKEN_ENTROPY} needs the posterior of every tag, which exported '
                              'graphs and custom heads do not give; use the run itself, or '
                              f'{argument("by")} {LEAST_CONFIDENCE}')

    def run(self) -> Suggestions:
        """Chooses sentences, and writes them if there is an output."""
        given, model = self.given, self.model.version
        pool = Pool(given.count, Alike(given.ngram, given.near, self._known()))
        with self.watcher.progress('', None, 'sentences') as done:
            for chunk in chunks(self._items(), lambda entry: len(entry[1].tokens)):
                for (source, item), unsure, score in zip(chunk, *self._judged(chunk)):
                    pool.add(Suggestion(score, item.tokens, _document(source, item, unsure, model), unsure.tags,
                                        unsure.confidence))
                done(len(chunk))
        chosen = Suggestions(pool)
        if not chosen.read:
            raise CorpusError(given.name, None, 'expected sentences, got none')
        if not chosen:
            raise OptionError(f'{given.name}: expected sentences that are not like those of {argument("known")}, got '
                              'none')
        if given.output is not None:
            chosen.remarks = self._write([sentence.document for sentence in chosen])
        return chosen

    def _known(self) -> Iterator[list[str]]:
        for path in self.given.known or ():
            for sentence in read_corpus(path, self.given.indices('known'), self.splitter):
                yield sentence.tokens

    def _items(self) -> Iterator[tuple[str, Sentence]]:
        """(name, sentence) of all inputs."""
        for source in self.given.sources:
            name, items = self.name(source), self.of_file(source, self.given.indices('known')[:1])
            for item in for_columns(items, name) if FORMATS[self.given.written].columns else items:
                if item is not None and item.tokens:
                    yield name, item

    def _judged(self, chunk: Sequence[tuple[str, Sentence]]) -> tuple[list[Uncertainty], list[float]]:
        """What the model says of sentences, and how uncertain it is of each."""
        sentences = [item.tokens for _, item in chunk]
        try:
            if self.given.by == TOKEN_ENTROPY:
                found = chains.token_entropies(cast(ChainDecoder, self.tagger.decoder), sentences)
                return found, [one.entropy for one in found]
            found = [Uncertainty(one.tags, one.confidence or 0.0, 0.0) for one in self.tagger.tag(sentences, True)]
        except SentenceError as error:
            name, item = chunk[error.index]
            raise CorpusError(name, item.line, error.reason) from None
        return found, [chains.of_confidence(one.confidence, len(one.tags), self.given.by) for one in found]

    def _write(self, documents: list[Document]) -> list[str]:
        """Writes the chosen sentences; returns what is said of what the format has no place for."""
        given, remarks = self.given, Remarks(self.given.name)
        splitter = self.splitter if given.raw else Deferred(CHARACTERS if self.characters else BLANK)
        scheme = scoring_scheme(self.tagger.found_scheme)        # of the files, in which people annotate
        with_tags = scheme != PLAIN and 'tags' in FORMATS[given.written].holds
        target = Target(given.written, splitter, scheme if with_tags else None, names=given.names)
        source = Source(documents, JSON, self.tagger.scheme, (0, 1))
        if isinstance(given.output, str):
            conversion.write(source, target, given.output, remarks.add)
        else:
            given.output.writelines(conversion.lines(source, target, remarks.add))
        return remarks.lines()


def _document(source: str, item: Sentence, unsure: Uncertainty, model: str) -> Document:
    """A sentence with the tags of a model.

    A text that a record holds is kept whole, as the record's other fields belong to it.
    """
    has_text = not item.rows and (item.record is None or text_of(item.record) == item.text)
    if item.record is None or not has_text:
        item = item.stripped()
    placed = item.moved(0).replace(tags=unsure.tags, rows=(), lines=(), raw=False)
    return Document(placed.text, source, item.line, sentences=[placed], bordered=False, has_text=has_text,
                    prediction=Prediction(round(unsure.confidence, 6), model), record=item.record)


class Alike:
    """Sentences, and whether others are like one of them.

    Args:
        size: words of an n-gram.
        threshold: the Jaccard index above which two sentences are near-duplicates; 1 leaves only equal ones.
        sentences: lists of tokens.
    """

    def __init__(self, size: int, threshold: float, sentences: Iterable[Sequence[str]] = ()) -> None:
        self.size, self.threshold = size, threshold
        self._same: set[tuple[str, ...]] = set()
        self._with: dict[int, list[int]] = {}    # by the hash of an n-gram the sentences that it is in
        self._ngrams_of: list[set[int]] = []     # hashes of the n-grams of each
        for sentence in sentences:
            self.add(sentence)

    def add(self, tokens: Sequence[str]) -> None:
        if self.same(tokens):
            return
        self._same.add(tuple(tokens))
        if self.threshold < 1:
            found = self._ngrams(tokens)
            for ngram in found:
                self._with.setdefault(ngram, []).append(len(self._ngrams_of))
            self._ngrams_of.append(found)

    def same(self, tokens: Sequence[str]) -> bool:
        """Whether there is a sentence with these tokens."""
        return tuple(tokens) in self._same

    def near(self, tokens: Sequence[str]) -> bool:
        """Whether there is a near-duplicate of a sentence with these tokens."""
        if self.threshold >= 1:
            return False
        found = self._ngrams(tokens)
        # A near-duplicate lacks so few of the n-grams that it has one of any others so many; the rarest are few to see.
        enough = len(found) - int(self.threshold * len(found))
        rarest = sorted(found, key=lambda ngram: len(self._with.get(ngram, ())))[:enough]
        sharing = {index for ngram in rarest for index in self._with.get(ngram, ())}
        return any(len(found & other) / len(found | other) > self.threshold
                   for other in map(self._ngrams_of.__getitem__, sharing))

    def _ngrams(self, tokens: Sequence[str]) -> set[int]:
        """Hashes of the n-grams; a shorter sentence is one by itself."""
        words = [token.lower() for token in tokens]
        return {hash(tuple(words[first:first + self.size])) for first in range(max(1, len(words) - self.size + 1))}


class Pool:
    """Takes candidates one after the other, and holds only as many as it takes to choose from.

    The chosen ones are those that one gets who goes through all candidates from the highest score downwards, of equal
    ones the first, and leaves out those that are like a known sentence or like one chosen before. When the pool is
    full, it is gone through in this way, and those with the lowest scores are dropped.

    Args:
        count: how many to choose.
        known: sentences that are not to be chosen again.
        spare: how many candidates to hold beside `count`.

    Attributes:
        read: candidates that were added.
        known_left_out: how many of them were known.
        repeated: how many had the tokens of one that is held.
    """

    def __init__(self, count: int, known: Alike, spare: int = SPARE) -> None:
        self.count, self.room, self._known = count, count + spare, known
        self.read = self.known_left_out = self.repeated = 0
        self._held: list[Suggestion] = []
        self._tokens: set[tuple[str, ...]] = set()
        self._least = float('-inf')              # the score that one must be above, once some were dropped

    def add(self, candidate: Suggestion) -> None:
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
        """The chosen candidates, the best first, and the number of near-duplicates that were left out before."""
        found: list[Suggestion] = []
        left_out = 0
        for candidate, alike in self._in_order():
            if len(found) == self.count:
                break
            left_out += alike
            if not alike:
                found.append(candidate)
        return found, left_out

    def _in_order(self) -> Iterator[tuple[Suggestion, bool]]:
        """All that are held, the best first, and whether each is like a known one or one before it."""
        before = Alike(self._known.size, self._known.threshold)
        for candidate in sorted(self._held, key=lambda held: -held.score):           # stable: the first of equals
            alike = self._known.near(candidate.tokens) or before.near(candidate.tokens)
            if not alike:
                before.add(candidate.tokens)
            yield candidate, alike

    def _shrink(self) -> None:
        different = [candidate for candidate, alike in self._in_order() if not alike]
        self._held = different[:self.room]
        self._tokens = {tuple(candidate.tokens) for candidate in self._held}
        if len(different) > self.room:
            self._least = self._held[-1].score
