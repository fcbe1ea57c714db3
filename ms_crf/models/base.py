"""The kinds of model: what each of them offers, and where it is found by its name.

Training, tagging, export and comparison speak to what is described here and never ask which kind a model is. No kind is
imported before it is needed, so that one without graphs does without MindSpore.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol

from ms_crf.base.environment import choose_device
from ms_crf.base.errors import CorpusError, OptionError, argument, brief
from ms_crf.base.fields import found_in
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.models.labels import Tags
from ms_crf.runs import records
from ms_crf.runs.options import Options, add_model
from ms_crf.text.partial import MARK

import numpy as np

# What can be asked of a model that tags.
PATHS = 'paths'                # the best tags
CONFIDENCES = 'confidences'    # these, and what the posteriors say of them
NBEST = 'nbest'                # the n best taggings
EMISSIONS = 'emissions'        # score and history, for a walk back elsewhere; of exported graphs

MOST_NBEST = 1000              # taggings of a sentence that can be asked for; memory and time grow with them


class SentenceError(OptionError):
    """A sentence that the model can't take; `index` says which, from 0, of all that it was asked to tag."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f'sentence {index}: {reason}')
        self.index, self.reason = index, reason


class Encoded(Protocol):
    """Sentences as a model reads them."""

    @property
    def lengths(self) -> np.ndarray:
        """(sentences,) tokens of each."""


class Decoder(Protocol):
    """A model that tags."""

    @property
    def tasks(self) -> frozenset:
        """Those of PATHS, CONFIDENCES and NBEST that it serves."""

    @property
    def runs_graphs(self) -> bool:
        """Whether it computes in compiled graphs, in which threads have to take turns."""

    @property
    def vocabulary(self) -> Tags:
        """Its tags."""

    def encode(self, sentences: list) -> Encoded:
        """Lists of tokens, none of them empty, as `run` takes them."""

    def run(self, encoded: Any, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list]]:
        """Tags sentences, batch by batch.

        Args:
            encoded: what `encode` gave.
            task: one of `tasks`.
            count: how many best paths; fewer come where the longest sentence of a batch has fewer.

        Yields:
            indices of the sentences of a batch, and arrays, whose first rows are these sentences: of 'paths' the
            best paths (B, L) and their scores (B,); of 'confidences' also the posterior of each tag of the paths
            (B, L), and that of every tag given the path's tag before it (B, L, K); of 'nbest' paths (B, n, L) and
            scores (B, n), these two of the first path, and the normaliser (B,).
        """


class Learner(Protocol):
    """The corpora of a run as a kind of model reads them, and the model that is learned from them."""

    @property
    def vocabulary(self) -> Tags:
        """Its tags, and whatever else vocab.json is to hold: `to_json()` gives that."""

    @property
    def encoded(self) -> dict:
        """'train', 'dev' and perhaps 'test' as the decoder reads them."""

    def record(self) -> dict:
        """What config.json says of the model beside its kind, such as checksums of the files that it was made from."""

    def fill(self, folder: Any) -> None:
        """Puts further files into a new run directory; may raise OSError."""

    def decoder(self, network: Any, compiled: Any) -> Decoder:
        """What tags with a network; `compiled` is called with length, rows and seconds after a graph was compiled.

        A kind that is not trained in steps is given None and None.
        """


class StepLearner(Learner, Protocol):
    """A model that is trained in steps, each on a batch of one of few shapes."""

    def network(self) -> Any:
        """A new network with its first weights.

        It is a cell with `widths`, of each place where values are dropped in training, the input first, and a `head`.
        Called with the arrays of a batch, and with a tensor for each of these places that the values there are
        multiplied with, it gives the loss.

        If it has a `row_table`, a Parameter, only the rows of it that a batch names are read and updated: the first
        array of a batch holds their ids, each once but for padding, and the cell is called with the rows themselves in
        place of the ids. If it has `pretrained_params()`, these learn at a rate of their own. If its kind has `parts`,
        the method `parts()` gives the Parameters of each by name. If it has `tag_bias`, a Parameter (tags,) that
        is added to the scores of tags at each position, --balance shifts what it has of O when the training is done.
        """

    def plan(self, generator: np.random.Generator) -> list:
        """(shape, indices of sentences) of the batches of an epoch; `batch` makes those of the last one planned."""

    def batch(self, shape: Any, indices: np.ndarray) -> Iterable[np.ndarray]:
        """The arrays of a step, of the sentences of these indices."""


class Kind:
    """A kind of model, to be subclassed and given to `register`; it has class methods only.

    Attributes:
        name: in config.json, and in the `Options` of a training.
        uses_mindspore: whether it computes with MindSpore, and so on a device.
        in_steps: whether it is trained in steps: its learner is a `StepLearner`.
        options: names of the `Options` that mean something to it, beside those that every training in steps has.
    """

    name: ClassVar[str]
    uses_mindspore: ClassVar[bool] = True
    in_steps: ClassVar[bool] = True
    options: ClassVar[tuple] = ()

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: Any = None) -> Learner:
        """What a training begins with, or goes on with.

        Args:
            options: of the training.
            corpora: its sentences, in one scheme.
            watcher: is told what is read.
            run: (folder, config) of the run that goes on, or None for a new one.
        """
        raise NotImplementedError

    @classmethod
    def shape(cls, folder: Any, config: dict, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options, by name, of a training that begins with a run of this kind: those that shape the network.

        A kind that writes it takes what `options.init` names in `learner`, which then gives networks with the weights
        of that run.

        Args:
            folder, config: the run directory, and what its config.json holds.
            given: the options that were named for the training, and their values.
        """
        raise CorpusError(folder, None, f'expected a run that a training can begin with, got one of {cls.name}, whose '
                                        'kind has no --init')

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """What --freeze may name: parts of the network that these options make, see `StepLearner.network`."""
        return ()

    @classmethod
    def check_config(cls, config: dict) -> None:
        """Raises ValueError unless what `Learner.record` put into config.json is there and can be."""

    @classmethod
    def load(cls, folder: Any, config: dict, compiled: Any = None) -> Decoder:
        """From a run directory and what its config.json holds; raises CorpusError if something of it is damaged."""
        raise NotImplementedError

    @classmethod
    def exported(cls, folder: Any, config: dict, output: str) -> tuple[Any, Any]:
        """What an exported graph of a run is given, a `GraphInput`, and the cell to export, a `Served`.

        Args:
            folder, config: the run directory, and what its config.json holds.
            output: PATHS, CONFIDENCES or EMISSIONS.
        """
        raise CorpusError(folder, None, f'expected a run of a network, got one of {cls.name}, which is no graph')

    @classmethod
    def graph_input(cls, record: dict) -> Any:
        """The `GraphInput` of a graph, from the record beside it; raises ValueError if it is not of this kind."""
        raise NotImplementedError


_KINDS: dict[str, str | type[Kind]] = {
    'bilstm': 'ms_crf.models.words.model:WordKind',
    'encoder': 'ms_crf.models.encoder.model:EncoderKind',
    'hmm': 'ms_crf.models.hmm.model:HMMKind',
}


def register(kind: type[Kind]) -> type[Kind]:
    """Makes a kind of model known by its name, for options as for run directories; a decorator of its class.

    Raises:
        ValueError: there is another of this name.
    """
    if kind.name in _KINDS:
        raise ValueError(f'{kind.__name__}.name must be a new one, got {kind.name!r}, which is there already')
    add_model(kind.name, kind.options)
    _KINDS[kind.name] = kind
    return kind


def kind_named(name: str) -> type[Kind]:
    """The kind of that name, which must be there."""
    kind = _KINDS[name]
    if isinstance(kind, str):
        module, _, attribute = kind.partition(':')
        kind = _KINDS[name] = getattr(importlib.import_module(module), attribute)
    return kind


def kind_of(options: Options) -> type[Kind]:
    """The kind of model that options ask for."""
    return kind_named('encoder' if options.encoder and options.model == 'bilstm' else options.model)


def read_run(folder: Any) -> tuple[type[Kind], dict]:
    """The kind of a run, and what its config.json holds; raises CorpusError unless both can be."""
    config, path = records.read_config(folder), records.config_path(folder)
    name = config.get('model')
    if not isinstance(name, str) or name not in _KINDS:
        raise CorpusError(path, None, f'expected "model" to be {" or ".join(_KINDS)}, got {brief(name)}; if it is a '
                                      'kind of your own, load the program that registers it as a plugin (--plugin); if '
                                      'another version of ms_crf made it, train again')
    kind = kind_named(name)
    with found_in(path):
        kind.check_config(config)
    return kind, config


def device_for(name: str, *paths: Any, watcher: Watcher = SILENT) -> str | None:
    """Makes MindSpore compute on a device, if one of some models computes with MindSpore.

    Args:
        name: of the device, see `choose_device`.
        paths: run directories, and exported graphs, whose names end in .mindir.
        watcher: see there.

    Returns:
        The device's name; None if MindSpore is not needed.

    Raises:
        OptionError: the device does not work here, or the models compute on the CPU.
    """
    kinds = [None if str(path).endswith('.mindir') else read_run(path)[0] for path in paths]
    if any(kind is None or kind.uses_mindspore for kind in kinds):
        return choose_device(name, watcher)
    if name not in ('auto', 'CPU'):
        found = ' and '.join(f'{path}, of kind {kind.name}' for path, kind in zip(paths, kinds) if kind)
        raise OptionError(f'{argument("device")} {name} means nothing to {found}, which computes on the CPU; leave it '
                          'away')
    return None


def kind_of_graph(record: dict) -> type[Kind] | None:
    """The kind of an exported graph by the record beside it; None if that is none of them."""
    # Earlier records don't name it: only those of encoders have a tokenizer.
    name = record.get('model', 'encoder' if 'tokenizer' in record else 'bilstm')
    return kind_named(name) if isinstance(name, str) and name in _KINDS else None


def unknown_tag_of(path: Any, tags: Iterable[str]) -> str:
    """Returns the mark for unknown tags in files for a model: the mark of the training, or '?' for an exported graph
    unless '?' is one of its tags."""
    if str(path).endswith('.mindir'):
        return '' if MARK in tags else MARK
    return records.read_options(path, records.read_config(path)).unknown_tag


def tags_of(decoder: Decoder, encoded: Encoded) -> list:
    """Lists of tags for all sentences, in their order."""
    names = decoder.vocabulary.tags
    tagged: list = [None] * len(encoded.lengths)
    for indices, (paths, *_) in decoder.run(encoded):
        for row, index in enumerate(indices):
            tagged[index] = [names[tag] for tag in paths[row, :encoded.lengths[index]]]
    return tagged


def constraints_of(options: Options, scheme: str, tags: list) -> Any:
    """What the `CRF` of a training takes as constraints: what the scheme allows, or None for everything."""
    from ms_crf.text.schemes import PLAIN, allowed_transitions
    if options.head == 'crf' and options.constraints and scheme != PLAIN:
        return allowed_transitions(scheme, tags)
    return None


def check_head(output: str, options: Options) -> None:
    """Raises OptionError if a run has not what an export is to give."""
    if output == EMISSIONS and options.head != 'crf':
        raise OptionError('emissions can be exported of a run with the head crf only, got softmax: there is nothing to '
                          'trace back')
