"""Fine-tuning: a training takes network options and weights from another run, its base run (the option `init`).

The base run is only read, and only when the training begins. The new run contains everything that it needs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_crf.base.arguments import DIR, FILE
from ms_crf.base.errors import CorpusError, OptionError, argument, brief, meant
from ms_crf.base.fields import checked
from ms_crf.base.files import PathLike
from ms_crf.models.base import Kind, kind_of, kind_of_run
from ms_crf.runs.options import Options
from ms_crf.runs.run import SavedRun

import numpy as np

if TYPE_CHECKING:                                # at run time this import would start MindSpore
    from mindspore import nn

NAMED = 4                      # largest number of new tags that a line names
_PATHS = {entry.name for entry in fields(Options) if entry.metadata['metavar'] in (FILE, DIR)}


@dataclass
class BaseRecord:
    """The field "init" in config.json of a run with a base run."""

    sha256: str                # checksum of the model of the base run, see `SavedRun.digest`
    words: int = checked(0, least=0)             # number of words of the base run; they are the first of the new run
    characters: int = checked(0, least=0)        # the same for characters
    bigrams: int = checked(0, least=0)           # the same for bigrams


def with_base(record: Mapping[str, Any], user_options: Mapping[str, Any]) -> Options:
    """The `Options` of a new run; the base run determines the options that shape the network.

    Args:
        record: all options, with "init".
        user_options: the options that the user set, and their values.

    Raises:
        OptionError: the user set an option to another value than the base run, or the run would be written into the
            base run.
        CorpusError: the base run is missing or damaged, or its model type does not support fine-tuning.
    """
    run = SavedRun.open(record['init'])
    shape = kind_of_run(run).shape(run, user_options)
    options = Options(**{**record, **shape})
    for name, value in shape.items():
        if name in user_options and not _same(name, user_options[name], value) and not options.idle(name):
            raise OptionError(f'{argument(name)} must be {"none" if value == "" else value} as in {argument("init")} '
                              f'{run.path}, got {brief(user_options[name])}; omit it')
    _check_apart(options)
    check_freeze(options)
    return options


def _same(name: str, one: Any, other: Any) -> bool:
    """Whether two values of an option mean the same; two paths are the same if they lead to the same file."""
    if name in _PATHS and one and other:
        return os.path.realpath(one) == os.path.realpath(other)
    return one == other


def _check_apart(options: Options) -> None:
    """Raises OptionError if the training would write into the base run."""
    base = Path(os.path.realpath(options.init))
    save = Path(os.path.realpath(options.save))
    drafts = {save.with_name(f'.{save.name}.{ending}') for ending in ('new', 'old')}
    if base in (save, *save.parents) or base in drafts:
        raise OptionError(f'{argument("save")} must not be the run of {argument("init")} or a folder in it, got '
                          f'{options.save}; choose another folder')
    cache = Path(os.path.realpath(options.encoder_cache))
    if options.encoder_cache and base in (cache, *cache.parents):
        raise OptionError(f'{argument("encoder_cache")} must not be in the run of {argument("init")}, got '
                          f'{options.encoder_cache}; choose another folder')


def check_freeze(options: Options) -> None:
    """Raises OptionError if `freeze` names a part that the network does not have."""
    parts = kind_of(options).parts(options)
    for name in options.frozen():
        if name not in parts:
            known = f'some of {", ".join(parts)}' if parts else 'nothing for this model'
            raise OptionError(f'{argument("freeze")} must name {known}, got {brief(name)}{meant(name, parts, "")}')


def read_base(kind: type[Kind], folder: PathLike) -> SavedRun:
    """Opens a base run; raises CorpusError unless it is a run of this model type."""
    run = SavedRun.open(folder)
    if run.kind is not kind:
        raise CorpusError(folder, None, f'expected a base run of type {kind.name}, got a run of type {run.kind_name}')
    return run


def put_weights(network: 'nn.Cell', weights: Mapping[str, np.ndarray], before: Sequence[str],
                now: Sequence[str]) -> None:
    """Copies the weights of a base run into a network; weights of new tags keep their initial values.

    Args:
        network: a network with a `projection` to scores of tags, and a `head` whose weights have an entry for each tag
            on each of their axes.
        weights: arrays by the names of the parameters; tags are in the order of `before`.
        before, now: the tags of the base run, and of the network.
    """
    import mindspore as ms  # here, because options are read without MindSpore
    index = {tag: number for number, tag in enumerate(before)}
    known = [(number, index[tag]) for number, tag in enumerate(now) if tag in index]
    to, source = np.array(known, np.int64).reshape(-1, 2).T
    axes = {parameter.name: 1 for parameter in network.projection.trainable_params()}
    axes |= {parameter.name: parameter.ndim for parameter in network.head.trainable_params()}
    for parameter in network.trainable_params():
        array = weights[parameter.name]
        if parameter.name in axes:
            mixed, count = parameter.asnumpy().copy(), axes[parameter.name]
            mixed[np.ix_(*[to] * count)] = array[np.ix_(*[source] * count)]
            array = mixed
        if array.shape != parameter.shape:
            raise ValueError(f'expected {parameter.name} of shape {parameter.shape} in the base run, got {array.shape}')
        parameter.set_data(ms.Tensor(array))


def describe_inherited(options: Options, before: Sequence[str], now: Sequence[str], *others: str) -> str:
    """A line that describes which weights of a network come from its base run.

    Args:
        options: options of the training.
        before, now: the tags of the base run, and of the network.
        others: descriptions of other inherited weights.
    """
    new = [tag for tag in now if tag not in before]
    new_tags = ', '.join(new[:NAMED]) + (f' and {len(new) - NAMED} others' if len(new) > NAMED else '')
    tags = f'{len(now) - len(new)} of {len(now)} tags' + (f' (new: {new_tags})' if new else '')
    frozen = f'; frozen: {", ".join(options.frozen())}' if options.frozen() else ''
    return f'initialised from {options.init}: {", ".join((*others, tags))}{frozen}'
