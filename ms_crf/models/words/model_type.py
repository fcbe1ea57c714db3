"""The model type 'bilstm', the tagger over words and characters: creating learners, loading and exporting runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from ms_crf.base.fields import checked, load_record
from ms_crf.base.watchers import Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled, Kind
from ms_crf.models.graphs import GraphInput, Static, load_weights
from ms_crf.models.inheritance import BaseRecord, read_base
from ms_crf.models.words.batches import EncodedWords, distinct_forms, word_batch
from ms_crf.models.words.learner import WordBase, WordLearner
from ms_crf.models.words.network import (
    CharacterlessExportCell,
    TaggerNetwork,
    WordDecoder,
    WordExportCell,
    build_network,
)
from ms_crf.models.words.ngrams import MOST
from ms_crf.models.words.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import WIDEST, Options
from ms_crf.runs.run import SavedRun

import mindspore as ms
import numpy as np


@dataclass
class WordGraphIds:
    """The fixed ids in the record of a graph over words."""

    padding_id: int = checked(PADDING, choices=(PADDING,))
    unknown_id: int = checked(UNKNOWN, choices=(UNKNOWN,))
    first_id: int = checked(FIRST, choices=(FIRST,))


class WordGraphInput(GraphInput[EncodedWords]):
    """Converts sentences to the inputs of a graph over words: distinct words, and the index of the word of each token.

    Args:
        vocabulary: the tags, and the ids of words and characters.
        with_characters: whether the network reads characters.
    """

    vocabulary: Vocabulary

    def __init__(self, vocabulary: Vocabulary, with_characters: bool) -> None:
        super().__init__(vocabulary, partial(EncodedWords, vocabulary=vocabulary))
        self.with_characters = with_characters

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs."""
        batch, length = static or (None, None)
        words = static[0] * static[1] if static else None
        return {'words': (words, 3) if self.vocabulary.bigrams else (words,),
                **({'spellings': (words, self.vocabulary.char_length)} if self.with_characters else {}),
                'places': (batch, length), 'lengths': (batch,),
                **({'composed': (words,), 'ngrams': (words, MOST)} if self.vocabulary.ngrams else {})}

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """The tables of the ids of words, characters and n-grams."""
        tables = [('.word_table', 'ids of words', self.vocabulary.num_rows, True)]
        if self.with_characters:
            tables.append(('.characters.table.weight', 'ids of characters', self.vocabulary.num_characters, True))
        if self.vocabulary.ngrams:
            tables.append(('.ngram_table', 'ids of n-grams', 1 + len(self.vocabulary.ngrams), True))
        return tables

    def to_json(self) -> dict[str, Any]:
        """The data that another program needs to compute ids from words, and tags from outputs."""
        return {'padding_id': PADDING, 'unknown_id': UNKNOWN, 'first_id': FIRST, **self.vocabulary.to_json()}

    def arrays(self, encoded: EncodedWords, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, for the sentences with the indices `indices`."""
        length, rows = shape = self.shape(encoded, indices, static)
        batch = word_batch(encoded, shape, indices)
        forms, places = distinct_forms(encoded, batch.values)
        room = rows * length if static else len(forms)
        words, spellings = encoded.arrays(forms, room)
        composed, ngrams = encoded.ngrams(forms, room if static else None)
        return {'words': words, 'spellings': spellings, 'places': np.ascontiguousarray(places.T),
                'lengths': batch.lengths, 'composed': composed, 'ngrams': ngrams}


#: options that the base run determines, in addition to the width of word vectors
SHAPING = ('model', 'encoder', 'bigrams', 'ngrams', 'char', 'char_dim', 'char_width', 'char_length', 'hidden', 'layers',
           'head')


def load_network(run: SavedRun) -> tuple[Vocabulary, TaggerNetwork]:
    """The vocabulary of a run, and its network with the weights of the best epoch as float32.

    Raises:
        CorpusError: a file of the run is damaged or does not fit.
    """
    vocabulary = run.vocabulary(Vocabulary)
    options = replace(run.options, precision='float32')
    network = build_network(options, vocabulary, run.config['word_dim'], run.scheme)
    load_weights(run, network)
    if network.with_ngrams:
        network.ngram_table.set_data(ms.Tensor(read_ngram_table(run, network.ngram_table.shape)))
    return vocabulary, network


def read_ngram_table(run: SavedRun, shape: Sequence[int]) -> np.ndarray:
    """The n-gram vectors of a run with this shape; raises CorpusError if they are damaged or do not fit."""
    arrays = run.tensors(records.NGRAMS)
    records.check_fit(run.path / records.NGRAMS, arrays, {'ngram_table': shape})
    return arrays['ngram_table']


@dataclass
class WordConfig:
    """The additional fields in config.json of a run over words."""

    word_dim: int = checked(least=1, most=WIDEST)
    init: dict = checked(None)


class WordKind(Kind):
    """The model type of word vectors and characters under BiLSTM layers."""

    name: ClassVar[str] = 'bilstm'

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: SavedRun | None = None) -> WordLearner:
        """The learner of a new or resumed training."""
        base = ngrams = None
        if run is not None:
            vocabulary = run.vocabulary(Vocabulary)
            if options.init:
                base = WordBase.recorded(vocabulary, load_record(BaseRecord, run.config['init']))
            if vocabulary.ngrams:
                shape = 1 + len(vocabulary.ngrams), run.config['word_dim']
                ngrams = vocabulary.ngrams, read_ngram_table(run, shape)
        elif options.init:
            base_run = read_base(cls, options.init)
            vocabulary, network = load_network(base_run)
            base = WordBase.of(base_run, vocabulary, network)
            if network.with_ngrams:
                ngrams = vocabulary.ngrams, network.ngram_table.asnumpy()
        return WordLearner(options, corpora, watcher, base, ngrams)

    @classmethod
    def shape(cls, run: SavedRun, user_options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that a training takes from its base run."""
        return {**{name: getattr(run.options, name) for name in SHAPING}, 'word_dim': run.config['word_dim']}

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """The names that the option `freeze` accepts."""
        return ('words', 'lstm') if options.char == 'none' else ('words', 'characters', 'lstm')

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError if the width of word vectors, or the field "init" of a run with a base run, is invalid."""
        base = load_record(WordConfig, config).init
        if base is not None or config['options'].get('init'):
            load_record(BaseRecord, base)

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> WordDecoder:
        """A decoder with the model of a run; raises CorpusError if a file of the run is damaged."""
        vocabulary, network = load_network(run)
        return WordDecoder(network, vocabulary, compiled)

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple[WordGraphInput, WordExportCell]:
        """The `GraphInput` of the exported graph of a run, and the cell to export."""
        vocabulary, network = load_network(run)
        cell = WordExportCell if network.with_characters else CharacterlessExportCell
        return WordGraphInput(vocabulary, network.with_characters), cell(network, output)

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> WordGraphInput:
        """The `GraphInput` of an exported graph, from its record; raises ValueError if the record is invalid."""
        load_record(WordGraphIds, record)
        names = [tensor.get('name') for tensor in record['inputs'] if isinstance(tensor, dict)]
        return WordGraphInput(Vocabulary.from_json(record, closed=False), 'spellings' in names)
