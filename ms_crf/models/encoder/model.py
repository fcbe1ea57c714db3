"""The tagger over a pretrained encoder as a model type: how its runs are resumed, loaded and exported."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

from ms_crf.base.errors import CorpusError, OptionError, argument, brief
from ms_crf.base.fields import checked, load_record, wrong
from ms_crf.base.watchers import Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Compiled, Kind, Tags
from ms_crf.models.encoder.learner import Base, EncoderDecoder, EncoderLearner, Reader
from ms_crf.models.encoder.network import EncodedTagger, ServedSubwords, build_encoder, build_tagger
from ms_crf.models.encoder.pretrained import EncoderFiles, last_id, paths_in, tokenizer_of
from ms_crf.models.encoder.windows import Subwords, specials_of, subword_batch, window_arrays, window_shape
from ms_crf.models.graphs import GraphInput, Static, load_weights
from ms_crf.models.inheritance import BaseRecord, read_base
from ms_crf.runs import records
from ms_crf.runs.checksums import checksum
from ms_crf.runs.options import Options
from ms_crf.runs.run import SavedRun

import numpy as np


@dataclass(kw_only=True)
class EncoderGraphRecord:
    """The fields that only the record of a graph over an encoder has."""

    tokenizer: str
    longest: int = checked(least=8, most=(1 << 31) - 1)


class SubwordGraphInput(GraphInput[Subwords]):
    """What makes the inputs of a graph over an encoder: windows of a batch, and which word each subword belongs to.

    Args:
        vocabulary: the tags.
        tokenizer: of the encoder.
        longest: subwords of a window at most, the special ones among them.
    """

    rows, tokens = 64, 2048
    unit = 'tokens or subwords'

    def __init__(self, vocabulary: Tags, tokenizer: Any, longest: int) -> None:
        self.tokenizer, self.longest, self.specials = tokenizer, longest, specials_of(tokenizer)
        super().__init__(vocabulary, partial(Subwords, tokenizer=tokenizer, longest=longest, specials=self.specials))

    def inputs(self, static: Static = None) -> dict[str, tuple]:
        """Names and shapes of the graph's inputs."""
        batch, length = static or (None, None)
        windows, window = self._windows(static) or (None, None)
        return {'pieces': (windows, window), 'window_lengths': (windows,), 'places': (batch, length),
                'words': (batch, length), 'counts': (batch, length), 'lengths': (batch,)}

    def _windows(self, static: Static) -> tuple[int, int] | tuple[()]:
        """How many windows a batch of this shape may need, and how long they are."""
        return window_shape(static[::-1], self.longest - self.specials.size, self.specials) if static else ()

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """The tables of ids and of positions."""
        return [('.pieces', 'subwords', last_id(self.tokenizer) + 1, False),
                ('.positions', 'positions', self.longest, False)]

    def to_json(self) -> dict[str, Any]:
        """What another program needs to make windows of sentences, and tags of what comes out."""
        return {**self.vocabulary.to_json(), 'longest': self.longest, 'before_ids': self.specials.before.tolist(),
                'behind_ids': self.specials.behind.tolist(), 'tokenizer': self.tokenizer.to_str()}

    def sizes(self, encoded: Subwords) -> np.ndarray:
        """(sentences,): the length that each needs in a batch, of words and of subwords."""
        return encoded.sizes

    def arrays(self, encoded: Subwords, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, of the sentences of these indices."""
        batch = subword_batch(encoded, self.shape(encoded, indices, static), indices)
        ids, lengths, offsets = window_arrays(encoded, batch, indices, *self._windows(static))
        return {'pieces': ids, 'window_lengths': lengths, 'places': np.ascontiguousarray(offsets.T),
                'words': np.ascontiguousarray(batch.words.T), 'counts': np.ascontiguousarray(batch.counts.T),
                'lengths': batch.lengths}


def read_encoder(run: SavedRun) -> EncoderFiles:
    """The encoder of a run; raises CorpusError unless its files are the files that it was trained with.

    Other files that config.json names are not parsed: the run may come from somebody else.
    """
    path = run.path / run.config['encoder']['folder']            # which may be one elsewhere
    if not os.path.isdir(path):
        raise CorpusError(path, None, f'no such folder; {run.path / records.CONFIG} names it as the encoder of the '
                                      'run; put it back, or name it there anew')
    if checksum(paths_in(path)) != run.config['encoder']['sha256']:
        raise CorpusError(path, None, f'expected the encoder that {run.path} was trained with, got another or a '
                                      'damaged one; restore it or train again')
    return EncoderFiles(path)


def load_network(run: SavedRun) -> tuple[Tags, EncoderFiles, EncodedTagger]:
    """The tags and the encoder's files of a run, and its network with the weights of the best epoch, in 32 bits.

    Raises:
        CorpusError: something of the run is damaged or does not fit.
    """
    options = replace(run.options, precision='float32')
    vocabulary, files = run.vocabulary(Tags), read_encoder(run)
    tagger = build_tagger(options, vocabulary, files.sizes.width, run.scheme)
    if options.encoder_lr > 0:
        network = EncodedTagger(build_encoder(files.sizes), tagger)
        load_weights(run, network)
    else:
        load_weights(run, tagger)
        network = EncodedTagger(build_encoder(files.sizes, files.weights()), tagger)
    return vocabulary, files, network


def read_own_base(run: SavedRun) -> Base:
    """The base of a training, from its run."""
    vocabulary, _, network = load_network(run)
    arrays = records.as_arrays(network.trainable_params())
    encoder, tagger = ({name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
                       for prefix in ('encoder.', 'tagger.'))
    return Base(vocabulary.tags, tagger, encoder if run.options.encoder_lr > 0 else None)


@dataclass
class EncoderConfig:
    """What config.json of a run over an encoder holds beside what that of every run does."""

    encoder: dict
    text_sha256: str
    init: dict = checked(None)


@dataclass
class EncoderOrigin:
    """What its "encoder" holds: the folder of the encoder, and the checksum of its files."""

    folder: str
    sha256: str


class EncoderKind(Kind):
    """A pretrained encoder under BiLSTM layers."""

    name: ClassVar[str] = 'encoder'

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher,
                run: SavedRun | None = None) -> EncoderLearner:
        """What a training begins or resumes with."""
        if run is not None:
            return EncoderLearner(options, corpora, read_encoder(run), watcher, None, run.config.get('init'))
        base, record = None, None
        if options.init:                         # before the encoder, which may be one that only the base names
            before = read_base(cls, options.init)
            base, record = read_own_base(before), asdict(BaseRecord(before.digest))
        return EncoderLearner(options, corpora, EncoderFiles(options.encoder), watcher, base, record)

    @classmethod
    def shape(cls, run: SavedRun, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a training that begins with a run over an encoder, which may be named by another path."""
        options, encoder = run.options, run.config['encoder']
        path = str(run.path / encoder['folder'])
        if given.get('encoder') and checksum(paths_in(EncoderFiles(given['encoder']).path)) == encoder['sha256']:
            path = given['encoder']
        rate = given.get('encoder_lr', options.encoder_lr)
        if rate == 0 and options.encoder_lr > 0:
            raise OptionError(f'{argument("encoder_lr")} must be above 0, since {argument("init")} {run.path} has '
                              'tuned its encoder, got 0')
        return {**{name: getattr(options, name) for name in ('model', 'encoder_lstm', 'layers', 'head')},
                'encoder': path, 'encoder_lr': rate}

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """What the option `freeze` may name."""
        return ('lstm',) if options.encoder_lstm else ()

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError unless config.json names the encoder, and the text by its checksum."""
        record = load_record(EncoderConfig, config)
        load_record(EncoderOrigin, record.encoder)
        if record.init is not None:
            load_record(BaseRecord, record.init)

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> EncoderDecoder:
        """What tags with the model of a run; raises CorpusError if something of the run is damaged."""
        vocabulary, files, network = load_network(run)
        return EncoderDecoder(network.tagger, vocabulary, Reader(network.encoder), files, compiled)

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple[SubwordGraphInput, ServedSubwords]:
        """What makes the inputs of the graph of a run, and the cell to export."""
        vocabulary, files, network = load_network(run)
        return SubwordGraphInput(vocabulary, files.tokenizer, files.sizes.longest), ServedSubwords(network, output)

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> SubwordGraphInput:
        """What makes the inputs of a graph, from its record; raises ValueError if it is not of this type."""
        loaded = load_record(EncoderGraphRecord, record)
        graph_input = SubwordGraphInput(Tags.from_json(record, closed=False), tokenizer_of(loaded.tokenizer),
                                        loaded.longest)
        for key, ids in zip(('before_ids', 'behind_ids'), graph_input.specials):
            if record.get(key, ids.tolist()) != ids.tolist():
                raise wrong(key, f'{ids.tolist()}, as the tokenizer has them', brief(record[key]))
        return graph_input
