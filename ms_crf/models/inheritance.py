"""What a training takes over from another run, its base: the options that shape the network, and weights by name.

The base is read only, and only when the training begins: the run that is made holds all that it needs itself.
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

if TYPE_CHECKING:                                # at run time it would start MindSpore
    from mindspore import nn

NAMED = 4                      # so many new tags are named in a line
_PATHS = {entry.name for entry in fields(Options) if entry.metadata['metavar'] in (FILE, DIR)}


@dataclass
class BaseRecord:
    """What config.json of a run that began with a base says of it: "init"."""

    sha256: str                # of its model, see `SavedRun.digest`
    words: int = checked(0, least=0)             # how many of the run's words, the first of them, are the base's
    characters: int = checked(0, least=0)        # the same of characters
    bigrams: int = checked(0, least=0)           # and of bigrams


def with_base(record: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
    """The `Options` of a new run with a base, which decides those that shape the network.

    Args:
        record: all options, with "init".
        given: those that were named, and their values.

    Raises:
        OptionError: one that was named is not as the base has it, or the run would be written into the base.
        CorpusError: there is no such run, it is damaged, or no training can begin with one of its kind.
    """
    run = SavedRun.open(record['init'])
    shape = kind_of_run(run).shape(run, given)
    options = Options(**{**record, **shape})
    for name, value in shape.items():
        if name in given and not _same(name, given[name], value) and not options.idle(name):
            raise OptionError(f'{argument(name)} must be {"none" if value == "" else value}, as {argument("init")} '
                              f'{run.path} has it, got {brief(given[name])}; leave it away')
    _check_apart(options)
    check_freeze(options)
    return options


def _same(name: str, one: Any, other: Any) -> bool:
    """Whether two values of an option mean the same; paths do if they lead to the same place."""
    if name in _PATHS and one and other:
        return os.path.realpath(one) == os.path.realpath(other)
    return one == other


def _check_apart(options: Options) -> None:
    """Raises OptionError if a folder that is written to is the base, or lies in it."""
    base = Path(os.path.realpath(options.init))
    save = Path(os.path.realpath(options.save))
    drafts = {save.with_name(f'.{save.name}.{ending}') for ending in ('new', 'old')}
    if base in (save, *save.parents) or base in drafts:
        raise OptionError(f'{argument("save")} must not be the run that {argument("init")} names, nor lie in it, got '
                          f'{options.save}; choose another folder')
    cache = Path(os.path.realpath(options.encoder_cache))
    if options.encoder_cache and base in (cache, *cache.parents):
        raise OptionError(f'{argument("encoder_cache")} must not lie in the run that {argument("init")} names, got '
                          f'{options.encoder_cache}; choose another folder')


def check_freeze(options: Options) -> None:
    """Raises OptionError if `freeze` names what the network of these options does not have."""
    parts = kind_of(options).parts(options)
    for name in options.frozen():
        if name not in parts:
            known = f'some of {", ".join(parts)}' if parts else 'nothing here'
            raise OptionError(f'{argument("freeze")} must name {known}, got {brief(name)}{meant(name, parts, "")}')


def read_base(kind: type[Kind], folder: PathLike) -> SavedRun:
    """A base; raises CorpusError unless it is a run of that model type."""
    run = SavedRun.open(folder)
    if run.kind is not kind:
        raise CorpusError(folder, None, f'expected a run of kind {kind.name} to begin with, got one of {run.kind_name}')
    return run


def put_weights(network: 'nn.Cell', weights: Mapping[str, np.ndarray], before: Sequence[str],
                now: Sequence[str]) -> None:
    """Gives a network the weights of its base; what belongs to tags that the base lacks stays as it is.

    Args:
        network: with a `projection` to scores of tags, and a `head` whose weights have an entry for each tag on all of
            their axes.
        weights: arrays by the names of its parameters, those of tags in the order of `before`.
        before, now: the tags of the base, and those of the network.
    """
    import mindspore as ms  # here, because options are read without it
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
            raise ValueError(f'expected {parameter.name} of shape {parameter.shape} in the base, got {array.shape}')
        parameter.set_data(ms.Tensor(array))


def taken_over(options: Options, before: Sequence[str], now: Sequence[str], *others: str) -> str:
    """One line about what a network has from its base.

    Args:
        options: of the training.
        before, now: the tags of the base, and those of the network.
        others: what it has beside tags.
    """
    new = [tag for tag in now if tag not in before]
    named = ', '.join(new[:NAMED]) + (f' and {len(new) - NAMED} others' if len(new) > NAMED else '')
    tags = f'{len(now) - len(new)} of {len(now)} tags' + (f' (new: {named})' if new else '')
    kept = f'; kept as they are: {", ".join(options.frozen())}' if options.frozen() else ''
    return f'taken over from {options.init}: {", ".join((*others, tags))}{kept}'
