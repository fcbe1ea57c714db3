"""The hidden Markov model as a kind of model: counted from words and tags, saved as tables; without MindSpore."""

import zipfile
from pathlib import Path
from typing import NamedTuple

from ms_crf.errors import CorpusError
from ms_crf.models.base import CONFIDENCES, PATHS, Kind, tags_of
from ms_crf.models.hmm.hmm import HMM
from ms_crf.models.hmm.recursions import top
from ms_crf.models.hmm.symbols import Words
from ms_crf.models.labels import Tags, check_strings, mostly_characters
from ms_crf.runs import checksums, records
from ms_crf.runs.saving import saving
from ms_crf.text.readers import check_readable

import numpy as np

_TABLES = ('start', 'transition', 'emission', 'end')


class HMMTags(Tags):
    """What vocab.json of a run holds.

    Args:
        model: an `HMM` of words.
    """

    def __init__(self, model):
        super().__init__(model.states, mostly_characters(model.words.words))
        self._words = model.words

    def to_json(self):
        return {'tags': self.tags, **self._words.to_json()}


class HMMLearner:
    """Counts the words and tags of corpora.

    Args:
        options: `Options`.
        corpora: `Corpora`.
    """

    def __init__(self, options, corpora):
        sentences = {part: [sentence.tokens for sentence in found] for part, found in corpora.parts.items()}
        tags = [sentence.tags for sentence in corpora.parts['train']]
        self.model = HMM().fit(sentences['train'], tags, options.add, corpora.tags)
        self.vocabulary, self._decoder = HMMTags(self.model), HMMDecoder(self.model)
        self.encoded = {part: self._decoder.encode(found) for part, found in sentences.items()}

    def record(self):
        """Nothing of the model stands in config.json."""
        return {}

    def fill(self, folder):
        """Puts the tables into a new run directory."""
        with saving(folder) as new:
            new.arrays(records.TABLES, {name: getattr(self.model, f'log_{name}') for name in _TABLES})

    def decoder(self, network, compiled):
        return self._decoder


class _Encoded(NamedTuple):
    sentences: list
    lengths: np.ndarray


class HMMDecoder:
    """Tags with an `HMM` of words.

    Args:
        model: the `HMM`.
    """

    tasks = frozenset((PATHS, CONFIDENCES))
    runs_graphs = False

    def __init__(self, model):
        self.model, self.vocabulary = model, HMMTags(model)

    def encode(self, sentences):
        """As `Decoder.encode`."""
        return _Encoded(sentences, np.array(list(map(len, sentences))))

    def run(self, encoded, task=PATHS, count=1):
        """As `Decoder.run`, for 'paths' and 'confidences'."""
        for numbers, batch, _ in self.model.batches(encoded.sentences):
            states, scores = batch.viterbi()
            paths = states.T
            yield numbers, [paths, scores] if task == PATHS else [paths, scores, *self._path_posteriors(batch, paths)]

    def _path_posteriors(self, batch, paths):
        """As `CRF.path_posteriors`."""
        before = self.model.log_transition[paths.T[:-1]]                            # (L - 1, B, S)
        first = np.broadcast_to(self.model.log_start, (1, *before.shape[1:]))
        onward = np.concatenate((first, before)) + batch.emissions + batch.backward()
        weights = np.exp(onward - top(onward))
        given_before = (weights / weights.sum(-1, keepdims=True)).swapaxes(0, 1)    # (B, L, S)
        chosen = np.take_along_axis(batch.posteriors().swapaxes(0, 1), paths[:, :, None], 2)[:, :, 0]
        return chosen, given_before

    def tags(self, encoded):
        """Lists of tags for all sentences, in their order."""
        return tags_of(self, encoded)


def read_hmm(folder):
    """The `HMM` of a run; raises CorpusError if its files are damaged or don't fit."""
    path = Path(folder) / records.VOCABULARY
    record = records.read_json(path)
    lists = ('tags', 'words', 'shapes')
    if not isinstance(record, dict) or sorted(record) != sorted(lists):
        raise CorpusError(path, None, 'expected the keys tags, words and shapes, as of a hidden Markov model')
    try:
        check_strings(record, lists)
        records.check_scheme(folder, record['tags'])
    except CorpusError:
        raise
    except ValueError as error:
        raise CorpusError(path, None, str(error)) from None
    path = Path(folder) / records.TABLES
    if not path.is_file():
        raise CorpusError(path, None, 'no such file; expected a run of --model hmm')
    check_readable(path)
    checksums.check(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            tables = {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise CorpusError(path, None, f'expected tables as train.py writes them: {error}') from None
    tags = len(record['tags'])
    columns = len(record['words']) + len(record['shapes']) + 1
    records.check_fit(path, tables, {'start': (tags,), 'transition': (tags, tags), 'emission': (tags, columns),
                                     'end': (tags,)})
    try:
        model = HMM(*(tables[name] for name in _TABLES), log=True)
    except (ValueError, TypeError) as error:
        raise CorpusError(path, None, str(error)) from None
    model.states, model.words = record['tags'], Words(record['words'], record['shapes'])
    return model


class HMMKind(Kind):
    """A hidden Markov model over words and the shapes of words."""

    name = 'hmm'
    uses_mindspore = False
    in_steps = False

    @classmethod
    def learner(cls, options, corpora, watcher, run=None):
        return HMMLearner(options, corpora)

    @classmethod
    def load(cls, folder, config, compiled=None):
        return HMMDecoder(read_hmm(folder))
