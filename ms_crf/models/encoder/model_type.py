"""The model type 'encoder', the tagger over a pretrained encoder: creating learners, loading and exporting runs."""

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
from ms_crf.models.encoder.learner import EncoderBase, EncoderDecoder, EncoderLearner, Reader
from ms_crf.models.encoder.network import EncodedTagger, SubwordExportCell, build_encoder, build_tagger
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
    """The additional fields in the record of a graph over an encoder."""

    tokenizer: str
    longest: int = checked(least=8, most=(1 << 31) - 1)


class SubwordGraphInput(GraphInput[Subwords]):
    """Converts sentences to the inputs of a graph over an encoder: windows of subwords, and the word of each subword.

    Args:
        vocabulary: the tags.
        tokenizer: tokenizer of the encoder.
        longest: largest number of subwords of a window, including special tokens.
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
        """The number and the length of the windows of a batch with this shape."""
        return window_shape(static[::-1], self.longest - self.specials.size, self.specials) if static else ()

    def tables(self) -> list[tuple[str, str, int, bool]]:
        """The tables of subword ids and of positions."""
        return [('.pieces', 'subwords', last_id(self.tokenizer) + 1, False),
                ('.positions', 'positions', self.longest, False)]

    def to_json(self) -> dict[str, Any]:
        """The data that another program needs to compute windows from sentences, and tags from outputs."""
        return {**self.vocabulary.to_json(), 'longest': self.longest, 'before_ids': self.specials.before.tolist(),
                'behind_ids': self.specials.after.tolist(), 'tokenizer': self.tokenizer.to_str()}

    def sizes(self, encoded: Subwords) -> np.ndarray:
        """The length of each sentence in a batch, the larger of its numbers of tokens and subwords: (sentences,)."""
        return encoded.sizes

    def arrays(self, encoded: Subwords, indices: np.ndarray, static: Static) -> dict[str, np.ndarray]:
        """The inputs by name, for the sentences with the indices `indices`."""
        batch = subword_batch(encoded, self.shape(encoded, indices, static), indices)
        ids, lengths, offsets = window_arrays(encoded, batch, indices, *self._windows(static))
        return {'pieces': ids, 'window_lengths': lengths, 'places': np.ascontiguousarray(offsets.T),
                'words': np.ascontiguousarray(batch.words.T), 'counts': np.ascontiguousarray(batch.counts.T),
                'lengths': batch.lengths}


def read_encoder(run: SavedRun) -> EncoderFiles:
    """The files of a run's encoder; raises CorpusError if they are missing, or differ from the files of the training.

    Checksums are compared before any file is parsed, because the run may come from someone else.
    """
    path = run.path / run.config['encoder']['folder']            # a folder in the run, or a path outside of it
    if not os.path.isdir(path):
        raise CorpusError(path, None, f'no such folder; it is the encoder in {run.path / records.CONFIG}; restore the '
                                      'folder, or enter its new path there')
    if checksum(paths_in(path)) != run.config['encoder']['sha256']:
        raise CorpusError(path, None, f'expected the encoder that {run.path} was trained with, got another or a '
                                      'damaged encoder; restore it or train again')
    return EncoderFiles(path)


def load_network(run: SavedRun) -> tuple[Tags, EncoderFiles, EncodedTagger]:
    """The tags of a run, the files of its encoder, and its network with the weights of the best epoch as float32.

    Raises:
        CorpusError: a file of the run is damaged or does not fit.
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


def encoder_base(run: SavedRun) -> EncoderBase:
    """The tags and weights of a base run."""
    vocabulary, _, network = load_network(run)
    arrays = records.as_arrays(network.trainable_params())
    encoder, tagger = ({name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
                       for prefix in ('encoder.', 'tagger.'))
    return EncoderBase(vocabulary.tags, tagger, encoder if run.options.encoder_lr > 0 else None)


@dataclass
class EncoderConfig:
    """The additional fields in config.json of a run over an encoder."""

    encoder: dict
    text_sha256: str
    init: dict = checked(None)


@dataclass
class EncoderOrigin:
    """The field "encoder" of config.json: the folder of the encoder, and the checksum of its files."""

    folder: str
    sha256: str


class EncoderKind(Kind):
    """The model type of BiLSTM layers over a pretrained encoder."""

    name: ClassVar[str] = 'encoder'

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher,
                run: SavedRun | None = None) -> EncoderLearner:
        """The learner of a new or resumed training."""
        if run is not None:
            return EncoderLearner(options, corpora, read_encoder(run), watcher, None, run.config.get('init'))
        base, record = None, None
        if options.init:                         # first, because the encoder may be in the folder of the base run
            base_run = read_base(cls, options.init)
            base, record = encoder_base(base_run), asdict(BaseRecord(base_run.digest))
        return EncoderLearner(options, corpora, EncoderFiles(options.encoder), watcher, base, record)

    @classmethod
    def shape(cls, run: SavedRun, user_options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that a training takes from its base run; the user may name the same encoder by another path."""
        options, encoder = run.options, run.config['encoder']
        path = str(run.path / encoder['folder'])
        user_path = user_options.get('encoder')
        if user_path and checksum(paths_in(EncoderFiles(user_path).path)) == encoder['sha256']:
            path = user_path
        rate = user_options.get('encoder_lr', options.encoder_lr)
        if rate == 0 and options.encoder_lr > 0:
            raise OptionError(f'{argument("encoder_lr")} must be above 0, because {argument("init")} {run.path} has '
                              'a fine-tuned encoder, got 0')
        return {**{name: getattr(options, name) for name in ('model', 'encoder_lstm', 'layers', 'head')},
                'encoder': path, 'encoder_lr': rate}

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """The names that the option `freeze` accepts."""
        return ('lstm',) if options.encoder_lstm else ()

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError unless config.json has valid fields for the encoder, the training text and the base run."""
        record = load_record(EncoderConfig, config)
        load_record(EncoderOrigin, record.encoder)
        if record.init is not None:
            load_record(BaseRecord, record.init)

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> EncoderDecoder:
        """A decoder with the model of a run; raises CorpusError if a file of the run is damaged."""
        vocabulary, files, network = load_network(run)
        return EncoderDecoder(network.tagger, vocabulary, Reader(network.encoder), files, compiled)

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple[SubwordGraphInput, SubwordExportCell]:
        """The `GraphInput` of the exported graph of a run, and the cell to export."""
        vocabulary, files, network = load_network(run)
        return SubwordGraphInput(vocabulary, files.tokenizer, files.sizes.longest), SubwordExportCell(network, output)

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> SubwordGraphInput:
        """The `GraphInput` of an exported graph, from its record; raises ValueError if the record is invalid."""
        loaded = load_record(EncoderGraphRecord, record)
        graph_input = SubwordGraphInput(Tags.from_json(record, closed=False), tokenizer_of(loaded.tokenizer),
                                        loaded.longest)
        for key, ids in zip(('before_ids', 'behind_ids'), graph_input.specials):
            if record.get(key, ids.tolist()) != ids.tolist():
                raise wrong(key, f'{ids.tolist()} as in the tokenizer', brief(record[key]))
        return graph_input
