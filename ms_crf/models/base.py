"""The interface of a model type for training, tagging, export and comparison: protocols, tags and registration.

The protocols do not depend on any model type. The table of all model types is in `ms_crf.runs.model_types`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

from ms_crf.base.errors import CorpusError, OptionError, argument
from ms_crf.base.fields import Fault, checked, distinct_strings, load_record
from ms_crf.base.watchers import Watcher
from ms_crf.formats.dataset import Corpora
from ms_crf.formats.lines import half_of_pair
from ms_crf.runs import model_types
from ms_crf.runs.model_types import ModelType
from ms_crf.runs.options import STEP_OPTIONS, Options
from ms_crf.runs.run import SavedRun
from ms_crf.text.schemes import OPEN, completions

import numpy as np

if TYPE_CHECKING:                # at run time these imports would start MindSpore
    from ms_crf.models.graphs import ExportCell, GraphInput

    from mindspore import nn

# The tasks of a decoder, and the outputs of an exported graph.
PATHS = 'paths'                # the best path of each sentence
CONFIDENCES = 'confidences'    # the best paths and the posteriors of their tags
NBEST = 'nbest'                # the n best paths
EMISSIONS = 'emissions'        # score and history for the back-trace in another program; only of exported graphs

MOST_NBEST = 1000              # largest number of best paths of a sentence; memory and time grow with this number

#: a function that is called with length, rows and seconds after a graph was compiled
Compiled = Callable[[int, int, float], object]
#: the type of encoded sentences, different for each `Decoder`
E = TypeVar('E', bound='Encoded')
T = TypeVar('T', bound='Tags')
K = TypeVar('K', bound='type[Kind]')


def tag_names(tags: list[str]) -> Fault | None:
    """The error in the list of tags of a record, or None if the list is valid."""
    if (odd := half_of_pair(tags)) is not None:
        return 'Unicode', f'half of a pair of surrogates in {odd!a}'
    return distinct_strings(tags) if tags else ('a list of at least one', 'none')


@dataclass(kw_only=True)
class TagsRecord:
    """The fields of `Tags` in vocab.json."""

    tags: list[str] = checked(must=tag_names)
    of_characters: bool


class Tags:
    """The tags of a model; their ids begin at 0.

    Args:
        tags: strings.
        of_characters: whether the tokens of the training text are mostly single characters.

    Attributes:
        record: class attribute: a dataclass with the fields of vocab.json. Its field names are the names of the
            arguments and of the attributes.
    """

    record: ClassVar[type] = TagsRecord

    def __init__(self, tags: Iterable[str], of_characters: bool) -> None:
        self.tags, self.of_characters = list(tags), of_characters
        self._tag_ids = {tag: index for index, tag in enumerate(self.tags)}

    def gold(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The gold tags of sentences as ids, in the form that the head of a network takes.

        Args:
            sentences: lists of tags; tags may be open (unknown or partly known), see `ms_crf.text.partial`.

        Returns:
            For each sentence an array (tokens,) int32: the ids of its tags, -1 for a token that may have any tag. If
            some token may have several tags but not all, an array (tokens, tags) bool instead: the allowed tags.
        """
        ids = {**self._tag_ids, OPEN: -1}
        distinct = dict.fromkeys(tag for tags in sentences for tag in tags)
        if all(tag in ids for tag in distinct):
            return [np.array([ids[tag] for tag in tags], np.int32) for tags in sentences]
        return self.sets(sentences)

    def sets(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """The tags that each token may have: an array (tokens, tags) bool for each sentence."""
        rows = {}
        for tag in dict.fromkeys(tag for tags in sentences for tag in tags):
            rows[tag] = np.zeros(len(self.tags), bool)
            rows[tag][[self._tag_ids[other] for other in completions(tag, self.tags)]] = True
        return [np.array([rows[tag] for tag in tags]).reshape(len(tags), len(self.tags)) for tags in sentences]

    def to_json(self) -> dict:
        """The content of vocab.json."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self.record)}

    @classmethod
    def from_json(cls: type[T], record: object, closed: bool = True) -> T:
        """An object from the content of vocab.json.

        Args:
            record: the result of `to_json`, or a larger dict.
            closed: whether fields that `to_json` does not write are invalid.

        Raises:
            ValueError: the record is invalid.
        """
        return cls(**vars(load_record(cls.record, record, closed)))


class SentenceError(OptionError):
    """An error for a sentence that the model cannot take; `index` is the index of the sentence in the input, from 0."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f'sentence {index}: {reason}')
        self.index, self.reason = index, reason


class Encoded(Protocol):
    """Sentences in the form that a decoder takes."""

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each sentence: (sentences,)."""


class Decoder(Protocol[E]):
    """The interface of a model that tags sentences."""

    @property
    def tasks(self) -> frozenset[str]:
        """The supported tasks: some of PATHS, CONFIDENCES and NBEST."""

    @property
    def runs_graphs(self) -> bool:
        """Whether the decoder runs compiled graphs; threads must not run graphs at the same time."""

    @property
    def vocabulary(self) -> Tags:
        """The tags."""

    def encode(self, sentences: Sequence[list[str]]) -> E:
        """Converts non-empty lists of tokens to the input of `run`."""

    def run(self, encoded: E, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences in batches.

        Args:
            encoded: the result of `encode`.
            task: one of `tasks`.
            count: number of best paths, for 'nbest'. A batch has fewer if its longest sentence has fewer paths.

        Yields:
            The indices of the sentences of a batch, and a list of arrays whose first rows are these sentences:
            'paths': the best paths (B, L) and their scores (B,).
            'confidences': also the posterior of each tag of the best path (B, L), and the posterior of every tag
                given the previous tag of the path (B, L, K).
            'nbest': paths (B, n, L), scores (B, n), both posteriors of the first path, and the normalizer (B,).
        """


class Learner(Protocol):
    """The interface of a model type in training: the encoded corpora, and the model that is trained with them."""

    @property
    def vocabulary(self) -> Tags:
        """The tags and the rest of vocab.json; `to_json()` returns the content of vocab.json."""

    @property
    def encoded(self) -> Mapping[str, Encoded]:
        """The encoded sentences of 'train', 'dev' and, if there is a test file, 'test'."""

    def record(self) -> dict[str, Any]:
        """The fields of the model in config.json except its type, such as the checksums of files."""

    def fill(self, folder: Path) -> None:
        """Writes further files of the model into a new run directory; may raise OSError."""

    def decoder(self, network: 'nn.Cell', compiled: Compiled | None) -> Decoder:
        """A decoder that tags with `network`; `compiled` is called after each compilation of a graph.

        Both arguments are None for a model type that is not trained in steps.
        """


class StepLearner(Learner, Protocol):
    """The interface of a model type that is trained in steps: a batch for each step, with few different shapes."""

    def network(self) -> 'nn.Cell':
        """A new network with its initial weights.

        The network is a cell with `head`, a `Head` such as `CRF`, and `widths`, the sizes of the vectors to which
        dropout is applied; the first is the input of the network. Training calls the cell with the arrays of a batch
        and one dropout mask for each of `widths`; the cell returns the loss. Optional attributes and methods:

        - `row_table`: a Parameter. A step reads and updates only the rows that its batch names. The first array of a
          batch holds their ids: each id once, then padding. The cell is called with the rows instead of the ids.
        - `pretrained_params()`: Parameters with a learning rate of their own.
        - `parts()`: the Parameters of each part by name, if the model type has `parts`.
        - `tag_bias`: a Parameter (tags,) that is added to the tag scores at each position. The option `balance` shifts
          the entry of O after training.
        """

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """The batches of an epoch.

        Each batch is a tuple: its shape, the indices of its sentences, and any further arguments of `batch`. The shape
        begins with length and rows.
        """

    def batch(self, shape: Any, indices: np.ndarray, *others: Any) -> Iterable[np.ndarray]:
        """The arrays of a step; the arguments are a tuple from `plan`."""


class Kind:
    """The base class of a model type: subclass it and pass the class to `register`. All methods are class methods.

    Attributes:
        name: name of the model type in config.json and in the `Options` of a training.
        uses_mindspore: whether the model computes with MindSpore, and so on a device.
        in_steps: whether the model is trained in steps; then its learner is a `StepLearner`.
        options: names of the `Options` that the model uses; the general options of training in steps are always
            allowed.
    """

    name: ClassVar[str]
    uses_mindspore: ClassVar[bool] = True
    in_steps: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: SavedRun | None = None) -> Learner:
        """The learner of a new or resumed training.

        Args:
            options: options of the training.
            corpora: the sentences, all in one tag scheme.
            watcher: receives messages about the files that are read.
            run: the run to resume; None for a new training.
        """
        raise NotImplementedError

    @classmethod
    def shape(cls, run: SavedRun, user_options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that a training takes from its base run: the options that determine the shape of the network.

        A model type that overrides this method must support `options.init` in `learner`: the learner creates networks
        with the weights of that base run.

        Args:
            run: the base run, of this model type.
            user_options: the options that the user set for the training, and their values.
        """
        raise CorpusError(run.path, None, f'expected a run of a model type that supports {argument("init")}, '
                                          f'got a run of {cls.name}')

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """The names that the option `freeze` accepts: the parts of a network with these options.

        See `StepLearner.network`.
        """
        return ()

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError if a field that `Learner.record` wrote into config.json is missing or invalid."""

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> Decoder:
        """A decoder with the model of a run; raises CorpusError if a file of the run is damaged."""
        raise NotImplementedError

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple['GraphInput', 'ExportCell']:
        """The `GraphInput` of the exported graph of a run, and the cell to export.

        Args:
            run: the run to export.
            output: PATHS, CONFIDENCES or EMISSIONS.
        """
        raise CorpusError(run.path, None, f'expected a run of a neural network, got a run of {cls.name}, '
                                          'which has no graph to export')

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> 'GraphInput':
        """The `GraphInput` of an exported graph, from its record; raises ValueError if the record is invalid."""
        raise NotImplementedError


def register(kind: K) -> K:
    """Registers a model type under its name, for options and run directories; a class decorator.

    Raises:
        ValueError: the name is taken, or `options` of the model type has a name that is not in `Options`.
    """
    if kind.name in model_types.TYPES:
        raise ValueError(f'{kind.__name__}.name must be a new name, got {kind.name!r}, which is already registered')
    unknown = sorted({*kind.options} - {entry.name for entry in fields(Options)})
    if unknown:
        raise ValueError(f'options of the model type {kind.name} must be options of training, got {unknown[0]!r}')
    model_types.add(ModelType(kind.name, kind.name, kind, effects=frozenset([*STEP_OPTIONS, *kind.options]),
                              custom=True))
    return kind


def kind_of(options: Options) -> 'type[Kind]':
    """The model type that the options select."""
    return cast('type[Kind]', model_types.chosen(options.model, options).load())


def kind_of_run(run: SavedRun) -> 'type[Kind]':
    """The model type of a run."""
    return cast('type[Kind]', run.kind)


def kind_of_graph(record: dict[str, Any]) -> 'type[Kind] | None':
    """The model type of an exported graph, from its record; None if the model type is unknown."""
    row = model_types.of_graph(record)
    return None if row is None else cast('type[Kind]', row.load())
