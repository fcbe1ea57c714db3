"""The table of model types: their names, their classes, and the options that have an effect with each type.

The table is in this folder because `Options` takes the choices of `model` from it, and runs look up the classes of
their models in it. Classes of the package are listed as 'module:class' and imported at the first use, so that
a model without graphs does not import MindSpore. `register` in `ms_crf.models.base` adds custom model types.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

DEFAULT = 'bilstm'


class ModelClass(Protocol):
    """The members of a model class that a run directory uses; `ms_crf.models.base.Kind` has more."""

    name: ClassVar[str]
    uses_mindspore: ClassVar[bool]

    @classmethod
    def check_config(cls, config: dict[str, Any]) -> None:
        """Raises ValueError if config.json lacks a value that the model needs, or has an invalid one."""


@dataclass(frozen=True)
class ModelType:
    """A row of the table.

    Attributes:
        name: name of the model type in config.json.
        model: value of the option `model` that selects the type.
        model_class: the class, or its location as 'module:class'.
        description: text for the help of the option `model`.
        chosen_by: name of another option that must also be set to select the type; '' for none.
        effects: names of options that have an effect with this type, among the options that depend on the model type.
            None (only for types of the package) means all options that no other row lists.
        mark: a key that only graph records of this type have; it identifies graphs of earlier versions, whose records
            do not name the type.
        custom: whether the type was registered by a plugin or program.
    """

    name: str
    model: str
    model_class: str | type[ModelClass]
    description: str = ''
    chosen_by: str = ''
    effects: frozenset[str] | None = None
    mark: str = ''
    custom: bool = False

    def load(self) -> type[ModelClass]:
        """Imports and returns the class."""
        if not isinstance(self.model_class, str):
            return self.model_class
        module, _, name = self.model_class.partition(':')
        return getattr(importlib.import_module(module), name)


TYPES: dict[str, ModelType] = {row.name: row for row in (
    ModelType(DEFAULT, DEFAULT, 'ms_crf.models.words.model_type:WordKind',
              'a neural network with a BiLSTM or an encoder'),
    ModelType('encoder', DEFAULT, 'ms_crf.models.encoder.model_type:EncoderKind', chosen_by='encoder',
              mark='tokenizer'),
    ModelType('hmm', 'hmm', 'ms_crf.models.hmm.model_type:HMMKind', 'a hidden Markov model, estimated by counting',
              effects=frozenset(['add'])),
)}
#: choices of the option `model`; `add` appends to the list
MODELS: list[str] = list(dict.fromkeys(row.model for row in TYPES.values()))
HELP = 'model type: ' + '; '.join(f'{row.model}, {row.description}' for row in TYPES.values() if row.description)


def add(row: ModelType) -> None:
    """Adds a custom model type."""
    TYPES[row.name] = row
    MODELS.append(row.model)


def chosen(model: str, options: object) -> ModelType:
    """Returns the model type for a value of the option `model`; `options` may select between several types of it."""
    return [row for row in TYPES.values()
            if row.model == model and (not row.chosen_by or getattr(options, row.chosen_by))][-1]


def of_graph(record: Mapping[str, Any]) -> ModelType | None:
    """Returns the model type of an exported graph from the record next to the graph; None if it is unknown."""
    earlier = next((row.name for row in TYPES.values() if row.mark and row.mark in record), DEFAULT)
    name = record.get('model', earlier)
    return TYPES.get(name) if isinstance(name, str) else None


def needs_of(option: str, model: str, needs: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Returns the conditions for an option to have an effect, as `needs` of `ms_crf.base.arguments.option`.

    Args:
        option: name of an option that depends on the model type.
        model: value of the option `model`.
        needs: conditions on other options that apply to model types of the package.
    """
    custom = next((row for row in TYPES.values() if row.model == model and row.custom), None)
    if custom is not None:
        return {} if option in (custom.effects or ()) else {'model': ()}
    rows = [row for row in TYPES.values() if not row.custom]
    named = [row.model for row in rows if option in (row.effects or ())]
    models = named or [row.model for row in rows if row.effects is None]
    return {'model': tuple(dict.fromkeys(models)), **needs}
