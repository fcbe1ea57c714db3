"""What every model type offers to training, tagging, export and comparison: protocols, tags, and their registration.

The protocols never ask which type a model has. The table of model types is `ms_crf.runs.model_types`.
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

if TYPE_CHECKING:                # at run time they would start MindSpore
    from ms_crf.models.graphs import GraphInput, Served

    from mindspore import nn

# What can be asked of a model that tags.
PATHS = 'paths'                # the best tags
CONFIDENCES = 'confidences'    # these, and what the posteriors say of them
NBEST = 'nbest'                # the n best taggings
EMISSIONS = 'emissions'        # score and history, for a walk back elsewhere; of exported graphs

MOST_NBEST = 1000              # taggings of a sentence that can be asked for; memory and time grow with them

#: is called with length, rows and seconds after a graph was compiled
Compiled = Callable[[int, int, float], object]
#: of the sentences that one `Decoder` encodes
E = TypeVar('E', bound='Encoded')
T = TypeVar('T', bound='Tags')
K = TypeVar('K', bound='type[Kind]')


def tag_names(tags: list[str]) -> Fault | None:
    """What is wrong with the tags of a record, or None."""
    if (odd := half_of_pair(tags)) is not None:
        return 'Unicode', f'half of a pair of surrogates in {odd!a}'
    return distinct_strings(tags) if tags else ('a list of at least one', 'none')


@dataclass(kw_only=True)
class TagsRecord:
    """What vocab.json holds of `Tags`."""

    tags: list[str] = checked(must=tag_names)
    of_characters: bool


class Tags:
    """The tags of a model, their ids counted from 0.

    Args:
        tags: strings.
        of_characters: whether it was trained on single characters.

    Attributes:
        record: of the class, a dataclass of what vocab.json holds, by the names of its arguments and attributes.
    """

    record: ClassVar[type] = TagsRecord

    def __init__(self, tags: Iterable[str], of_characters: bool) -> None:
        self.tags, self.of_characters = list(tags), of_characters
        self._tag_ids = {tag: index for index, tag in enumerate(self.tags)}

    def gold(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """What a model learns of the tags of sentences, as its head takes them.

        Args:
            sentences: lists of tags, of which some may be open, see `ms_crf.text.partial`.

        Returns:
            For each sentence the ids of its tags (tokens,) int32, -1 where any tag may stand. If there are tokens of
            which some tags are in question, and others not, then (tokens, tags) bool of all sentences: which may stand.
        """
        ids = {**self._tag_ids, OPEN: -1}
        distinct = dict.fromkeys(tag for tags in sentences for tag in tags)
        if all(tag in ids for tag in distinct):
            return [np.array([ids[tag] for tag in tags], np.int32) for tags in sentences]
        return self.sets(sentences)

    def sets(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Which tags the tokens of sentences may have: for each sentence (tokens, tags) bool."""
        rows = {}
        for tag in dict.fromkeys(tag for tags in sentences for tag in tags):
            rows[tag] = np.zeros(len(self.tags), bool)
            rows[tag][[self._tag_ids[other] for other in completions(tag, self.tags)]] = True
        return [np.array([rows[tag] for tag in tags]).reshape(len(tags), len(self.tags)) for tags in sentences]

    def to_json(self) -> dict:
        """What vocab.json is to hold."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self.record)}

    @classmethod
    def from_json(cls: type[T], record: object, closed: bool = True) -> T:
        """Raises ValueError if the record is not what `to_json` gave, or is not closed and lacks some of that."""
        return cls(**vars(load_record(cls.record, record, closed)))


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


class Decoder(Protocol[E]):
    """A model that tags."""

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that it can do, of PATHS, CONFIDENCES and NBEST."""

    @property
    def runs_graphs(self) -> bool:
        """Whether it computes in compiled graphs, in which threads have to take turns."""

    @property
    def vocabulary(self) -> Tags:
        """Its tags."""

    def encode(self, sentences: Sequence[list[str]]) -> E:
        """Lists of tokens, none of them empty, as `run` takes them."""

    def run(self, encoded: E, task: str = PATHS, count: int = 1) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """Tags sentences, batch by batch.

        Args:
            encoded: what `encode` returned.
            task: one of `tasks`.
            count: how many best paths; fewer come where the longest sentence of a batch has fewer.

        Yields:
            indices of the sentences of a batch, and arrays, whose first rows are these sentences: of 'paths' the
            best paths (B, L) and their scores (B,); of 'confidences' also the posterior of each tag of the paths
            (B, L), and that of every tag given the path's tag before it (B, L, K); of 'nbest' paths (B, n, L) and
            scores (B, n), these two of the first path, and the normaliser (B,).
        """


class Learner(Protocol):
    """The corpora of a run as a model type reads them, and the model that is learned from them."""

    @property
    def vocabulary(self) -> Tags:
        """Its tags, and whatever else vocab.json is to hold: `to_json()` returns it."""

    @property
    def encoded(self) -> Mapping[str, Encoded]:
        """'train', 'dev' and perhaps 'test' as the decoder reads them."""

    def record(self) -> dict[str, Any]:
        """What config.json says of the model next to its type, such as checksums of the files that it was made from."""

    def fill(self, folder: Path) -> None:
        """Puts further files into a new run directory; may raise OSError."""

    def decoder(self, network: 'nn.Cell', compiled: Compiled | None) -> Decoder:
        """What tags with a network; `compiled` is called after a graph was compiled.

        A model type that is not trained in steps is given None and None.
        """


class StepLearner(Learner, Protocol):
    """A model that is trained in steps, each on a batch of one of few shapes."""

    def network(self) -> 'nn.Cell':
        """A new network with its first weights.

        It is a cell with `widths`, of each place where values are dropped in training, the input first, and a `head`.
        Called with the arrays of a batch, and with a tensor for each of these places that the values there are
        multiplied with, it returns the loss.

        If it has a `row_table`, a Parameter, only the rows of it that a batch names are read and updated: the first
        array of a batch holds their ids, each once but for padding, and the cell is called with the rows themselves in
        place of the ids. If it has `pretrained_params()`, these learn at a rate of their own. If its type has `parts`,
        the method `parts()` gives the Parameters of each by name. If it has `tag_bias`, a Parameter (tags,) that
        is added to the scores of tags at each position, the option `balance` shifts its entry of O when the training
        is done.
        """

    def plan(self, generator: np.random.Generator) -> list[tuple]:
        """The batches of an epoch, each a tuple of its shape, which begins with length and rows, the indices of its
        sentences, and whatever else `batch` takes."""

    def batch(self, shape: Any, indices: np.ndarray, *others: Any) -> Iterable[np.ndarray]:
        """The arrays of a step, from what `plan` returned of it."""


class Kind:
    """A model type, to be subclassed and given to `register`; it has class methods only.

    Attributes:
        name: in config.json, and in the `Options` of a training.
        uses_mindspore: whether it computes with MindSpore, and so on a device.
        in_steps: whether it is trained in steps: its learner is a `StepLearner`.
        options: names of the `Options` that have an effect with it, next to those that every training in steps has.
    """

    name: ClassVar[str]
    uses_mindspore: ClassVar[bool] = True
    in_steps: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def learner(cls, options: Options, corpora: Corpora, watcher: Watcher, run: SavedRun | None = None) -> Learner:
        """What a training begins or resumes with.

        Args:
            options: of the training.
            corpora: its sentences, in one scheme.
            watcher: is told what is read.
            run: the run that is resumed; None for a new one.
        """
        raise NotImplementedError

    @classmethod
    def shape(cls, run: SavedRun, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options, by name, of a training that begins with a run of this type: those that shape the network.

        A type that writes it takes the run that `options.init` names in `learner`, which then makes networks with the
        weights of that run.

        Args:
            run: to begin with.
            given: the options that were named for the training, and their values.
        """
        raise CorpusError(run.path, None, f'expected a run that a training can begin with, got one of {cls.name}, '
                                          f'whose kind has no {argument("init")}')

    @classmethod
    def parts(cls, options: Options) -> tuple[str, ...]:
        """What the option `freeze` may name: parts of the network of these options, see `StepLearner.network`."""
        return ()

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError unless what `Learner.record` put into config.json is there and valid."""

    @classmethod
    def load(cls, run: SavedRun, compiled: Compiled | None = None) -> Decoder:
        """What tags with the model of a run; raises CorpusError if something of the run is damaged."""
        raise NotImplementedError

    @classmethod
    def exported(cls, run: SavedRun, output: str) -> tuple['GraphInput', 'Served']:
        """What makes the inputs of the graph of a run, and the cell to export.

        Args:
            run: to export.
            output: PATHS, CONFIDENCES or EMISSIONS.
        """
        raise CorpusError(run.path, None, f'expected a run of a network, got one of {cls.name}, which is no graph')

    @classmethod
    def graph_input(cls, record: dict[str, Any]) -> 'GraphInput':
        """What makes the inputs of a graph, from its record; raises ValueError if it is not of this type."""
        raise NotImplementedError


def register(kind: K) -> K:
    """Makes a model type known by its name, for options and run directories; a decorator of its class.

    Raises:
        ValueError: the name is taken, or the options of the type are no options of a training.
    """
    if kind.name in model_types.TYPES:
        raise ValueError(f'{kind.__name__}.name must be a new one, got {kind.name!r}, which is there already')
    strange = sorted({*kind.options} - {entry.name for entry in fields(Options)})
    if strange:
        raise ValueError(f'options of the model {kind.name} must be those of training, got {strange[0]!r}')
    model_types.add(ModelType(kind.name, kind.name, kind, effects=frozenset([*STEP_OPTIONS, *kind.options]),
                              custom=True))
    return kind


def kind_of(options: Options) -> 'type[Kind]':
    """The model type that options ask for."""
    return cast('type[Kind]', model_types.chosen(options.model, options).load())


def kind_of_run(run: SavedRun) -> 'type[Kind]':
    """The model type of a run."""
    return cast('type[Kind]', run.kind)


def kind_of_graph(record: dict[str, Any]) -> 'type[Kind] | None':
    """The model type of an exported graph by the record next to it; None if it is unknown."""
    row = model_types.of_graph(record)
    return None if row is None else cast('type[Kind]', row.load())
