"""The tagger over word vectors and characters as a model type: how its runs are resumed, loaded and exported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ms_crf.base.fields import checked, load_record
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled, Kind, Watcher
from ms_crf.models.graphs import check_head, load_weights
from ms_crf.models.inheritance import BaseRecord, read_base
from ms_crf.models.words.base import Base
from ms_crf.models.words.decoder import WordDecoder
from ms_crf.models.words.graph import ServedWithoutCharacters, ServedWords, WordGraphInput
from ms_crf.models.words.learner import WordLearner
from ms_crf.models.words.network import TaggerNetwork, build_network
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import WIDEST, Options
from ms_crf.runs.run import Run

import mindspore as ms
import numpy as np

#: options that a base decides, beside the width of its words
SHAPING = ('model', 'encoder', 'bigrams', 'ngrams', 'char', 'char_dim', 'char_width', 'char_length', 'hidden', 'layers',
           'head')


def load_network(run: Run) -> tuple[Vocabulary, TaggerNetwork]:
    """The vocabulary of a run, and its network with the weights of the best epoch, in 32 bits however it was trained.

    Raises:
        CorpusError: something of the run is damaged or does not fit.
    """
    vocabulary = run.vocabulary(Vocabulary)
    options = replace(run.options, precision='float32')
    network = build_network(options, vocabulary, run.config['word_dim'], run.scheme)
    load_weights(run, network)
    if network.with_ngrams:
        network.ngram_table.set_data(ms.Tensor(read_ngram_table(run, network.ngram_table.shape)))
    return vocabulary, network


def read_ngram_table(run: Run, shape: Sequence[int]) -> np.ndarray:
    """The vectors of n-grams of a run, of this shape; raises CorpusError if they are damaged or do not fit."""
    arrays = run.tensors(records.NGRAMS)
    records.check_fit(run.path / records.NGRAMS, arrays, {'ngram_table': shape})
    return arrays['ngram_table']


@dataclass
class WordConfig:
    """What config.json of a run over words holds beside what that of every run does."""

    word_dim: int = checked(least=1, most=WIDEST)
    init: dict = checked(None)


class WordKind(Kind):
    """Word vectors and characters under BiLSTM layers."""

    name: ClassVar[str] = 'bilstm'

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: Run | None = None) -> WordLearner:
        """What a training begins or resumes with."""
        base = ngrams = None
        if run is not None:
            vocabulary = run.vocabulary(Vocabulary)
            if options.init:
                base = Base.recorded(vocabulary, load_record(BaseRecord, run.config['init']))
            if vocabulary.ngrams:
                shape = 1 + len(vocabulary.ngrams), run.config['word_dim']
                ngrams = vocabulary.ngrams, read_ngram_table(run, shape)
        elif options.init:
            before = read_base(cls, options.init)
            vocabulary, network = load_network(before)
            base = Base.of(before, vocabulary, network)
            if network.with_ngrams:
                ngrams = vocabulary.ngrams, network.ngram_table.asnumpy()
        return WordLearner.from_corpora(options, corpora, watcher, base, ngrams)

    @classmethod
    def shape(cls, run: Run, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a training that begins with a run over words."""
        return {**{name: getattr(run.options, name) for name in SHAPING}, 'word_dim': run.config['word_dim']}

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """What the option `freeze` may name."""
        return ('words', 'lstm') if options.char == 'none' else ('words', 'characters', 'lstm')

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError unless config.json has the width of the word vectors, and says what a base has brought."""
        base = load_record(WordConfig, config).init
        if base is not None or config['options'].get('init'):
            load_record(BaseRecord, base)

    @classmethod
    def load(cls, run: Run, compiled: Compiled | None = None) -> WordDecoder:
        """What tags with the model of a run; raises CorpusError if something of the run is damaged."""
        vocabulary, network = load_network(run)
        return WordDecoder(network, vocabulary, compiled)

    @classmethod
    def exported(cls, run: Run, output: str) -> tuple[WordGraphInput, ServedWords]:
        """What makes the inputs of the graph of a run, and the cell to export."""
        check_head(run, output)
        vocabulary, network = load_network(run)
        kind = ServedWords if network.with_characters else ServedWithoutCharacters
        return WordGraphInput(vocabulary, network.with_characters), kind(network, output)

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> WordGraphInput:
        """What makes the inputs of a graph, from its record; raises ValueError if it is not of this type."""
        return WordGraphInput.from_json(record)
