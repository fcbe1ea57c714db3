"""All commands under one name: `ms-crf VERB ...`, the same as `python -m ms_crf VERB ...`."""

import sys
from collections.abc import Sequence

from ms_crf.cli import console

NAME = 'ms-crf'


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command named by the first argument; returns its exit status.

    Args:
        arguments: command line without the program's name (default: command line of this process).
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    console.begin(NAME)                                          # before any slow import
    if arguments and arguments[0] in console.VERBS:
        return console.enter(arguments[0], f'{NAME} {arguments[0]}', arguments[1:])
    return console.run(NAME, lambda: _overview(arguments))


def _overview(arguments: Sequence[str]) -> int:
    from ms_crf.base.errors import OptionError, brief, meant
    if arguments and arguments[0] in ('-V', '--version') and len(arguments) == 1:
        for line in version().splitlines():
            console.show(line)
    elif arguments and arguments[0] not in ('-h', '--help'):
        raise OptionError(f'expected one of the commands {", ".join(console.VERBS)}, got {brief(arguments[0])}'
                          f'{meant(arguments[0], console.VERBS, "; see --help")}')
    else:
        console.show(f'usage: {NAME} COMMAND ...')
        console.show()
        for verb, (_, text) in console.VERBS.items():
            console.show(f'  {verb:<10}{text}')
        console.show()
        console.show(f'{NAME} COMMAND --help shows the options of a command, {NAME} --version the installed versions.')
    return 0


def version() -> str:
    """Returns installed versions, such as 'ms_crf 0.3.0, MindSpore 2.10.0, NumPy 1.26.4, Python 3.11.7', and the
    implementation that computes on CPU; does not import the packages."""
    import platform
    from importlib import metadata

    from ms_crf.base.environment import VERSION
    from ms_crf.native import library

    def installed(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return 'not installed'

    return (f'ms_crf {VERSION}, MindSpore {installed("mindspore")}, NumPy {installed("numpy")}, '
            f'Python {platform.python_version()}\non CPU: {library.describe()}')

