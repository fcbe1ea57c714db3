"""The model type 'hmm', a hidden Markov model: estimated from words and tags, saved as tables, without MindSpore."""

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import checked, distinct_strings
from ms_crf.base.watchers import Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.formats.lines import check_readable
from ms_crf.models.base import CONFIDENCES, PATHS, Compiled, Kind, Tags, tag_names
from ms_crf.models.chains import LOGARITHMS, Chain, decoded
from ms_crf.models.hmm.estimation import Words
from ms_crf.models.hmm.hmm import HMM
from ms_crf.models.learning import texts_of
from ms_crf.runs import records
from ms_crf.runs.options import Options
from ms_crf.runs.records import saving
from ms_crf.runs.run import SavedRun
from ms_crf.text.partial import is_open
from ms_crf.text.splitting import mostly_characters

import numpy as np

_TABLES = ('start', 'transition', 'emission', 'end')


@dataclass(kw_only=True)
class HMMRecord:
    """The fields of vocab.json: the rows and columns of the tables."""

    tags: list[str] = checked(must=tag_names)
    words: list[str] = checked(must=distinct_strings)
    shapes: list[str] = checked(must=distinct_strings)


class HMMTags(Tags):
    """The tags, known words and shapes of words of a model.

    Args:
        tags, words, shapes: strings.
    """

    record: ClassVar[type] = HMMRecord

    def __init__(self, tags: list[str], words: list[str], shapes: list[str]) -> None:
        super().__init__(tags, mostly_characters(words))
        self.words, self.shapes = words, shapes
        self._known = frozenset(words)

    def knows(self, word: str) -> bool:
        """Whether the word occurs in the training text."""
        return word in self._known


class HMMLearner:
    """A model that is estimated from the words and tags of corpora; unknown tags have expected counts.

    Args:
        options: options of the training.
        corpora: the sentences, all in one tag scheme.
    """

    def __init__(self, options: Options, corpora: Corpora) -> None:
        texts, tags = texts_of(corpora), [sentence.tags for sentence in corpora.parts['train']]
        if any(map(is_open, tags)):
            sets = Tags(corpora.tags, False).sets(tags)
            self.model = HMM().fit_sets(texts['train'], sets, corpora.tags, options.add)
        else:
            self.model = HMM().fit(texts['train'], tags, options.add, corpora.tags)
        self._decoder = HMMDecoder(self.model)
        self.vocabulary = self._decoder.vocabulary
        self.encoded = {part: self._decoder.encode(sentences) for part, sentences in texts.items()}

    def record(self) -> dict[str, Any]:
        """An empty dict: config.json has no additional fields."""
        return {}

    def fill(self, folder: Path) -> None:
        """Writes the tables into a new run directory."""
        with saving(folder) as new:
            new.arrays(records.TABLES, {name: getattr(self.model, f'log_{name}') for name in _TABLES})

    def decoder(self, network: object, compiled: object) -> 'HMMDecoder':
        """The decoder of the model; both arguments are None."""
        return self._decoder


class _Encoded(NamedTuple):
    """Sentences in the form that the decoder takes."""

    sentences: Sequence[list[str]]
    lengths: np.ndarray


class HMMDecoder:
    """Tags with an `HMM` of words.

    Args:
        model: the `HMM`.
    """

    tasks = frozenset((PATHS, CONFIDENCES))
    runs_graphs = False

    def __init__(self, model: HMM) -> None:
        assert model.states is not None and model.words is not None      # set by `fit` and `fit_sets`
        self.model, self.vocabulary = model, HMMTags(model.states, model.words.words, model.words.shapes)

    def encode(self, sentences: Sequence[list[str]]) -> _Encoded:
        """Converts non-empty lists of tokens to the input of `run`."""
        return _Encoded(sentences, np.array(list(map(len, sentences))))

    def run(self, encoded: _Encoded, task: str = PATHS,
            count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences in batches; see `Decoder.run`. Scores are log probabilities of tags and words."""
        for indices, batch, _ in self.model.batches(encoded.sentences):
            yield indices, decoded(batch, task)

    def chain(self) -> Chain:
        """The log probabilities of transitions, start and end."""
        return Chain(self.model.log_transition, self.model.log_start, self.model.log_end, None, LOGARITHMS)

    def emissions(self, encoded: _Encoded) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Log probabilities of each word in each state; see `ChainDecoder`."""
        for indices, batch, _ in self.model.batches(encoded.sentences):
            yield indices, batch.split(batch.emissions)


def read_hmm(run: SavedRun) -> HMM:
    """The `HMM` of a run; raises CorpusError if its files are damaged or do not fit."""
    vocabulary = run.vocabulary(HMMTags)
    path = run.path / records.TABLES
    if not path.is_file():
        raise CorpusError(path, None, 'no such file; expected the tables of a hidden Markov model')
    check_readable(path)
    run.check(path.name)
    try:
        with np.load(path, allow_pickle=False) as file:
            tables = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise CorpusError(path, None, f'expected tables written by training: {error}') from None
    tags, columns = len(vocabulary.tags), len(vocabulary.words) + len(vocabulary.shapes) + 1
    records.check_fit(path, tables, {'start': (tags,), 'transition': (tags, tags), 'emission': (tags, columns),
                                     'end': (tags,)})
    try:
        model = HMM(tables['start'], tables['transition'], tables['emission'], tables['end'], log=True)
    except (ValueError, TypeError) as error:
        raise CorpusError(path, None, str(error)) from None
    model.states, model.words = vocabulary.tags, Words(vocabulary.words, vocabulary.shapes)
    return model


class HMMKind(Kind):
    """The model type of a hidden Markov model over words and shapes of words."""

    name: ClassVar[str] = 'hmm'
    uses_mindspore = False
    in_steps = False

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: SavedRun | None = None) -> HMMLearner:
        """A learner with a model that is estimated from the corpora."""
        return HMMLearner(options, corpora)

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> HMMDecoder:
        """A decoder with the model of a run; raises CorpusError if a file of the run is damaged."""
        return HMMDecoder(read_hmm(run))
