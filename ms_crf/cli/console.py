"""What all commands share: one-line error messages, immediate end on signals, and closed or full streams.

This module imports little, so that a command handles Ctrl-C a few hundredths of a second after its start.
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
REQUIRED = ('mindspore', 'numpy', 'tqdm')        # packages of requirements.txt that are needed at run time
#: commands: standalone name, description
VERBS = {'train': ('train.py', 'trains a tagger on tagged sentences'),
         'infer': ('infer.py', 'tags text with a trained model'),
         'export': ('ms_crf.export', 'writes a trained model as a MindIR graph'),
         'compare': ('ms_crf.compare', 'trains several model types on the same files and compares their scores'),
         'evaluate': ('ms-crf evaluate', 'scores a model on tagged sentences'),
         'report': ('ms-crf report', 'writes an HTML report about runs: scores, charts, confusion matrix, errors'),
         'convert': ('ms-crf convert', 'converts annotated text to another format'),
         'suggest': ('ms-crf suggest', 'selects unlabelled sentences to annotate next (active learning)'),
         'serve': ('ms-crf serve', 'tags text over HTTP, with a JSON API and a demo page'),
         'tag-many': ('ms-crf tag-many', 'tags many files in parallel, with several processes or machines')}
#: arguments of functions that are positional on the command line, and their names in the help
POSITIONAL = {'runs': 'RUN', 'source': 'IN', 'target': 'OUT'}
_program = None                                # name of this command, with which its messages begin


def begin(program: str) -> None:
    """Sets up streams and signal handlers of a command; call this before any slow import.

    After this call Ctrl-C, SIGTERM and SIGHUP end the process at once, with one line and exit status 130. Without these
    handlers an interrupted compilation of MindSpore would print pages of stack traces and leave temporary files. A
    signal that is ignored at the start, as under nohup or in a background job of a script, stays ignored.

    Args:
        program: name of the command, with which its messages begin.
    """
    global _program
    _program = program
    _open_streams()
    for signal_number in SIGNALS:
        if signal.getsignal(signal_number) != signal.SIG_IGN:
            signal.signal(signal_number, leave)
        elif hasattr(signal, 'pthread_sigmask'):                 # or MindSpore would set a handler while compiling
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal_number})


def enter(verb: str, program: str | None = None, arguments: Sequence[str] | None = None) -> int:
    """Runs a command in this process and returns its exit status.

    Args:
        verb: a command, such as 'train'; see `VERBS`.
        program: name of the command in messages (default: its standalone name).
        arguments: command line without the program's name (default: command line of this process).
    """
    name = program or VERBS[verb][0]
    begin(name)
    import importlib
    status = run(name, lambda: importlib.import_module(f'ms_crf.cli.{verb.replace("-", "_")}').main(arguments))
    _flush_streams()
    # All work is done, so signals are ignored from here on. At its end MindSpore would turn Ctrl-C into SIGTERM again.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    return status


def program(verb: str) -> str:
    """Returns the name with which messages of a command begin: as it was called, or its standalone name."""
    return _program or VERBS[verb][0]


def name_of(verb: str) -> str:
    """Returns a command's name in the style in which this process was called: 'train.py' or 'ms-crf train'."""
    name, _ = VERBS[verb]
    if _program is not None and ' ' in _program:
        return f'{_program.split()[0]} {verb}'
    return name


def call(verb: str) -> str:
    """Returns a command's call in the style in which this process was called: 'python train.py' or 'ms-crf train'."""
    name = name_of(verb)
    return name if ' ' in name else f'python {name}' if name.endswith('.py') else f'python -m {name}'


def _open_streams() -> None:
    """Replaces closed standard streams, and makes standard output and error escape unencodable characters.

    Without replacement, the next opened file would get the file descriptor of the closed stream. Reading a closed
    standard input and writing to a closed standard output still fail. Output to a closed standard error is discarded.
    """
    import io
    for descriptor, name, mode in ((0, 'stdin', os.O_WRONLY), (1, 'stdout', os.O_RDONLY), (2, 'stderr', os.O_RDWR)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)                            # gets the lowest free descriptor
            raw = io.FileIO(descriptor, 'r' if descriptor == 0 else 'w', closefd=False)
            buffer = io.BufferedReader(raw) if descriptor == 0 else io.BufferedWriter(raw)
            setattr(sys, name, io.TextIOWrapper(buffer, 'utf-8', 'backslashreplace', line_buffering=descriptor == 2))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors='backslashreplace')


def show(text: str = '', file: TextIO | None = None) -> None:
    """Prints one line; commands print everything but tagged text with this function.

    `errors.visible` escapes control characters in tags, file names and other data, so that they cannot control the
    terminal.

    Args:
        text: the line without line end.
        file: output stream (default: standard output).
    """
    print(visible(text), file=file, flush=True)


def use_utf8() -> None:
    """Sets the encoding of standard output to UTF-8 in every locale; lone surrogates are escaped."""
    cast(TextIOWrapper, sys.stdout).reconfigure(encoding='utf-8', errors='backslashreplace')


def say(text: str) -> None:
    """Prints a line on standard error like `show`; errors of a closed or full standard error are ignored."""
    with suppress(OSError, ValueError, AttributeError):
        show(text, sys.stderr)


def leave(*_: object) -> NoReturn:
    """Signal handler that removes drafts, prints one line and ends the process at once."""
    for signal_number in SIGNALS:
        signal.signal(signal_number, lambda *_: os._exit(INTERRUPTED))     # a second signal ends without cleanup
    files = sys.modules.get('ms_crf.base.files')      # if not imported, there are no drafts
    if files is not None:
        files.remove_temporaries()
    with suppress(Exception):         # the stream is full, or the signal interrupted a write
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, ('\n' * os.isatty(2) + f'{_program or "ms_crf"}: stopped\n').encode())
    os._exit(INTERRUPTED)


def run(program: str, action: Callable[[], int]) -> int:
    """Calls a function and returns its exit status; errors caused by the user are printed as one line.

    Args:
        program: name of the command, with which the line begins.
        action: a function without arguments that returns an exit status.
    """
    from ms_crf.base.errors import CorpusError, NoRun, OptionError
    try:
        try:
            status = action()
        except SystemExit as end:                # raised by --help and --version after printing
            status = end.code if isinstance(end.code, int) else 0
        sys.stdout.flush()
        return status
    except NoRun as error:
        say(f'{program}: {error}; create one with: {call("train")}')
    except (CorpusError, OptionError) as error:
        say(f'{program}: {error.with_options(option_name)}')
    except KeyboardInterrupt:
        say(f'{program}: stopped')
        return INTERRUPTED
    except BrokenPipeError:                      # the reader of standard output has ended, such as `head`
        silence(sys.stdout)
        return 0
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED:
            raise
        say(f'{program}: {error.name} is not installed: pip install ms_crf, or pip install -r requirements.txt')
    except MemoryError:
        say(f'{program}: not enough memory; close other programs, or use a smaller model or batches')
    except UnicodeEncodeError as error:          # in the name of a file that was created in another locale
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
    """Returns the command line name of a function's argument: '--nbest' for 'nbest', 'RUN' for 'runs'."""
    return POSITIONAL.get(argument, f'--{argument.rstrip("_").replace("_", "-")}')


def silence(stream: TextIO) -> None:
    """Redirects a broken stream to the null device, so that Python prints no error about it at exit."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _flush_streams() -> None:
    """Flushes standard output and error at exit; silences a stream that fails, so that Python prints no error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            silence(stream)
