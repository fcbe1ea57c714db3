"""Kinds of model of one's own in commands: --plugin FILE runs a Python program that registers them."""

import importlib.util
import os
import sys
import traceback

from ms_crf.errors import OptionError

OPTION = '--plugin'
HELP = 'Python file that registers kinds of model of your own, see docs/adding_a_model.md; it is run'


def add_option(group):
    """Adds the option to a parser, or to a group of it."""
    group.add_argument(OPTION, metavar='FILE', help=HELP)


def load_named(arguments):
    """Runs the program that a command line names, before the command line is read: it may add choices of --model.

    Args:
        arguments: strings.

    Raises:
        OptionError: the program is not there, or fails.
    """
    pairs = [(argument.partition('='), after) for argument, after in zip(arguments, [*arguments[1:], ''])]
    for (name, equals, value), after in pairs:
        if name == OPTION:
            _load(value if equals else after)


def _load(path):
    if not os.path.isfile(path):
        raise OptionError(f'{OPTION} must be a Python file, got {path!r}, which is none')
    # Its functions are compiled for graphs, for which MindSpore looks up the module.
    name = f'ms_crf_plugin_{os.path.basename(path).partition(".")[0]}'
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f'{OPTION} must be a Python file whose name ends in .py, got {path!r}')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:                   # whatever it raises is a fault of that program
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        line = getattr(error, 'lineno', None) if isinstance(error, SyntaxError) else lines[-1] if lines else None
        place = f'{path}:{line}' if line else path
        raise OptionError(f'{OPTION}: {place}: {type(error).__name__}: {error}') from None
