"""Parsers of command lines, whose faults are reported in one line; files of options; plugins."""

import argparse
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ms_crf.environment import DEVICES
from ms_crf.errors import OptionError, brief, meant
from ms_crf.files import JSONFault, PathLike, json_of
from ms_crf.options import DIR, FILE, check_path

TEXT = 'TEXT'


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises OptionError where that would print and exit, and checks the names of files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.register('type', int, whole_number)
        self.register('type', float, real_number)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]
        """Parses a command line; for a misspelt option the message says which one was probably meant."""
        parsed, strange = self.parse_known_args(args, namespace)
        if strange:
            names = [name for action in self._actions for name in action.option_strings]
            name, _, _ = strange[0].partition('=')
            end = meant(name, names) if name.startswith('-') else _as_option(strange[0], names)
            raise OptionError(f'unrecognized arguments: {_joined(strange)}{end}')
        return parsed

    def parse_known_args(self, args: Sequence[str] | None = None,  # type: ignore[override]
                         namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        self._check_once(sys.argv[1:] if args is None else args)
        parsed, strange = super().parse_known_args(args, namespace)
        for action in self._actions:
            path = getattr(parsed, action.dest, None)
            if action.metavar in (FILE, DIR) and isinstance(path, str) and path is not action.default:
                name = max(action.option_strings, key=len)
                if not path and not getattr(action, 'may_be_empty', False):
                    raise OptionError(f'{name} must be a name, got nothing')
                check_path(name, path)
        return parsed, strange

    def _check_once(self, args: Sequence[str]) -> None:
        """Refuses a file or text that is named twice, since one would be ignored; other options may be repeated."""
        for action in self._actions:
            one = action.metavar in (FILE, DIR, TEXT) and not getattr(action, 'may_be_empty', False)
            if one and sum(arg.partition('=')[0] in action.option_strings for arg in args) > 1:
                raise OptionError(f'{max(action.option_strings, key=len)} is given twice, expected it once')

    def named(self, args: Sequence[str]) -> dict[str, Any]:
        """The values, by name, of the arguments that a command line names; those left at their defaults are missing."""
        defaults = [(action, action.default) for action in self._actions]
        try:
            for action in self._actions:
                action.default = argparse.SUPPRESS
            return vars(self.parse_args(args))
        finally:
            for action, default in defaults:
                action.default = default

    def error(self, message: str) -> NoReturn:
        hint = message.removeprefix('argument ').split(':')[0].split('/')[0]
        if message.endswith('expected one argument'):
            raise OptionError(f'{message}; one that begins with - is written {hint}=...')
        raise OptionError(message if message.endswith('?') else f'{message}; see --help')

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:                              # argparse would say nothing where this can't be written
            (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            own = f'; a custom model type needs {PLUGIN}' if action.dest == 'model' else ''
            raise argparse.ArgumentError(action, f'invalid choice: {brief(value)} (choose from {", ".join(choices)})'
                                                 f'{meant(value, choices, own)}')


def _as_option(argument: str, names: Sequence[str]) -> str:
    """The end of a message about an argument without the name of its option, of all names that there are."""
    known = [name for name in ('--input', '--text', '--train') if name in names]
    if os.path.exists(argument):
        known = [name for name in known if name != '--text'][:1]
    shown = ' or '.join(f'{name} {brief(argument)[1:-1]}' for name in known)
    return f'; did you mean {shown}?' if known else '; see --help'


def _joined(arguments: Sequence[str]) -> str:
    text = ' '.join(arguments)
    return text if text.isprintable() and len(text) <= 80 else brief(text)


def whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a whole number, got {brief(text)}') from None


def real_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a number, got {brief(text)}') from None


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


PLUGIN = '--plugin'


def add_common(group: argparse._ActionsContainer, computing: str = 'compute') -> None:
    """Adds the options that all commands have, --plugin and --device, to a parser or a group of one."""
    group.add_argument(PLUGIN, metavar='FILE', help='Python file that registers kinds of model of your own; it is '
                                                    'run; see the topic "Adding a model" in the documentation')
    group.add_argument('--device', choices=DEVICES, default='auto', help=f'where to {computing} (default: %(default)s)')


def add_model(group: argparse._ActionsContainer) -> None:
    """Adds --run and --mindir, of which `check_model` takes one, to a parser or a group of one."""
    group.add_argument('--run', metavar='DIR', help='run directory (default: the newest in runs/)')
    group.add_argument('--mindir', metavar='FILE', help='graph that ms_crf.export has made, with its .json beside it')


def check_model(parsed: argparse.Namespace) -> None:
    """Raises OptionError if a command line names two models."""
    if parsed.run and parsed.mindir:
        raise OptionError('--run and --mindir name two models, expected one of them')


def parse(parser: Callable[[], Parser], arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Parses a command line, after the plugin that it names has run; also returns the values that it names itself."""
    load_plugin(arguments)
    made = parser()
    return made.parse_args(arguments), made.named(arguments)


def load_plugin(arguments: Sequence[str]) -> None:
    """Runs the plugin that a command line names, before the command line is parsed: it may add choices of --model.

    Args:
        arguments: of the command line.

    Raises:
        OptionError: the plugin is not there, or fails.
    """
    pairs = [(argument.partition('='), after) for argument, after in zip(arguments, [*arguments[1:], ''])]
    for (name, equals, value), after in pairs:
        if name == PLUGIN:
            _load(value if equals else after)


def _load(path: str) -> None:
    if not os.path.isfile(path):
        raise OptionError(f'{PLUGIN} must be a Python file, got {path!r}, which is none')
    # A name in sys.modules, where MindSpore looks up the module of a function when it compiles it.
    name = f'ms_crf_plugin_{os.path.basename(path).partition(".")[0]}'
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f'{PLUGIN} must be a Python file whose name ends in .py, got {path!r}')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:     # whatever it raises is a fault of the plugin
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        line = getattr(error, 'lineno', None) if isinstance(error, SyntaxError) else lines[-1] if lines else None
        location = f'{path}:{line}' if line else path
        raise OptionError(f'{PLUGIN}: {location}: {type(error).__name__}: {error}') from None
