"""The table of model types: their names, the options that have an effect with them, and where their classes are.

It lies below the models, because `Options` takes its choices from it, and a run finds the class of its model by it. The
classes of the package stand here as 'module:class', and a class is imported when it is first needed: a model without
graphs does without MindSpore. `register` in `ms_crf.models.base` adds custom model types.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

DEFAULT = 'bilstm'


class ModelClass(Protocol):
    """What a run directory asks the class of its model; `ms_crf.models.base.Kind` has more."""

    name: ClassVar[str]
    uses_mindspore: ClassVar[bool]

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError unless config.json holds what the model needs there."""


@dataclass(frozen=True)
class ModelType:
    """A row of the table.

    Attributes:
        name: in config.json.
        model: the value of the option `model` that chooses it.
        home: its class, or 'module:class'.
        about: what help says of it.
        chosen_by: name of another option that must be set to choose it; '' for none.
        effects: of the options that depend on the model type, those that have an effect. None, in the package alone,
            for all that no other type names here.
        mark: of graphs of earlier versions, whose records do not name the type, the key that only its records have.
        custom: whether it is no part of the package.
    """

    name: str
    model: str
    home: str | type[ModelClass]
    about: str = ''
    chosen_by: str = ''
    effects: frozenset[str] | None = None
    mark: str = ''
    custom: bool = False

    def load(self) -> type[ModelClass]:
        """Its class."""
        if not isinstance(self.home, str):
            return self.home
        module, _, name = self.home.partition(':')
        return getattr(importlib.import_module(module), name)


TYPES: dict[str, ModelType] = {row.name: row for row in (
    ModelType(DEFAULT, DEFAULT, 'ms_crf.models.words.model_type:WordKind', 'to be trained'),
    ModelType('encoder', DEFAULT, 'ms_crf.models.encoder.model_type:EncoderKind', chosen_by='encoder',
              mark='tokenizer'),
    ModelType('hmm', 'hmm', 'ms_crf.models.hmm.model_type:HMMKind', 'a hidden Markov model, which is counted',
              effects=frozenset(['add'])),
)}
#: what the option `model` may be; `add` appends to it
MODELS: list[str] = list(dict.fromkeys(row.model for row in TYPES.values()))
HELP = ', or '.join(f'{row.model}, {row.about}' for row in TYPES.values() if row.about)


def add(row: ModelType) -> None:
    """Adds a custom model type."""
    TYPES[row.name] = row
    MODELS.append(row.model)


def chosen(model: str, options: object) -> ModelType:
    """The model type that options ask for, by the value of `model` and the options that choose between its types."""
    return [row for row in TYPES.values()
            if row.model == model and (not row.chosen_by or getattr(options, row.chosen_by))][-1]


def of_graph(record: Mapping[str, Any]) -> ModelType | None:
    """The model type of an exported graph by the record next to the graph; None if it is unknown."""
    earlier = next((row.name for row in TYPES.values() if row.mark and row.mark in record), DEFAULT)
    name = record.get('model', earlier)
    return TYPES.get(name) if isinstance(name, str) else None


def needs_of(option: str, model: str, needs: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """What an option that depends on the model type needs to have an effect, see `ms_crf.base.arguments.option`.

    Args:
        option: its name.
        model: the value of the option `model`.
        needs: what it needs of other options, with a type of the package.
    """
    custom = next((row for row in TYPES.values() if row.model == model and row.custom), None)
    if custom is not None:
        return {} if option in (custom.effects or ()) else {'model': ()}
    rows = [row for row in TYPES.values() if not row.custom]
    named = [row.model for row in rows if option in (row.effects or ())]
    models = named or [row.model for row in rows if row.effects is None]
    return {'model': tuple(dict.fromkeys(models)), **needs}
