"""Tags, spans and confidences for sentences, from a run directory or an exported graph."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any

from ms_crf.base.environment import check_process, graph_load
from ms_crf.base.errors import OptionError
from ms_crf.base.files import PathLike
from ms_crf.formats.lines import chunks
from ms_crf.models.base import CONFIDENCES, MOST_NBEST, NBEST, PATHS, Decoder, SentenceError
from ms_crf.models.graph_record import Graph
from ms_crf.models.opening import decoder_of, open_model
from ms_crf.render.tagged import TaggedList
from ms_crf.runs import run as runs
from ms_crf.text.schemes import PLAIN, boundaries, spans_of, split_tag, tags_in, tags_of
from ms_crf.text.sentence import Alternative, Sentence
from ms_crf.text.splitting import CHARACTERS, DEFAULT, splitter_named

import numpy as np

#: is called with length, rows and seconds after a graph was compiled
Compiled = Callable[[int, int, float], object]
LOWEST = float(np.finfo(np.float32).min)     # the score that stands for a path that does not exist


class Tagger:
    """Tags sentences with a trained model; `Tagger.load` makes one. Threads may share it: they take turns.

    A copy or pickle of it holds only the path that it was loaded from, and is loaded from there again.

    Confidences are probabilities under the model: that a token has its tag, that a span of this type is at just these
    tokens, that all tags of a sentence are as they are.

    Example, with the directory of a run:
        >>> from ms_crf import Tagger
        >>> tagger = Tagger.load(run)
        >>> [sentence] = tagger.tag([['the', 'wall', 'street', 'journal']])
        >>> len(sentence.tags), set(sentence.tags) <= set(tagger.tags)
        (4, True)
        >>> all(0 < confidence <= 1 for confidence in [*sentence.confidences, sentence.confidence])
        True

    Args:
        decoder: the model, a `Decoder` of `ms_crf.models.base`.
        scheme: the scheme that it was trained in.
        found_scheme: the scheme of the files that it was trained on, in which gold tags are scored.
        splitter: the name of what cuts raw text into sentences and tokens, see `ms_crf.text.splitting`; None if the
            model, of an earlier version, does not say.
        written_scheme: the scheme of the tags that come out; None for that of training.
    """

    def __init__(self, decoder: Decoder, scheme: str, found_scheme: str, splitter: str | None = None,
                 written_scheme: str | None = None) -> None:
        #: the schemes of the tags that come out, of training, and of the files
        self.scheme, self.model_scheme, self.found_scheme = written_scheme or scheme, scheme, found_scheme
        #: the name of the splitter of raw text
        self.splitter = splitter or (CHARACTERS if decoder.vocabulary.of_characters else DEFAULT)
        self._path: str | None = None
        self._kind = type(decoder).__name__      # of model, for repr
        self._temperature = 1.0
        tags = decoder.vocabulary.tags
        self._names = np.array(tags, object)
        #: whether the model was trained on single characters, as Chinese text is
        self.of_characters = decoder.vocabulary.of_characters
        #: the model itself
        self.decoder = decoder
        plain = scheme == PLAIN
        self._begins, self._ends = map(np.array, ([], []) if plain else boundaries(tags))
        self._types = [] if plain else [split_tag(tag)[1] for tag in tags]
        types = dict.fromkeys(kind for tag, kind in zip(tags, self._types) if tag != 'O')
        self.tags = tags if self.scheme == scheme else tags_in(self.scheme, types)       #: those that may come out
        # (K, K), 1 where the second tag continues the span that the first is in.
        inside = np.array([tag != 'O' for tag in tags])[:, None]
        self._continues = (np.zeros((len(tags),) * 2) if plain else inside & ~self._ends[:-1, :-1]).astype(np.float32)

    @classmethod
    def load(cls, path: PathLike | runs.SavedRun | Graph, compiled: Compiled | None = None,
             temperature: float = 1.0) -> 'Tagger':
        """Loads a run directory, or a graph that `ms_crf.export` has made.

        Args:
            path: the folder, or the file whose name ends in .mindir, with its .json beside it; or one that was opened.
            compiled: is called with length, rows and seconds after a graph was compiled.
            temperature: what all scores of the model are divided by, from 0.01 to 100. The tags stay the same; above 1
                confidences are nearer to each other, below 1 further apart. `ms-crf report` finds the one that makes
                them agree best with how often the model is right.

        Raises:
            CorpusError: what is there is damaged, of another version, or no model.
            OptionError: scores of this model can't be divided, as those of an exported graph can not.
        """
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or not 0.01 <= temperature <= 100:
            raise ValueError(f'temperature must be a number from 0.01 to 100, got {temperature!r:.30}')
        model = open_model(path)
        with graph_load() if model.uses_mindspore else contextlib.nullcontext():
            decoder = decoder_of(model, compiled)
        if temperature != 1:
            from ms_crf.models.chains import tempered
            decoder = tempered(decoder, temperature)
        made = cls(decoder, model.scheme, model.found_scheme, model.splitter, model.written_scheme)
        made._path, made._temperature, made._kind = os.path.abspath(model.path), temperature, model.kind_name
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError('a Tagger is copied and pickled as the name of what Tagger.load was given; this one was '
                            'made without it')
        return type(self).load, (self._path, None, self._temperature)

    @property
    def gives_confidences(self) -> bool:
        """Whether the model can compute confidences; exported graphs can if they were exported with them."""
        return CONFIDENCES in self.decoder.tasks

    @property
    def gives_nbest(self) -> bool:
        """Whether the model can compute the n best taggings; exported graphs and hidden Markov models can't."""
        return NBEST in self.decoder.tasks

    def check(self, confidence: bool, nbest: int) -> None:
        """Raises OptionError if the model can't compute what is asked for; the arguments are those of `tag`."""
        if confidence and not self.gives_confidences:
            raise OptionError('confidence must be False for a graph that was exported without confidences, got True; '
                              'export it with them, or load the run itself')
        if nbest and not self.gives_nbest:
            raise OptionError(f'nbest must be 0 for a model that does not compute the n best taggings, as exported '
                              f'graphs and hidden Markov models do not, got {nbest}')

    def tag(self, sentences: Iterable[Iterable[str]], confidence: bool | None = None,
            nbest: int = 0) -> TaggedList[Sentence]:
        """Tags sentences.

        Args:
            sentences: lists of strings, the tokens; also tuples, arrays or generators. A sentence may be empty.
            confidence: whether to compute confidences; by default it does if the model can.
            nbest: number of likeliest taggings to return as alternatives, 1,000 at most; fewer if there are fewer.

        Returns:
            A list with a `Sentence` for each sentence, which notebooks show with coloured spans.

        Raises:
            OptionError: the model can't compute what is asked for.
            SentenceError: the model can't take one of the sentences.
        """
        return TaggedList(self.stream(sentences, confidence, nbest))

    def tag_text(self, text: str, confidence: bool | None = None, nbest: int = 0,
                 splitter: str | None = None) -> TaggedList[Sentence]:
        """Finds the sentences and tokens of raw text, and tags them.

        Args:
            text: of any length.
            confidence, nbest: as in `tag`.
            splitter: the name of what cuts the text, see `ms_crf.text.splitting`; by default that of the model.

        Returns:
            A list with a `Sentence` for each sentence; offsets of the sentence, its tokens and its spans count
            characters of the text.

        Raises:
            OptionError: the model can't compute what is asked for, or the splitter is not known or not installed.
        """
        if not isinstance(text, str):
            raise TypeError(f'text must be a string, got {type(text).__name__}')
        found = splitter_named(splitter or self.splitter).split(text)
        tagged = self.stream([sentence.tokens for sentence in found], confidence, nbest)
        return TaggedList(sentence.predicted(one.prediction) for sentence, one in zip(found, tagged))

    def __call__(self, sentences: str | Iterable[Iterable[str]], confidence: bool | None = None,
                 nbest: int = 0) -> TaggedList[Sentence]:
        """Tags raw text by `tag_text`, or lists of tokens by `tag`."""
        return (self.tag_text if isinstance(sentences, str) else self.tag)(sentences, confidence, nbest)  # type: ignore

    def __repr__(self) -> str:
        where = '' if self._path is None else f', path={self._path!r}'
        return f'Tagger({self._kind}, tags={self.tags!r}{where})'

    def stream(self, sentences: Iterable[Iterable[str]], confidence: bool | None = None,
               nbest: int = 0) -> Iterator[Sentence]:
        """Does the same as `tag`, but takes and yields sentences one after the other, in constant memory.

        Raises:
            OptionError: the model can't compute what is asked for.
            SentenceError: the model can't take one of the sentences.
            RuntimeError: the process was forked after its parent had tagged; see `ms_crf.base.environment`.
        """
        if isinstance(nbest, bool) or not isinstance(nbest, (int, np.integer)) or not 0 <= nbest <= MOST_NBEST:
            raise ValueError(f'nbest must be a whole number from 0 to {MOST_NBEST}, got {nbest!r:.30}')
        confidence = self.gives_confidences if confidence is None else confidence
        self.check(confidence, nbest)
        done = 0
        for chunk in chunks(checked(sentences)):
            try:
                tagged = self._tag_chunk(chunk, confidence, nbest)
            except SentenceError as error:       # its index is among the sentences that are not empty
                filled = [index for index, tokens in enumerate(chunk, done) if tokens]
                raise SentenceError(filled[error.index], error.reason) from None
            yield from tagged
            done += len(chunk)

    def _tag_chunk(self, sentences: list[list[str]], confidence: bool, nbest: int) -> list[Sentence]:
        if self.decoder.runs_graphs:
            check_process()
        filled = [index for index, tokens in enumerate(sentences) if tokens]
        only = (Alternative([], 1.0),) if nbest else ()          # a sentence without tokens has a single tagging
        results = [Sentence([], [], [], [], 1.0, only) if confidence or nbest else Sentence([], [], [])
                   for _ in sentences]
        if not filled:
            return results
        encoded = self.decoder.encode([sentences[index] for index in filled])
        task = NBEST if nbest else CONFIDENCES if confidence else PATHS
        for indices, (paths, scores, *rest) in self.decoder.run(encoded, task, nbest or 1):
            count = len(indices)
            lengths = encoded.lengths[indices]
            best = (paths[:, 0] if nbest else paths)[:count]
            posteriors = Posteriors(best, lengths, rest[0][:count], rest[1][:count], self._continues) if rest else None
            spans = self._spans(best, lengths, posteriors)
            named = self._names[best].tolist()
            for row, (index, length) in enumerate(zip(indices.tolist(), lengths.tolist())):
                index = filled[index]            # among all sentences, the empty ones included
                tags = self._written(named[row][:length], spans[row])
                if posteriors is None:
                    results[index] = Sentence(sentences[index], tags, spans[row])
                    continue
                others = self._alternatives(paths[row, :, :length], scores[row], rest[2][row]) if nbest else ()
                results[index] = Sentence(sentences[index], tags, spans[row], posteriors.chosen[row, :length].tolist(),
                                        posteriors.of_sentence[row], others)
        return results

    def _spans(self, paths: np.ndarray, lengths: np.ndarray, posteriors: 'Posteriors | None') -> list[list[tuple]]:
        """For each row of a batch (B, L) the list of its spans, the same that `spans_of` finds in a single sentence."""
        spans: list[list[tuple]] = [[] for _ in lengths]
        if self.scheme == PLAIN:
            return spans
        outside = len(self._names)
        paths = np.where(np.arange(paths.shape[1]) < lengths[:, None], paths, outside)
        padded = np.pad(paths, ((0, 0), (1, 1)), constant_values=outside)
        rows, firsts = np.nonzero(self._begins[padded[:, :-2], paths])
        _, lasts = np.nonzero(self._ends[paths, padded[:, 2:]])
        columns = (column.tolist() for column in (rows, paths[rows, lasts], firsts, lasts))
        confidences = [None] * len(rows) if posteriors is None else posteriors.of_spans(rows, firsts, lasts).tolist()
        for row, kind, first, last, confidence in zip(*columns, confidences):
            spans[row].append((self._types[kind], first, last, confidence))
        return spans

    def _alternatives(self, paths: np.ndarray, scores: np.ndarray, normalizer: float) -> tuple[Alternative, ...]:
        """The n best taggings of a sentence, from paths (n, L) and scores (n,), without paths that do not exist."""
        return tuple(Alternative(self._written(path), min(1.0, float(np.exp(float(score) - normalizer))))
                     for path, score in zip(self._names[paths].tolist(), scores) if score > LOWEST / 2)

    def _written(self, tags: list[str], spans: Iterable[tuple] | None = None) -> list[str]:
        """Tags of the model in the scheme of those that come out; their spans are found if they are not given."""
        if self.scheme == self.model_scheme:
            return tags
        return tags_of(spans_of(tags) if spans is None else [span[:3] for span in spans], len(tags), self.scheme)


def checked(sentences: Iterable[Iterable[str]]) -> Iterator[list[str]]:
    """Yields each sentence as a list of str; raises TypeError or ValueError for what is no sentence."""
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        shown = 'a string' if isinstance(sentences, str) else repr(sentences)[:60]
        raise TypeError(f'sentences must be lists of tokens, got {shown}; split it')
    for index, sentence in enumerate(sentences):
        # Sets have no order, and of dicts only the keys would be read.
        ordered = type(sentence) is list or (isinstance(sentence, Iterable)
                                             and not isinstance(sentence, (str, bytes, Set, Mapping)))
        tokens: list[Any] = list(sentence) if ordered else [sentence]
        if ordered and set(map(type, tokens)) == {str} and '' not in tokens:
            yield tokens                         # as they nearly always are
            continue
        if not ordered or not all(isinstance(token, str) for token in tokens):
            raise TypeError(f'sentence {index} must be a list of strings, got {_shown(sentence, tokens)}; '
                            'split it into tokens')
        if not all(tokens):
            raise ValueError(f'sentence {index} must have no empty token, got {_shown(sentence, tokens)}')
        yield [str(token) for token in tokens]   # NumPy has strings of its own


def _shown(sentence: object, tokens: list) -> str:
    """A sentence as it is shown in a message; for an iterator, the tokens that it gave."""
    return repr(tokens if isinstance(sentence, Iterator) else sentence)[:60].replace('\n', ' ')


class Posteriors:
    """Confidences of the tags, spans and sentences of a batch, from posteriors.

    Args:
        paths: (B, L), the tags.
        lengths: (B,).
        chosen: (B, L), the posterior of each tag of the paths.
        conditional: (B, L, K), the posterior of every tag given the path's tag before it.
        continues: (K, K), 1 where the second tag continues the span that the first is in.
    """

    def __init__(self, paths: np.ndarray, lengths: np.ndarray, chosen: np.ndarray, conditional: np.ndarray,
                 continues: np.ndarray) -> None:
        self.chosen = np.clip(chosen.astype(np.float64), 0, 1)
        step = np.take_along_axis(conditional, paths[:, :, None], 2)[:, :, 0].astype(np.float64)
        live = np.arange(paths.shape[1]) < lengths[:, None]
        # Logarithms of the products up to each token; differences are those of parts of a path.
        self.sums = np.cumsum(np.log(np.where(live, np.clip(step, 1e-300, 1), 1)), 1)
        self.of_sentence = np.exp(self.sums[:, -1]).tolist()
        self.ends = np.ones(paths.shape)
        self.ends[:, :-1] -= (conditional[:, 1:] * continues[paths[:, :-1]]).sum(2)

    def of_spans(self, rows: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
        """The posterior of each span: of its first tag, of its other tags after that, and of its end."""
        inside = np.exp(self.sums[rows, lasts] - self.sums[rows, firsts])
        return self.chosen[rows, firsts] * inside * np.clip(self.ends[rows, lasts], 0, 1)


class Run(runs.SavedRun):
    """A run directory, opened once; the functions of `ms_crf.api` return it.

    `ms_crf.runs.run.Run` reads the records and may not know taggers, since its folder lies below theirs. This class
    adds what needs the folders above. So inner modules take the plain class, and users get this one.

    Example, with the directory of a run:
        >>> from ms_crf.tagging.tagger import Run
        >>> found = Run.open(run)
        >>> found.scheme in ('BIO', 'BIOES'), len(found.tagger().tag([['wall', 'street']])[0].tags)
        (True, 2)
    """

    def tagger(self, compiled: Compiled | None = None, temperature: float = 1.0) -> Tagger:
        """Loads the tagger of its model; arguments and errors are those of `Tagger.load`."""
        return Tagger.load(self, compiled, temperature)
