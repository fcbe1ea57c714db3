"""Command line parsers with one-line error messages, and the loading of plugins."""

import argparse
import functools
import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Container, Sequence
from dataclasses import fields
from typing import Any, NoReturn, get_args

from ms_crf.base.arguments import DIR, FILE, Arguments
from ms_crf.base.errors import OptionError, brief, meant, with_names
from ms_crf.cli import console
from ms_crf.models.opening import run_plugin

TEXT, PLUGIN = 'TEXT', '--plugin'
Named = dict[str, Any]         # values by the names of arguments
Action = Callable[[Namespace, Named], int | None]
Main = Callable[[Sequence[str] | None], int]


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises OptionError instead of printing and exiting, and rejects repeated files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        for kind, name in ((int, 'a whole number'), (float, 'a number')):
            self.register('type', kind, functools.partial(_number, kind, name))
        self.required: list[argparse.Action] = []        # checked last, after all other errors

    def parse_args(self, args: Sequence[str]) -> Namespace:  # type: ignore[override]
        """Parses a command line; the message about a misspelt option suggests the correct spelling."""
        self._check_once(args)
        parsed, strange = self.parse_known_args(args)
        if strange:
            names = [name for action in self._actions for name in action.option_strings]
            name, _, _ = strange[0].partition('=')
            end = meant(name, names, '; see --help') if name.startswith('-') else _as_option(strange[0], names)
            raise OptionError(f'unrecognized arguments: {_joined(strange)}{end}')
        missing = [action.option_strings[-1] for action in self.required if getattr(parsed, action.dest, None) is None]
        if missing:
            self.error(f'the following arguments are required: {", ".join(missing)}')
        return parsed

    def _check_once(self, args: Sequence[str]) -> None:
        """Raises OptionError if an option with a file or text is repeated; of other options the last value counts."""
        for action in self._actions:
            one = action.metavar in (FILE, DIR, TEXT) and not getattr(action, 'may_be_repeated', False)
            if one and sum(arg.partition('=')[0] in action.option_strings for arg in args) > 1:
                raise OptionError(f'{max(action.option_strings, key=len)} appears twice, expected it once')

    def error(self, message: str) -> NoReturn:
        hint = message.removeprefix('argument ').split(':')[0].split('/')[0]
        if message.endswith('expected one argument'):
            raise OptionError(f'{message}; write {hint}=... if the value begins with -')
        raise OptionError(message if message.endswith('?') else f'{message}; see --help')

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:                              # unlike argparse, this raises an error if it cannot be written
            (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            own = f'; a custom model type needs {PLUGIN}' if action.dest == 'model' else ''
            raise argparse.ArgumentError(action, f'invalid choice: {brief(value)} (choose from {", ".join(choices)})'
                                                 f'{meant(value, choices, own)}')


def _as_option(argument: str, names: Sequence[str]) -> str:
    """Returns the end of a message about an argument without an option; suggests an option, if `names` has it."""
    known = [name for name in ('--input', '--text', '--train') if name in names]
    if os.path.exists(argument):
        known = [name for name in known if name != '--text'][:1]
    shown = ' or '.join(f'{name} {brief(argument)[1:-1]}' for name in known)
    return f'; did you mean {shown}?' if known else '; see --help'


def _joined(arguments: Sequence[str]) -> str:
    text = ' '.join(arguments)
    return text if text.isprintable() and len(text) <= 80 else brief(text)


def _number(kind: type[float], name: str, text: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected {name}, got {brief(text)}') from None


def add_arguments(parser: argparse._ActionsContainer, kind: type[Arguments],
                  shown: Container[str] | None = None) -> None:
    """Adds an option for each field of a dataclass of arguments; if `shown` names fields, --help shows only these."""
    groups: dict[str, argparse._ActionsContainer] = {'': parser}
    for entry in fields(kind):  # type: ignore[arg-type] # subclasses are dataclasses
        metadata = entry.metadata
        if metadata['group'] not in groups:
            groups[metadata['group']] = parser.add_argument_group(metadata['group'])
        names = metadata.get('names', (*metadata.get('short', '').split(),
                                       f'--{entry.name.rstrip("_").replace("_", "-")}'))
        text = with_names(metadata['text'], console.option_name).replace('%', '%%')
        options: dict[str, Any] = {'default': entry.default,
                                   'help': text if shown is None or entry.name in shown else argparse.SUPPRESS}
        if metadata.get('positional'):
            names, options['nargs'] = (entry.name,), '*' if metadata.get('several') else '?'
        else:
            options['dest'] = entry.name
            if several := metadata.get('several'):
                options.update({'nargs': '+', 'action': 'extend'} if several is True else {'nargs': several})
        if entry.type is bool:
            negatable = metadata.get('negatable', entry.default is not False)
            options['action'] = argparse.BooleanOptionalAction if negatable else 'store_true'
        else:
            (kind_of_value,) = get_args(entry.type) or (entry.type,)
            options.update(type=kind_of_value if kind_of_value in (int, float) else str, choices=metadata['choices'],
                           metavar=metadata['metavar'])
        added = groups[metadata['group']].add_argument(*names, **options)
        if metadata.get('required'):
            parser.required.append(added)  # type: ignore[attr-defined] # of `Parser`
        added.may_be_repeated = metadata.get('recorded') or metadata.get('several')  # type: ignore[attr-defined]


def command_parser(verb: str, kind: type[Arguments], description: str | None) -> Parser:
    """Returns the parser of a command whose options are the fields of a dataclass of arguments."""
    result = Parser(prog=console.program(verb), formatter_class=Help, add_help=False, description=description)
    result.add_argument('--help', '-h', action='help', help='show this help and exit')
    add_arguments(result, kind)
    return result


def main_of(verb: str, parser: Callable[[], Parser], action: Action) -> Main:
    """Returns the `main` of a command.

    Args:
        verb: name of the command, such as 'train'.
        parser: function that creates its parser; it is called after the plugin has run.
        action: function that runs the command. It takes all parsed values, and a dict of only those arguments that the
            command line contains. It returns the exit status; None means 0.
    """
    def main(arguments: Sequence[str] | None = None) -> int:
        """Runs the command; returns its exit status."""
        words = sys.argv[1:] if arguments is None else arguments
        return console.run(console.program(verb), lambda: action(*parse(parser, words)) or 0)
    return main


def command(verb: str, kind: type[Arguments], action: Action) -> tuple[Callable[[], Parser], Main]:
    """Returns `parser` and `main` of a command, see `main_of`; the docstring of `action` is the help's introduction."""
    parser = functools.partial(command_parser, verb, kind, action.__doc__)
    return parser, main_of(verb, parser, action)


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Formats help for the width of the terminal, with the default of each option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=min(110, shutil.get_terminal_size().columns))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        without = action.default in (None, '', argparse.SUPPRESS) or action.default == [] or action.nargs == 0 and (
            not isinstance(action, argparse.BooleanOptionalAction))
        return action.help if without or '(default: ' in str(action.help) else super()._get_help_string(action)


def parse(parser: Callable[[], Parser], arguments: Sequence[str]) -> tuple[Namespace, Named]:
    """Runs the plugin of a command line, then parses it.

    Returns:
        All values, defaults included, and a dict of only those arguments that the command line contains.
    """
    load_plugin(arguments)
    created = parser()
    parsed = created.parse_args(arguments)
    for action in created._actions:
        action.default = argparse.SUPPRESS
    return parsed, vars(created.parse_args(arguments))


def load_plugin(arguments: Sequence[str]) -> None:
    """Runs the plugin that a command line names; this must precede parsing, as plugins add choices of --model.

    Args:
        arguments: command line without the program's name.

    Raises:
        OptionError: the plugin does not exist, or fails.
    """
    pairs = [(argument.partition('='), after) for argument, after in zip(arguments, [*arguments[1:], ''])]
    for (name, equals, value), after in pairs:
        if name == PLUGIN:
            run_plugin(value if equals else after)
