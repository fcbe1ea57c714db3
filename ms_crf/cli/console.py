"""What all commands share: one line for a fault, an end at once when interrupted, closed or full streams.

It imports little by itself, so that a command listens to Ctrl-C within the first hundredths of a second.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import NoReturn, TextIO, cast

from ms_crf.base.errors import visible
from ms_crf.base.processes import INTERRUPTED as INTERRUPTED
from ms_crf.base.processes import SIGNALS

FAULT = 2
REQUIRED = ('mindspore', 'numpy', 'tqdm')        # packages that requirements.txt names, for running
#: commands: the name that each has by itself, and what it does
VERBS = {'train': ('train.py', 'trains a tagger on tagged sentences'),
         'infer': ('infer.py', 'tags text with a trained tagger'),
         'export': ('ms_crf.export', 'writes a trained tagger as a MindIR graph'),
         'compare': ('ms_crf.compare', 'trains several kinds of model on the same files and compares them'),
         'evaluate': ('ms-crf evaluate', 'scores a model on tagged sentences'),
         'report': ('ms-crf report', 'writes a page about runs: scores, pictures, errors'),
         'convert': ('ms-crf convert', 'writes annotated text in another format'),
         'suggest': ('ms-crf suggest', 'finds the sentences whose annotation would teach a model most'),
         'serve': ('ms-crf serve', 'tags over HTTP, and shows a page to paste text into'),
         'tag-many': ('ms-crf tag-many', 'tags many files with several processes or machines')}
#: arguments of functions that commands take without an option
POSITIONAL = {'runs': 'RUN', 'source': 'IN', 'target': 'OUT'}
_program = None                                # the name that messages of this process begin with


def begin(program: str) -> None:
    """Makes this process a command; to be called before anything that takes long to import.

    From now on Ctrl-C, SIGTERM and SIGHUP end it at once, with one line and status 130. Otherwise MindSpore, if it is
    interrupted in the middle of a compilation, would print pages of traces and leave files behind. A signal that was
    ignored when the process began, as under nohup or in a background job of a script, stays ignored.

    Args:
        program: the name that messages begin with.
    """
    global _program
    _program = program
    _open_streams()
    for signal_number in SIGNALS:
        if signal.getsignal(signal_number) != signal.SIG_IGN:
            signal.signal(signal_number, leave)
        elif hasattr(signal, 'pthread_sigmask'):                 # MindSpore would set a handler while it compiles
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal_number})


def enter(verb: str, program: str | None = None, arguments: Sequence[str] | None = None) -> int:
    """Runs a command as this process; returns its exit status.

    Args:
        verb: one of `VERBS`.
        program: the name that it was called by, if that is not its own.
        arguments: of the command line, without the program's name; by default those of this process.
    """
    name = program or VERBS[verb][0]
    begin(name)
    import importlib
    status = run(name, lambda: importlib.import_module(f'ms_crf.cli.{verb.replace("-", "_")}').main(arguments))
    _let_go()
    # All is done, so signals are ignored from here on. MindSpore, while it ends, turns Ctrl-C into SIGTERM once more.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    return status


def program(verb: str) -> str:
    """The name that messages of a command begin with: the one that it was called by, or its own."""
    return _program or VERBS[verb][0]


def name_of(verb: str) -> str:
    """The name of a command in the way that this process was called: 'train.py', 'ms-crf train'."""
    name, _ = VERBS[verb]
    if _program is not None and ' ' in _program:
        return f'{_program.split()[0]} {verb}'
    return name


def call(verb: str) -> str:
    """How to call a command in the way that this process was called, such as 'python train.py' or 'ms-crf train'."""
    name = name_of(verb)
    return name if ' ' in name else f'python {name}' if name.endswith('.py') else f'python -m {name}'


def _open_streams() -> None:
    """Gives each closed standard stream a descriptor, which otherwise the next file that is opened would get, and lets
    standard output take all characters.

    Reading from a closed standard input and writing to a closed standard output still fail, as they should; what is
    written to a closed standard error is lost.
    """
    import io
    for descriptor, name, mode in ((0, 'stdin', os.O_WRONLY), (1, 'stdout', os.O_RDONLY), (2, 'stderr', os.O_RDWR)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)                            # takes the lowest number that is free
            raw = io.FileIO(descriptor, 'r' if descriptor == 0 else 'w', closefd=False)
            buffer = io.BufferedReader(raw) if descriptor == 0 else io.BufferedWriter(raw)
            setattr(sys, name, io.TextIOWrapper(buffer, 'utf-8', 'backslashreplace', line_buffering=descriptor == 2))
    for stream in (sys.stdout, sys.stderr):      # a character that the encoding of the terminal lacks is an escape
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors='backslashreplace')


def show(text: str = '', file: TextIO | None = None) -> None:
    """Prints one line; all lines of all commands are printed here, except tagged text.

    Tags, names of files and other data in the line are printed as `errors.visible` shows them, so that they cannot
    control the terminal.

    Args:
        text: the line, without its end.
        file: the stream (default: standard output).
    """
    print(visible(text), file=file, flush=True)


def use_utf8() -> None:
    """Lets standard output be UTF-8 in every locale; lone surrogates, which JSON may hold, are escaped."""
    cast(TextIOWrapper, sys.stdout).reconfigure(encoding='utf-8', errors='backslashreplace')


def say(text: str) -> None:
    """Prints a line on standard error, as `show` does; a closed or full standard error is ignored."""
    with suppress(OSError, ValueError, AttributeError):
        show(text, sys.stderr)


def leave(*_: object) -> NoReturn:
    """Ends the process at once; the handler of signals. Drafts of files are removed, and one line is printed."""
    for signal_number in SIGNALS:
        signal.signal(signal_number, lambda *_: os._exit(INTERRUPTED))     # a second signal does not wait for the rest
    files = sys.modules.get('ms_crf.base.files')      # without it nothing has been written yet
    if files is not None:
        files.remove_temporaries()
    with suppress(Exception):         # a stream that is being written to, or is full
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, ('\n' * os.isatty(2) + f'{_program or "ms_crf"}: stopped\n').encode())
    os._exit(INTERRUPTED)


def run(program: str, action: Callable[[], int]) -> int:
    """Calls a function, and reports in one line what goes wrong by the user's doing.

    Args:
        program: the name that the line begins with.
        action: a function without arguments that returns the exit status.

    Returns:
        The exit status.
    """
    from ms_crf.base.errors import CorpusError, NoRun, OptionError
    try:
        try:
            status = action()
        except SystemExit as asked:              # --help and --version have printed and end so
            status = asked.code if isinstance(asked.code, int) else 0
        sys.stdout.flush()
        return status
    except NoRun as error:
        say(f'{program}: {error}; make one with: {call("train")}')
    except (CorpusError, OptionError) as error:
        say(f'{program}: {error.with_options(option_name)}')
    except KeyboardInterrupt:
        say(f'{program}: stopped')
        return INTERRUPTED
    except BrokenPipeError:                      # whoever read has had enough
        silence(sys.stdout)
        return 0
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED:
            raise
        say(f'{program}: {error.name} is not installed: pip install ms_crf, or pip install -r requirements.txt')
    except MemoryError:
        say(f'{program}: not enough memory; close other programs, or use a smaller model or batches')
    except UnicodeEncodeError as error:          # of the name of a file, which came from another locale
        if error.encoding == 'utf-8' or error.encoding != sys.getfilesystemencoding():
            raise
        say(f'{program}: {error.object!a}: expected a name that this locale can write, in {error.encoding}; set '
            'PYTHONUTF8=1 or LC_ALL=C.UTF-8')
    except OSError as error:
        name = 'standard output cannot be written' if error.filename is None else error.filename
        say(f'{program}: {name}: {error.strerror or error}')
        if error.filename is None:
            silence(sys.stdout)
    return FAULT


def option_name(argument: str) -> str:
    """The name on the command line of an argument of a function: '--nbest' for 'nbest', 'RUN' for 'runs'."""
    return POSITIONAL.get(argument, f'--{argument.rstrip("_").replace("_", "-")}')


def silence(stream: TextIO) -> None:
    """Discards what is still to be written to a stream, which Python would complain about at its end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _let_go() -> None:
    """Flushes the streams for the last time; Python would report a failure in lines of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            silence(stream)
