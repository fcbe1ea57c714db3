"""The options of a training, from a file and from arguments: of a new run, or of a run that is resumed."""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, cast

from ms_crf.base.arguments import Arguments
from ms_crf.base.errors import OptionError, argument, meant
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.base.files import PathLike
from ms_crf.models.inheritance import with_base
from ms_crf.runs.arguments import TrainArguments
from ms_crf.runs.options import Options
from ms_crf.runs.run import Run

F = TypeVar('F', bound=Callable[..., Any])
#: options that a resumed training takes
ON_RESUME = ('epochs', 'patience', 'learning_rate', 'encoder_lr', 'train', 'dev', 'test')


def takes_options(*excluded: str) -> Callable[[F], F]:
    """Returns a decorator of functions with the parameter `**options`, which stands for the fields of `Options`.

    Help and editors show all options by name. The function receives paths as text; an unknown name is a TypeError.

    Args:
        excluded: options that the function refuses itself.
    """
    def decorate(function: F) -> F:
        own = inspect.signature(function)
        named = {name: parameter for name, parameter in own.parameters.items() if name != 'options'}
        for entry in fields(Options):
            kind: Any = entry.type
            named.setdefault(entry.name, inspect.Parameter(
                entry.name, inspect.Parameter.KEYWORD_ONLY, default=entry.default,
                annotation=kind | None if entry.default is None else kind))

        @functools.wraps(function)
        def call(**arguments: Any) -> Any:
            for name in arguments:
                if name not in named and name not in excluded:
                    raise TypeError(f'{function.__name__}() got an unexpected keyword argument {name!r}'
                                    f'{meant(name, named)}')
            return function(**{name: os.fspath(value) if isinstance(value, os.PathLike) else value
                               for name, value in arguments.items()})

        call.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[parameter for name, parameter in named.items() if name not in excluded])
        return cast(F, call)
    return decorate


def named_options(config: PathLike | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of all `Options` that a file of options or a mapping names; the mapping wins.

    Args:
        config: JSON file of options, or None.
        given: arguments by name; names of other arguments are ignored.
    """
    named = Options.read(read_option_file(config), config) if config is not None else {}
    names = {entry.name for entry in fields(Options)}
    return {**named, **{name: value for name, value in given.items() if name in names}}


def read_option_file(path: PathLike) -> Any:
    """The parsed JSON of a file; raises OptionError if it can't be read."""
    try:
        with open(path, encoding='utf-8-sig') as file:
            return json_of(file.read())
    except OSError as error:
        raise OptionError(f'{path}: can not be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise OptionError(f'{path}: expected UTF-8, got byte {error.object[error.start]:#04x}') from None
    except JSONFault as error:
        where = path if error.line is None else f'{path}:{error.line}'
        raise OptionError(f'{where}: expected a JSON object of options: {error}') from None


def new_options(named: Mapping[str, Any]) -> Options:
    """Returns the `Options` of a new run.

    Args:
        named: the options that were named, and their values.

    Raises:
        OptionError: one of them can't be, or has no effect beside the others.
        CorpusError: the run to begin with is missing or damaged.
    """
    record = {**Options().to_json(), **named}
    if 'train' in named:                                         # the sample's dev and test don't belong to it
        if 'dev' not in named:
            raise OptionError(f'{argument("train")} needs a {argument("dev")} beside it, tagged sentences to choose '
                              'the best epoch by, got none')
        record['test'] = named.get('test', '')
    options = Options(**record)
    if options.init:
        Arguments.check(options)                                 # the base is read by these values
        options = with_base(record, named)
    options.check()
    options.check_given(named)
    return options


def resumed_options(given: TrainArguments, named: Mapping[str, Any]) -> Options:
    """Returns the `Options` of a resumed run: those in its config.json, with others in place of some.

    Args:
        given: all other arguments; `resume` is the run directory.
        named: the options that were named, and their values.
    """
    if given.config is not None or given.overwrite or set(named) - set(ON_RESUME):
        allowed = ', '.join(map(argument, ('device', *ON_RESUME)))
        raise OptionError(f'{argument("resume")} takes {allowed} and nothing else: the run has its own options')
    run = Run.open(given.resume)
    before, options = run.options, run.options_with(**named)
    if (options.encoder_lr > 0) != (before.encoder_lr > 0):
        raise OptionError(f'{argument("encoder_lr")} can not be 0 before {argument("resume")} and more after it, or '
                          f'the other way round; the run has {before.encoder_lr:g}')
    options.check_given(named)
    return options
