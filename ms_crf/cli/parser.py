"""Parsers of command lines, whose faults are reported in one line; plugins."""

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
    """An `ArgumentParser` that raises OptionError where that would print and exit, and checks the names of files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        for kind, name in ((int, 'a whole number'), (float, 'a number')):
            self.register('type', kind, functools.partial(_number, kind, name))
        self.required: list[argparse.Action] = []        # missed only if nothing else is wrong

    def parse_args(self, args: Sequence[str]) -> Namespace:  # type: ignore[override]
        """Parses a command line; for a misspelt option the message says which one was probably meant."""
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
        """Refuses a file or text that is named twice, since one would be ignored; other options may be repeated."""
        for action in self._actions:
            one = action.metavar in (FILE, DIR, TEXT) and not getattr(action, 'may_be_repeated', False)
            if one and sum(arg.partition('=')[0] in action.option_strings for arg in args) > 1:
                raise OptionError(f'{max(action.option_strings, key=len)} appears twice, expected it once')

    def error(self, message: str) -> NoReturn:
        hint = message.removeprefix('argument ').split(':')[0].split('/')[0]
        if message.endswith('expected one argument'):
            raise OptionError(f'{message}; one that begins with - is written {hint}=...')
        raise OptionError(message if message.endswith('?') else f'{message}; see --help')

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:                              # argparse would say nothing where this can't be written
            (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: str) -> None:
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


def _number(kind: type[float], name: str, text: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected {name}, got {brief(text)}') from None


def add_arguments(made: argparse._ActionsContainer, kind: type[Arguments], shown: Container[str] | None = None) -> None:
    """Adds an option for each field of a dataclass of arguments; if `shown` names fields, --help shows only these."""
    groups: dict[str, argparse._ActionsContainer] = {'': made}
    for entry in fields(kind):  # type: ignore[arg-type] # subclasses are dataclasses
        about = entry.metadata
        if about['group'] not in groups:
            groups[about['group']] = made.add_argument_group(about['group'])
        names = about.get('names', (*about.get('short', '').split(),
                                    f'--{entry.name.rstrip("_").replace("_", "-")}'))
        text = with_names(about['text'], console.option_name).replace('%', '%%')
        options: dict[str, Any] = {'default': entry.default,
                                   'help': text if shown is None or entry.name in shown else argparse.SUPPRESS}
        if about.get('positional'):
            names, options['nargs'] = (entry.name,), '*' if about.get('several') else '?'
        else:
            options['dest'] = entry.name
            if several := about.get('several'):
                options.update({'nargs': '+', 'action': 'extend'} if several is True else {'nargs': several})
        if entry.type is bool:
            negatable = about.get('negatable', entry.default is not False)
            options['action'] = argparse.BooleanOptionalAction if negatable else 'store_true'
        else:
            (kind_of_value,) = get_args(entry.type) or (entry.type,)
            options.update(type=kind_of_value if kind_of_value in (int, float) else str, choices=about['choices'],
                           metavar=about['metavar'])
        added = groups[about['group']].add_argument(*names, **options)
        if about.get('required'):
            made.required.append(added)  # type: ignore[attr-defined] # of `Parser`
        added.may_be_repeated = about.get('recorded') or about.get('several')  # type: ignore[attr-defined]


def command_parser(verb: str, kind: type[Arguments], description: str | None) -> Parser:
    """The parser of a command whose options are the fields of a dataclass of arguments."""
    made = Parser(prog=console.program(verb), formatter_class=Help, add_help=False, description=description)
    made.add_argument('--help', '-h', action='help', help='show this and stop')
    add_arguments(made, kind)
    return made


def main_of(verb: str, parser: Callable[[], Parser], action: Action) -> Main:
    """Returns the `main` of a command.

    Args:
        verb: the command.
        parser: makes its parser, once the plugin has run.
        action: takes the parsed command line and, by name, the values that the command line names itself. It returns
            the exit status; None stands for 0.
    """
    def main(arguments: Sequence[str] | None = None) -> int:
        """Runs the command; returns its exit status."""
        words = sys.argv[1:] if arguments is None else arguments
        return console.run(console.program(verb), lambda: action(*parse(parser, words)) or 0)
    return main


def command(verb: str, kind: type[Arguments], action: Action) -> tuple[Callable[[], Parser], Main]:
    """Returns `parser` and `main` of a command whose help begins with the docstring of its action; see `main_of`."""
    parser = functools.partial(command_parser, verb, kind, action.__doc__)
    return parser, main_of(verb, parser, action)


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help as wide as the terminal, with the default of each option."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=min(110, shutil.get_terminal_size().columns))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        without = action.default in (None, '', argparse.SUPPRESS) or action.default == [] or action.nargs == 0 and (
            not isinstance(action, argparse.BooleanOptionalAction))
        return action.help if without or '(default: ' in str(action.help) else super()._get_help_string(action)


def parse(parser: Callable[[], Parser], arguments: Sequence[str]) -> tuple[Namespace, Named]:
    """Parses a command line, after the plugin that it names has run; also returns the values that it names itself."""
    load_plugin(arguments)
    made = parser()
    parsed = made.parse_args(arguments)
    for action in made._actions:
        action.default = argparse.SUPPRESS
    return parsed, vars(made.parse_args(arguments))


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
            run_plugin(value if equals else after)
