"""Where model types are registered, and found by a name, by options, by a run, or by the record of a graph."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ms_crf.runs import model_types
from ms_crf.runs.model_types import ModelType
from ms_crf.runs.options import STEP_OPTIONS, Options
from ms_crf.runs.run import Run

if TYPE_CHECKING:                                # which imports this module
    from ms_crf.models.base import Kind

K = TypeVar('K', bound='type[Kind]')


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


def kind_of_run(run: Run) -> 'type[Kind]':
    """The model type of a run."""
    return cast('type[Kind]', run.kind)


def kind_of_graph(record: dict[str, Any]) -> 'type[Kind] | None':
    """The model type of an exported graph by the record next to it; None if it is unknown."""
    row = model_types.of_graph(record)
    return None if row is None else cast('type[Kind]', row.load())
