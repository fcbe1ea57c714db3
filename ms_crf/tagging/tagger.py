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

#: callback after the compilation of a graph: length, number of rows, seconds
Compiled = Callable[[int, int, float], object]
LOWEST = float(np.finfo(np.float32).min)     # score of missing paths, if a sentence has fewer than n taggings


class Tagger:
    """Tags sentences with a trained model; created by `Tagger.load`.

    Threads may share a tagger: a lock lets one thread compute at a time. A copy or pickle of a tagger contains only the
    path of the model, and loads the model again.

    Confidences are probabilities of the model: of the tag of a token, of a span (exactly these tokens with this type),
    and of all tags of a sentence together.

    Example, with the directory of a run:
        >>> from ms_crf import Tagger
        >>> tagger = Tagger.load(run)
        >>> [sentence] = tagger.tag([['the', 'wall', 'street', 'journal']])
        >>> len(sentence.tags), set(sentence.tags) <= set(tagger.tags)
        (4, True)
        >>> 0 < sentence.confidence <= 1
        True

    Args:
        decoder: the model, a `Decoder` of `ms_crf.models.base`.
        scheme: tag scheme of the model.
        file_scheme: tag scheme of the training files, in which gold tags are scored.
        splitter: name of the splitter for raw text, see `ms_crf.text.splitting`; None for the default.
        written_scheme: tag scheme of the predictions; None for `scheme`.
        found_scheme: former name of `file_scheme`.
    """

    def __init__(self, decoder: Decoder, scheme: str, file_scheme: str | None = None, splitter: str | None = None,
                 written_scheme: str | None = None, *, found_scheme: str | None = None) -> None:
        file_scheme = found_scheme if file_scheme is None else file_scheme
        if file_scheme is None:
            raise TypeError('file_scheme must be a tag scheme, got nothing')
        #: tag schemes of the predictions, of the model, and of the training files
        self.scheme, self.model_scheme, self.file_scheme = written_scheme or scheme, scheme, file_scheme
        #: name of the splitter for raw text
        self.splitter = splitter or (CHARACTERS if decoder.vocabulary.of_characters else DEFAULT)
        self._path: str | None = None
        self._kind = type(decoder).__name__      # name of the model type, for repr
        self._temperature = 1.0
        tags = decoder.vocabulary.tags
        self._names = np.array(tags, object)
        #: whether the tokens of the model are single characters, as in Chinese text
        self.of_characters = decoder.vocabulary.of_characters
        self.decoder = decoder
        plain = scheme == PLAIN
        self._begins, self._ends = map(np.array, ([], []) if plain else boundaries(tags))
        self._types = [] if plain else [split_tag(tag)[1] for tag in tags]
        types = dict.fromkeys(kind for tag, kind in zip(tags, self._types) if tag != 'O')
        self.tags = tags if self.scheme == scheme else tags_in(self.scheme, types)       #: all tags of predictions
        # (K, K): 1 if the second tag continues the span of the first tag.
        inside = np.array([tag != 'O' for tag in tags])[:, None]
        self._continues = (np.zeros((len(tags),) * 2) if plain else inside & ~self._ends[:-1, :-1]).astype(np.float32)

    found_scheme = property(lambda self: self.file_scheme, doc='Former name of `file_scheme`.')

    @classmethod
    def load(cls, path: PathLike | runs.SavedRun | Graph, compiled: Compiled | None = None,
             temperature: float = 1.0) -> 'Tagger':
        """Loads a run directory or an exported graph.

        Args:
            path: path of a run directory, or of a .mindir file with its .json file next to it; or an opened run or
                graph.
            compiled: function that is called with length, number of rows and seconds after each compilation.
            temperature: number from 0.01 to 100 that divides all scores before confidences are computed. Predicted tags
                do not change; above 1 confidences become lower, below 1 higher. `ms-crf report` computes the
                temperature with the best calibration.

        Raises:
            CorpusError: the path is not a model, or the model is damaged or of another version.
            OptionError: this model does not support a temperature; exported graphs do not.
        """
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or not 0.01 <= temperature <= 100:
            raise ValueError(f'temperature must be a number from 0.01 to 100, got {temperature!r:.30}')
        model = open_model(path)
        with graph_load() if model.uses_mindspore else contextlib.nullcontext():
            decoder = decoder_of(model, compiled)
        if temperature != 1:
            from ms_crf.models.chains import tempered
            decoder = tempered(decoder, temperature)
        tagger = cls(decoder, model.scheme, model.file_scheme, model.splitter, model.written_scheme)
        tagger._path, tagger._temperature, tagger._kind = os.path.abspath(model.path), temperature, model.kind_name
        return tagger

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError('only a Tagger from Tagger.load can be copied and pickled, got one without a path')
        return type(self).load, (self._path, None, self._temperature)

    @property
    def gives_confidences(self) -> bool:
        """Whether the model can compute confidences; exported graphs need the export option `confidence`."""
        return CONFIDENCES in self.decoder.tasks

    @property
    def gives_nbest(self) -> bool:
        """Whether the model can compute n-best taggings; exported graphs and hidden Markov models cannot."""
        return NBEST in self.decoder.tasks

    def check(self, confidence: bool, nbest: int) -> None:
        """Raises OptionError if the model cannot compute confidences or n-best taggings that are requested."""
        if confidence and not self.gives_confidences:
            raise OptionError('confidence must be False for a graph that was exported without confidences, got True; '
                              'export it with confidence, or load the run itself')
        if nbest and not self.gives_nbest:
            raise OptionError(f'nbest must be 0 for a model without n-best taggings, such as exported graphs and '
                              f'hidden Markov models, got {nbest}')

    def tag(self, sentences: Iterable[Iterable[str]], confidence: bool | None = None,
            nbest: int = 0) -> TaggedList[Sentence]:
        """Tags sentences.

        Args:
            sentences: lists of tokens (strings); also tuples, arrays or generators. A sentence may be empty.
            confidence: whether to compute confidences (default: if the model can).
            nbest: number of n-best taggings to return as alternatives, at most 1,000; 0 for none.

        Returns:
            A list of `Sentence`, which notebooks display with coloured spans.

        Raises:
            OptionError: the model cannot compute confidences or n-best taggings.
            SentenceError: the model does not support one of the sentences.
        """
        return TaggedList(self.stream(sentences, confidence, nbest))

    def tag_text(self, text: str, confidence: bool | None = None, nbest: int = 0,
                 splitter: str | None = None) -> TaggedList[Sentence]:
        """Splits raw text of any length into sentences and tokens, and tags them.

        Args:
            text: the text.
            confidence, nbest: see `tag`.
            splitter: name of the splitter, see `ms_crf.text.splitting` (default: splitter of the model).

        Returns:
            A list of `Sentence`; offsets of sentences, tokens and spans count characters of `text`.

        Raises:
            OptionError: see `tag`; or the splitter is unknown or not installed.
        """
        if not isinstance(text, str):
            raise TypeError(f'text must be a string, got {type(text).__name__}')
        untagged = splitter_named(splitter or self.splitter).split(text)
        tagged = self.stream([sentence.tokens for sentence in untagged], confidence, nbest)
        return TaggedList(sentence.predicted(result.prediction) for sentence, result in zip(untagged, tagged))

    def __call__(self, sentences: str | Iterable[Iterable[str]], confidence: bool | None = None,
                 nbest: int = 0) -> TaggedList[Sentence]:
        """Tags raw text with `tag_text`, or lists of tokens with `tag`."""
        return (self.tag_text if isinstance(sentences, str) else self.tag)(sentences, confidence, nbest)  # type: ignore

    def __repr__(self) -> str:
        where = '' if self._path is None else f', path={self._path!r}'
        return f'Tagger({self._kind}, tags={self.tags!r}{where})'

    def stream(self, sentences: Iterable[Iterable[str]], confidence: bool | None = None,
               nbest: int = 0) -> Iterator[Sentence]:
        """Tags any number of sentences in constant memory, and yields a `Sentence` for each; for arguments see `tag`.

        Raises:
            OptionError, SentenceError: see `tag`.
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
            except SentenceError as error:       # its index counts only sentences that are not empty
                filled = [index for index, tokens in enumerate(chunk, done) if tokens]
                raise SentenceError(filled[error.index], error.reason) from None
            yield from tagged
            done += len(chunk)

    def _tag_chunk(self, sentences: list[list[str]], confidence: bool, nbest: int) -> list[Sentence]:
        if self.decoder.runs_graphs:
            check_process()
        filled = [index for index, tokens in enumerate(sentences) if tokens]
        only = (Alternative([], 1.0),) if nbest else ()          # a sentence without tokens has one tagging
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
                index = filled[index]            # index among all sentences, including empty ones
                tags = self._written(named[row][:length], spans[row])
                if posteriors is None:
                    results[index] = Sentence(sentences[index], tags, spans[row])
                    continue
                others = self._alternatives(paths[row, :, :length], scores[row], rest[2][row]) if nbest else ()
                results[index] = Sentence(sentences[index], tags, spans[row], posteriors.chosen[row, :length].tolist(),
                                        posteriors.of_sentence[row], others)
        return results

    def _spans(self, paths: np.ndarray, lengths: np.ndarray, posteriors: 'Posteriors | None') -> list[list[tuple]]:
        """Returns the spans of each row of a batch, as `spans_of` returns them for one sentence; paths are (B, L)."""
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
        """Returns the n-best taggings of a sentence, from paths (n, L) and scores (n,); missing paths are left out."""
        return tuple(Alternative(self._written(path), min(1.0, float(np.exp(float(score) - normalizer))))
                     for path, score in zip(self._names[paths].tolist(), scores) if score > LOWEST / 2)

    def _written(self, tags: list[str], spans: Iterable[tuple] | None = None) -> list[str]:
        """Converts tags of the model to the scheme of predictions; `spans` are computed if they are None."""
        if self.scheme == self.model_scheme:
            return tags
        return tags_of(spans_of(tags) if spans is None else [span[:3] for span in spans], len(tags), self.scheme)


def checked(sentences: Iterable[Iterable[str]]) -> Iterator[list[str]]:
    """Yields each sentence as a list of str; raises TypeError or ValueError for an invalid sentence."""
    if isinstance(sentences, str) or not isinstance(sentences, Iterable):
        shown = 'a string' if isinstance(sentences, str) else repr(sentences)[:60]
        raise TypeError(f'sentences must be lists of tokens, got {shown}; split it')
    for index, sentence in enumerate(sentences):
        # Sets have no order, and iterating over a dict yields only its keys.
        ordered = type(sentence) is list or (isinstance(sentence, Iterable)
                                             and not isinstance(sentence, (str, bytes, Set, Mapping)))
        tokens: list[Any] = list(sentence) if ordered else [sentence]
        if ordered and set(map(type, tokens)) == {str} and '' not in tokens:
            yield tokens                         # the usual case
            continue
        if not ordered or not all(isinstance(token, str) for token in tokens):
            raise TypeError(f'sentence {index} must be a list of strings, got {_shown(sentence, tokens)}; '
                            'split it into tokens')
        if not all(tokens):
            raise ValueError(f'sentence {index} must have no empty token, got {_shown(sentence, tokens)}')
        yield [str(token) for token in tokens]   # converts NumPy's strings


def _shown(sentence: object, tokens: list) -> str:
    """Returns a sentence as text for a message; for an iterator the tokens that were read from it."""
    return repr(tokens if isinstance(sentence, Iterator) else sentence)[:60].replace('\n', ' ')


class Posteriors:
    """Confidences of the tags, spans and sentences of a batch, from posteriors.

    Args:
        paths: tags of the best paths, (B, L).
        lengths: lengths of the sentences, (B,).
        chosen: posterior of each tag of the paths, (B, L).
        conditional: posterior of every tag, given the previous tag of the path, (B, L, K).
        continues: 1 if the second tag continues the span of the first tag, (K, K).
    """

    def __init__(self, paths: np.ndarray, lengths: np.ndarray, chosen: np.ndarray, conditional: np.ndarray,
                 continues: np.ndarray) -> None:
        self.chosen = np.clip(chosen.astype(np.float64), 0, 1)
        step = np.take_along_axis(conditional, paths[:, :, None], 2)[:, :, 0].astype(np.float64)
        live = np.arange(paths.shape[1]) < lengths[:, None]
        # Log probabilities of the paths up to each token; differences are log probabilities of parts of a path.
        self.sums = np.cumsum(np.log(np.where(live, np.clip(step, 1e-300, 1), 1)), 1)
        self.of_sentence = np.exp(self.sums[:, -1]).tolist()
        self.ends = np.ones(paths.shape)
        self.ends[:, :-1] -= (conditional[:, 1:] * continues[paths[:, :-1]]).sum(2)

    def of_spans(self, rows: np.ndarray, firsts: np.ndarray, lasts: np.ndarray) -> np.ndarray:
        """Returns the posterior of each span: the product for its first tag, its following tags, and its end."""
        inside = np.exp(self.sums[rows, lasts] - self.sums[rows, firsts])
        return self.chosen[rows, firsts] * inside * np.clip(self.ends[rows, lasts], 0, 1)


class Run(runs.SavedRun):
    """A run directory opened for reading, which also loads taggers; returned by the functions of `ms_crf.api`.

    Example, with the directory of a run:
        >>> from ms_crf.tagging.tagger import Run
        >>> opened = Run.open(run)
        >>> opened.scheme in ('BIO', 'BIOES'), len(opened.tagger().tag([['wall', 'street']])[0].tags)
        (True, 2)
    """

    def tagger(self, compiled: Compiled | None = None, temperature: float = 1.0) -> Tagger:
        """Loads the tagger of the model; for arguments and errors see `Tagger.load`."""
        return Tagger.load(self, compiled, temperature)
