"""Tags, spans and confidences for sentences, from a run directory or an exported graph."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, Optional

from ms_crf.errors import OptionError
from ms_crf.models.base import CONFIDENCES, MOST_NBEST, NBEST, PATHS, SentenceError, read_run
from ms_crf.models.graph_calls import check_process, graph_load
from ms_crf.text.schemes import PLAIN, boundaries, split_tag

import numpy as np

CHUNK = 2048               # sentences that are sorted by length together
CHUNK_TOKENS = 65536       # no more than these, or one sentence
LOWEST = float(np.finfo(np.float32).min)     # the score of a path that is not there


class Span(NamedTuple):
    """A name, chunk or word: tokens first to last; confidence is its posterior."""

    type: str
    first: int
    last: int
    confidence: Optional[float] = None


class Alternative(NamedTuple):
    """One of the n best taggings of a sentence; confidence is its posterior."""

    tags: list
    confidence: float


class Tagged(NamedTuple):
    """A sentence; without confidences these are None."""

    tokens: list
    tags: list
    spans: list
    confidences: Optional[list] = None       # of each token: posterior of its tag
    confidence: Optional[float] = None       # of the sentence: posterior of all tags together
    alternatives: tuple = ()                 # n best, the first of them the same as tags


class Tagger:
    """Tags sentences; `load` makes one. Threads may share it: they take turns.

    It is copied and pickled as the name of what it was loaded from, which is loaded again.

    Args:
        decoder: what tags, a `Decoder` or the like.
        scheme: of its tags.
        found_scheme: of the tags that it was trained on, in which gold tags are scored.
    """

    def __init__(self, decoder, scheme, found_scheme):
        self.scheme, self.found_scheme = scheme, found_scheme
        self._path = None
        self.tags = decoder.vocabulary.tags
        #: whether the model was trained on single characters, as Chinese text is
        self.of_characters = decoder.vocabulary.of_characters
        self._decoder = decoder
        plain = scheme == PLAIN
        begins, ends = ([], []) if plain else boundaries(self.tags)
        self._begins, self._ends = np.array(begins), np.array(ends)
        self._types = [] if plain else [split_tag(tag)[1] for tag in self.tags]
        # 1 where the span that a tag is in goes on with the tag that follows.
        self._goes_on = np.zeros((len(self.tags),) * 2, np.float32)
        if not plain:
            inside = np.array([tag != 'O' for tag in self.tags])
            self._goes_on[:] = inside[:, None] & ~self._ends[:-1, :-1]

    @classmethod
    def load(cls, path, compiled=None):
        """A tagger from a run directory, or from a graph that `ms_crf.export` has made.

        Args:
            path: the folder, or a file that ends in .mindir, with its .json beside it.
            compiled: is called with length, rows and seconds after a graph was compiled.

        Raises:
            CorpusError: what is there is damaged, of another version or something else.
        """
        made = cls(*_load(path, compiled))
        made._path = os.path.abspath(path)
        return made

    def __reduce__(self):
        if self._path is None:
            raise TypeError('a Tagger is copied and pickled as the name of what Tagger.load was given; this one was '
                            'made without it')
        return type(self).load, (self._path,)

    @property
    def gives_confidences(self):
        """Whether the model can compute them; a graph is exported with them or without."""
        return CONFIDENCES in self._decoder.tasks

    def check(self, confidence, nbest):
        """Raises OptionError for what the model does not give."""
        if confidence and CONFIDENCES not in self._decoder.tasks:
            raise OptionError('this graph gives no confidences; export one with --confidence, or use the run itself')
        if nbest and NBEST not in self._decoder.tasks:
            raise OptionError('the n best taggings come from a run of --model bilstm only, not from an exported graph '
                              'or a hidden Markov model')

    def tag(self, sentences, confidence=None, nbest=0):
        """Tags sentences.

        Args:
            sentences: lists of tokens, which are strings, or what else gives them one by one: tuples, arrays,
                generators; a sentence may be empty.
            confidence: whether to compute confidences; None for where the model gives them.
            nbest: how many of the likeliest taggings to give as alternatives, 1,000 at most; a sentence gets no
                more than it has.

        Returns:
            A list with a `Tagged` for each sentence.
        """
        return list(self.stream(sentences, confidence, nbest))

    def stream(self, sentences, confidence=None, nbest=0):
        """As `tag`, for sentences of any number one after the other, in constant memory.

        Raises:
            SentenceError: the model can't take one of them.
            RuntimeError: the process was forked after its parent had tagged; see `graph_calls`.
        """
        if isinstance(nbest, bool) or not isinstance(nbest, (int, np.integer)) or not 0 <= nbest <= MOST_NBEST:
            raise ValueError(f'nbest must be a whole number from 0 to {MOST_NBEST}, got {nbest!r:.30}')
        confidence = self.gives_confidences if confidence is None else confidence
        self.check(confidence, nbest)
        done = 0
        for chunk in chunks(_checked(sentences)):
            try:
                found = self._tag_chunk(chunk, confidence, nbest)
            except SentenceError as error:       # who decodes has no empty ones
                filled = [number for number, tokens in enumerate(chunk, done) if tokens]
                raise SentenceError(filled[error.number], error.reason) from None
            yield from found
            done += len(chunk)

    def _tag_chunk(self, sentences, confidence, nbest):
        if self._decoder.runs_graphs:
            check_process()
        found = [None] * len(sentences)
        filled = [number for number, tokens in enumerate(sentences) if tokens]
        for number, tokens in enumerate(sentences):
            if not tokens:
                found[number] = _empty(confidence or nbest, nbest)
        if not filled:
            return found
        encoded = self._decoder.encode([sentences[number] for number in filled])
        task = NBEST if nbest else CONFIDENCES if confidence else PATHS
        for numbers, (paths, scores, *rest) in self._decoder.run(encoded, task, nbest or 1):
            count = len(numbers)
            lengths = encoded.lengths[numbers]
            best = (paths[:, 0] if nbest else paths)[:count]
            known = _Known(best, lengths, *(array[:count] for array in rest[:2]), self._goes_on) if rest else None
            spans = self._spans(best, lengths, known)
            for row, (number, length, path) in enumerate(zip(numbers.tolist(), lengths.tolist(), best.tolist())):
                place = filled[number]
                tags = [self.tags[tag] for tag in path[:length]]
                if known is None:
                    found[place] = Tagged(sentences[place], tags, spans[row])
                    continue
                others = self._alternatives(paths[row, :, :length], scores[row], rest[2][row]) if nbest else ()
                found[place] = Tagged(sentences[place], tags, spans[row], known.chosen[row, :length].tolist(),
                                      known.whole[row], others)
        return found

    def _spans(self, paths, lengths, known):
        """For each row of a batch (B, L) the list of its spans, as `spans_of` would find them one by one."""
        spans = [[] for _ in lengths]
        if self.scheme == PLAIN:
            return spans
        outside = len(self.tags)
        paths = np.where(np.arange(paths.shape[1]) < lengths[:, None], paths, outside)
        padded = np.pad(paths, ((0, 0), (1, 1)), constant_values=outside)
        rows, firsts = np.nonzero(self._begins[padded[:, :-2], paths])
        _, lasts = np.nonzero(self._ends[paths, padded[:, 2:]])
        types = paths[rows, lasts].tolist()
        confidences = [None] * len(rows) if known is None else known.of_spans(rows, firsts, lasts).tolist()
        found = zip(rows.tolist(), types, firsts.tolist(), lasts.tolist(), confidences)
        for row, kind, first, last, confidence in found:
            spans[row].append(Span(self._types[kind], first, last, confidence))
        return spans

    def _alternatives(self, paths, scores, normalizer):
        """Of one sentence, as many as there are."""
        return tuple(Alternative([self.tags[tag] for tag in path], min(1.0, float(np.exp(float(score) - normalizer))))
                     for path, score in zip(paths.tolist(), scores) if score > LOWEST / 2)


class _Known:
    """What the posteriors of a batch say of its paths (B, L).

    Args:
        paths, lengths: (B, L) and (B,).
        chosen, given_before: what `CRF.along` gives, (B, L) and (B, L, K).
        goes_on: (K, K), 1 where the span that a tag is in goes on with the tag that follows.
    """

    def __init__(self, paths, lengths, chosen, given_before, goes_on):
        self.chosen = np.clip(chosen.astype(np.float64), 0, 1)
        step = np.take_along_axis(given_before, paths[:, :, None], 2)[:, :, 0].astype(np.float64)
        live = np.arange(paths.shape[1]) < lengths[:, None]
        # Logarithms of the products up to each token: of any part of a path by subtraction.
        self.sums = np.cumsum(np.log(np.where(live, np.clip(step, 1e-300, 1), 1)), 1)
        self.whole = np.exp(self.sums[:, -1]).tolist()
        self.ends = np.ones(paths.shape)
        self.ends[:, :-1] -= (given_before[:, 1:] * goes_on[paths[:, :-1]]).sum(2)

    def of_spans(self, rows, firsts, lasts):
        """Posterior of each span: that its first tag is what it is, the others after it, and that it ends there."""
        inside = np.exp(self.sums[rows, lasts] - self.sums[rows, firsts])
        return self.chosen[rows, firsts] * inside * np.clip(self.ends[rows, lasts], 0, 1)


def _empty(confidence, nbest):
    """A sentence without tokens, which has one tagging."""
    if not confidence:
        return Tagged([], [], [])
    return Tagged([], [], [], [], 1.0, (Alternative([], 1.0),) if nbest else ())


def _load(path, compiled):
    """What `Tagger` is made of."""
    # What starts MindSpore is imported where it is needed: a hidden Markov model does without.
    if str(path).endswith('.mindir'):
        with graph_load():
            from ms_crf.models.mindir import MindIRDecoder
            return MindIRDecoder.load(path)
    kind, config = read_run(path)
    with graph_load() if kind.uses_mindspore else contextlib.nullcontext():
        return kind.load(path, config, compiled), config['scheme'], config['found_scheme']


def _checked(sentences):
    """Each sentence as a list of str."""
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        given = 'a string' if isinstance(sentences, str) else repr(sentences)[:60]
        raise TypeError(f'sentences must be lists of tokens, got {given}; split it')
    for number, given in enumerate(sentences):
        # Sets have no order, and of dicts only the keys would be read.
        ordered = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Set, Mapping))
        tokens = list(given) if ordered else [given]
        if not ordered or not all(isinstance(token, str) for token in tokens):
            raise TypeError(f'sentence {number} must be a list of strings, got {_shown(given, tokens)}; '
                            'split it into tokens')
        if not all(tokens):
            raise ValueError(f'sentence {number} must have no empty token, got {_shown(given, tokens)}')
        yield [str(token) for token in tokens]   # NumPy has strings of its own


def _shown(given, tokens):
    """A sentence in a message: of an iterator what it gave."""
    return repr(tokens if isinstance(given, Iterator) else given)[:60].replace('\n', ' ')


def chunks(items, size=len):
    """Lists of items, as many as are worth sorting by length: at most CHUNK, and CHUNK_TOKENS tokens or one item.

    Args:
        items: one after the other; None where more is not there yet, which ends a list.
        size: a function of an item to its number of tokens.
    """
    chunk, tokens = [], 0
    for item in items:
        more = 0 if item is None else size(item)
        if chunk and (item is None or len(chunk) == CHUNK or tokens + more > CHUNK_TOKENS):
            yield chunk
            chunk, tokens = [], 0
        if item is not None:
            chunk.append(item)
            tokens += more
    if chunk:
        yield chunk
