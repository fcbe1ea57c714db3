"""The tagger over a pretrained encoder as a kind of model: what it learns from, how it tags, its graph.

A frozen encoder reads each sentence once, before the first epoch; a tuned one is part of the step.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.base.fields import checked, load_record
from ms_crf.formats.dataset import Corpora, digest_of
from ms_crf.models.base import Kind, Watcher, check_head, constraints_of
from ms_crf.models.bucketing import RowShape, cut_rows, plan, row_shapes, teaching
from ms_crf.models.encoder.graph import ServedSubwords, SubwordGraphInput
from ms_crf.models.encoder.network import EncodedTagger, SubwordTagger
from ms_crf.models.encoder.pretrained import EncoderFiles, Sizes, paths_in
from ms_crf.models.encoder.vectors import Reader
from ms_crf.models.encoder.windows import Subwords, specials_of, subword_batch, window_arrays, windows_at_most
from ms_crf.models.graphs import GraphDecoder, load_weights
from ms_crf.models.inheritance import BaseRecord, put_weights, read_base, taken_over
from ms_crf.models.labels import Tags
from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token
from ms_crf.nn.transformer import Encoder
from ms_crf.runs import records
from ms_crf.runs.checksums import checksum
from ms_crf.runs.options import Options
from ms_crf.text.splitting import mostly_characters

import mindspore as ms
import numpy as np


class EncoderLearner:
    """The corpora of a run as subwords.

    Args:
        options: of the training.
        corpora: its sentences, in one scheme.
        files: of the encoder.
        watcher: is told what is read.
        base: what the training begins with; None for nothing, or where it goes on.
        record: what config.json says of the base; None for nothing.
    """

    def __init__(self, options: Options, corpora: Corpora, files: EncoderFiles, watcher: Watcher,
                 base: 'Base | None' = None, record: dict | None = None) -> None:
        self.options, self.scheme, self.files, self._base, self._record = options, corpora.scheme, files, base, record
        self.tuned = options.encoder_lr > 0
        self._dev_digest = digest_of(corpora.parts['dev'])
        words = {token for sentence in corpora.parts['train'] for token in sentence.tokens}
        self.vocabulary = Tags(corpora.tags, mostly_characters(words))
        self.encoded = {
            part: Subwords([sentence.tokens for sentence in sentences], files.tokenizer, files.sizes.longest,
                         self.vocabulary.gold([sentence.tags for sentence in sentences])
                         if part == 'train' else None)
            for part, sentences in corpora.parts.items()}
        subwords = sum(int(encoded.counts.sum()) for encoded in self.encoded.values())
        tokens = sum(int(encoded.lengths.sum()) for encoded in self.encoded.values())
        watcher.say(f'{subwords / tokens:.2f} subwords a word; {files.sizes.layers} layers, {files.sizes.width} wide, '
                    f'{f"tuned at {options.encoder_lr:g}" if self.tuned else "frozen"}')
        self._shapes = row_shapes(self.encoded['train'].sizes, options.batch_size)
        self._teaching = teaching(self.encoded['train'].sizes, self.encoded['train'].tags or ())
        check_subwords(options, files.sizes, len(corpora.tags), self._shapes, subwords)
        self.checksum = checksum(files.paths())
        self._weights: dict[str, np.ndarray] | None = (base and base.encoder) or files.weights()
        if base is not None:
            watcher.say(taken_over(options, base.tags, self.vocabulary.tags, 'the encoder'))
        self._progress = watcher.progress
        if not self.tuned:
            encoder, self._weights = build_encoder(files.sizes, self._weights), None
            self._reader = Reader(encoder, self.checksum, options.encoder_cache or None)
            for part, encoded in self.encoded.items():
                began = time.perf_counter()
                with self._progress('encoding', len(encoded.windows), 'windows') as done:
                    encoded.vectors = self._reader.vectors(encoded, done)
                watcher.say(f'encoded {part}: {len(encoded.windows):,} windows in {time.perf_counter() - began:.1f} s')

    def record(self) -> dict:
        """What config.json says of the encoder, and of the text, that of training as ids."""
        folder = str(self.files.path.absolute()) if self.options.encoder_link else records.ENCODER
        text, encoded = hashlib.sha256(), self.encoded['train']
        for array in (encoded.ids, encoded.words, encoded.lengths, *(encoded.tags or ())):
            text.update(np.asarray(array, np.int32).tobytes())
        base = {} if self._record is None else {'init': self._record}
        return {'encoder': {'folder': folder, 'sha256': self.checksum},
                'text_sha256': text.hexdigest(), 'dev_sha256': self._dev_digest, **base}

    def fill(self, folder: Path) -> None:
        """Puts the encoder into a new run directory, unless it is linked to."""
        if not self.options.encoder_link:
            self.files.copy(folder / records.ENCODER)

    def network(self) -> SubwordTagger | EncodedTagger:
        """A new network with its first weights: a `SubwordTagger`, or an `EncodedTagger` if the encoder is tuned."""
        tagger = build_tagger(self.options, self.vocabulary, self.files.sizes.width, self.scheme)
        if self._base is not None:
            put_weights(tagger, self._base.tagger, self._base.tags, self.vocabulary.tags)
        return EncodedTagger(build_encoder(self.files.sizes, self._weights), tagger) if self.tuned else tagger

    def decoder(self, network: Any, compiled: Any) -> 'EncoderDecoder':
        """What tags with a network; `compiled` is called with length, rows and seconds after a graph was compiled."""
        reader, tagger = (Reader(network.encoder), network.tagger) if self.tuned else (self._reader, network)
        return EncoderDecoder(tagger, self.vocabulary, reader, self.files, compiled, self._progress)

    def plan(self, generator: np.random.Generator) -> list:
        """(shape, indices of sentences) of the batches of an epoch."""
        return plan(self._shapes, self._teaching, cut_rows, generator)

    def batch(self, shape: RowShape, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """The arrays of a step, of the sentences of these indices."""
        encoded = self.encoded['train']
        batch = subword_batch(encoded, shape, indices)
        if encoded.vectors is not None:
            return batch.vectors(encoded.vectors), *batch.words_and_tags
        windows = shape.rows * windows_at_most(shape.length, encoded.room)
        length = min(shape.length, encoded.room) + encoded.specials.size
        return *window_arrays(encoded, batch, indices, windows, length), *batch.words_and_tags


def _unseen(*_: object) -> Any:
    return contextlib.nullcontext()


class EncoderDecoder(GraphDecoder):
    """Tags with a network over an encoder.

    Args:
        network: above the encoder.
        vocabulary: its tags.
        reader: computes the vectors of subwords with the encoder.
        files: of the encoder.
        compiled: is called with length, rows and seconds after a graph was compiled.
        progress: `Watcher.progress`, to be told how far the encoder is; None for no one.
    """

    def __init__(self, network: SubwordTagger, vocabulary: Tags, reader: Reader, files: EncoderFiles,
                 compiled: Any = None, progress: Any = None) -> None:
        super().__init__(network, vocabulary, compiled)
        self.reader, self.files, self.progress = reader, files, progress or _unseen
        self._specials = specials_of(files.tokenizer)

    def encode(self, sentences: list) -> Subwords:
        """Lists of tokens, none of them empty, as `run` takes them."""
        return Subwords(sentences, self.files.tokenizer, self.files.sizes.longest, specials=self._specials)

    def inputs(self, encoded: Subwords, at_most: int) -> Iterator[tuple[tuple[int, int], np.ndarray, tuple]]:
        """(length, rows), indices of the sentences, and arrays of each batch: lengths, what `emissions_of` takes."""
        vectors = encoded.vectors
        if vectors is None:
            with self.progress('encoding', len(encoded.windows), 'windows') as done:
                vectors = self.reader.vectors(encoded, done)
        for shape, indices in self.plan(encoded.sizes, at_most):
            batch = subword_batch(encoded, shape, indices)
            yield shape, indices, (batch.lengths, batch.vectors(vectors), batch.words, batch.counts)


def build_tagger(options: Options, vocabulary: Tags, width: int, scheme: str) -> SubwordTagger:
    """The network of a run over an encoder whose vectors have this width; its weights are random."""
    layers = options.layers if options.encoder_lstm else 0
    network = SubwordTagger(width, len(vocabulary.tags), options.encoder_lstm, layers, options.head,
                          constraints_of(options, scheme, vocabulary.tags))
    if options.precision == 'mixed':
        network.layers.to_float(ms.float16)
    return network


def build_encoder(sizes: Sizes, weights: dict[str, np.ndarray] | None = None) -> Encoder:
    """The encoder of these sizes, with what `EncoderFiles.weights` gave, if anything."""
    encoder = Encoder(**sizes._asdict())
    if weights is not None:
        for parameter in encoder.get_parameters():
            parameter.set_data(ms.Tensor(weights[parameter.name]))
    return encoder


def read_encoder(folder: Any, config: dict) -> EncoderFiles:
    """The encoder of a run; raises CorpusError unless its files are those that it was trained with.

    Other files that config.json names are not parsed: the run may come from somebody else.
    """
    path = Path(folder) / config['encoder']['folder']            # which may be one elsewhere
    if not os.path.isdir(path):
        raise CorpusError(path, None, f'no such folder; {folder}/{records.CONFIG} names it as the encoder of the run; '
                                      'put it back, or name it there anew')
    if checksum(paths_in(path)) != config['encoder']['sha256']:
        raise CorpusError(path, None, f'expected the encoder that {folder} was trained with, got another or a damaged '
                                      'one; restore it or train again')
    return EncoderFiles(path)


def load_network(folder: Any, config: dict) -> tuple[Tags, EncoderFiles, EncodedTagger]:
    """The tags and the encoder's files of a run, and its network with the weights of the best epoch, in 32 bits.

    Raises:
        CorpusError: something of the run is damaged or doesn't fit.
    """
    options = replace(records.read_options(folder, config), precision='float32')
    vocabulary, files = records.read_vocabulary(folder, Tags), read_encoder(folder, config)
    tagger = build_tagger(options, vocabulary, files.sizes.width, config['scheme'])
    if options.encoder_lr > 0:
        network = EncodedTagger(build_encoder(files.sizes), tagger)
        load_weights(folder, network)
    else:
        load_weights(folder, tagger)
        network = EncodedTagger(build_encoder(files.sizes, files.weights()), tagger)
    return vocabulary, files, network


class Base(NamedTuple):
    """The run that a training over an encoder begins with."""

    tags: list[str]
    #: weights above the encoder, by name
    tagger: dict[str, np.ndarray]
    #: those of the encoder, as `EncoderFiles.weights` gives them, if the run has tuned it
    encoder: dict[str, np.ndarray] | None

    @classmethod
    def of(cls, folder: Any, config: dict) -> 'Base':
        """From a run directory, and what its config.json holds."""
        vocabulary, _, network = load_network(folder, config)
        tuned = records.read_options(folder, config).encoder_lr > 0
        encoder, tagger = ({name.removeprefix(prefix): array for name, array in records.as_arrays(
            cell.trainable_params()).items()} for prefix, cell in (('encoder.', network.encoder),
                                                                   ('tagger.', network.tagger)))
        return cls(vocabulary.tags, tagger, encoder if tuned else None)


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
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: Any = None) -> EncoderLearner:
        """What a training begins with, or goes on with."""
        base, record = None, None if run is None else run[1].get('init')
        if options.init and run is None:         # before the encoder, which may be what only the base names
            base = Base.of(options.init, read_base(cls, options.init))
            record = asdict(BaseRecord(records.model_digest(options.init)))
        files = EncoderFiles(options.encoder) if run is None else read_encoder(*run)
        return EncoderLearner(options, corpora, files, watcher, base, record)

    @classmethod
    def shape(cls, folder: Any, config: dict, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a training that begins with a run over an encoder, which may be named by another path."""
        options, encoder = records.read_options(folder, config).to_json(), config['encoder']
        path = str(Path(folder) / encoder['folder'])
        if given.get('encoder') and checksum(EncoderFiles(given['encoder']).paths()) == encoder['sha256']:
            path = given['encoder']
        rate = given.get('encoder_lr', options['encoder_lr'])
        if rate == 0 and options['encoder_lr'] > 0:
            raise OptionError(f'--encoder-lr must be above 0, since --init {folder} has tuned its encoder, got 0')
        return {**{name: options[name] for name in ('model', 'encoder_lstm', 'layers', 'head')}, 'encoder': path,
                'encoder_lr': rate}

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """What --freeze may name."""
        return ('lstm',) if options.encoder_lstm else ()

    @classmethod
    def check_config(cls, config: dict) -> None:
        """Raises ValueError unless config.json names the encoder, and the text by its checksum."""
        record = load_record(EncoderConfig, config)
        load_record(EncoderOrigin, record.encoder)
        if record.init is not None:
            load_record(BaseRecord, record.init)

    @classmethod
    def load(cls, folder: Any, config: dict, compiled: Any = None) -> EncoderDecoder:
        """From a run directory and what its config.json holds; raises CorpusError if something of it is damaged."""
        vocabulary, files, network = load_network(folder, config)
        return EncoderDecoder(network.tagger, vocabulary, Reader(network.encoder), files, compiled)

    @classmethod
    def exported(cls, folder: Any, config: dict, output: str) -> tuple[SubwordGraphInput, ServedSubwords]:
        """What the graph of a run is given, and the cell to export."""
        check_head(output, records.read_options(folder, config))
        vocabulary, files, network = load_network(folder, config)
        return SubwordGraphInput(vocabulary, files.tokenizer, files.sizes.longest), ServedSubwords(network, output)

    @classmethod
    def graph_input(cls, record: dict) -> SubwordGraphInput:
        """What a graph is given, from the record beside it; raises ValueError if it is not of this kind."""
        return SubwordGraphInput.from_json(record)


def check_subwords(options: Options, sizes: Sizes, tags: int, shapes: Sequence[RowShape], subwords: int) -> None:
    """Raises OptionError if a training over an encoder can't fit into the memory that is there.

    Args:
        options: of the training.
        sizes: of the encoder.
        tags: how many there are.
        shapes: of the batches.
        subwords: how many there are in all files.
    """
    def count(changed: Options) -> int:
        layers = changed.layers if changed.encoder_lstm else 0
        weights = layer_weights(sizes.width, changed.encoder_lstm, layers, tags, changed.head)
        step = max(shape.length * shape.rows for shape in shapes) * values_of_a_token(
            sizes.width, changed.encoder_lstm, layers, tags)
        kept = 0 if changed.encoder_lr > 0 or changed.encoder_cache else subwords * sizes.width
        return weights * copies(changed) + int(step * changed.batch_size / options.batch_size) + kept

    check_fits(options, count, 'these files and no --encoder-cache')
