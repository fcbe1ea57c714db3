"""How every command speaks and ends: faults in one line, interruptions at once, streams that are closed or full.

It imports little by itself, so that a command listens to Ctrl-C within the first hundredths of a second.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO

FAULT, INTERRUPTED = 2, 130
SIGNALS = [getattr(signal, name) for name in ('SIGINT', 'SIGTERM', 'SIGHUP') if hasattr(signal, name)]
#: commands: the name that each has by itself, and what it does
VERBS = {'train': ('train.py', 'trains a tagger on tagged sentences'),
         'infer': ('infer.py', 'tags text with a trained tagger'),
         'export': ('ms_crf.export', 'writes a trained tagger as a MindIR graph'),
         'compare': ('ms_crf.compare', 'trains several kinds of model on the same files and compares them')}
_program = None                                # the name under which this process was started


def begin(program: str) -> None:
    """Makes this process a command: call it before anything that takes long to import.

    From now on Ctrl-C, SIGTERM and SIGHUP end it at once, with one line and status 130; MindSpore, which is
    interrupted anywhere in a compilation otherwise, would print pages of traces and leave files behind.

    Args:
        program: the name that its lines begin with.
    """
    global _program
    _program = program
    _open_streams()
    for signal_number in SIGNALS:
        if signal.getsignal(signal_number) != signal.SIG_IGN:    # nohup stays nohup
            signal.signal(signal_number, leave)


def enter(verb: str, program: str | None = None, arguments: Sequence[str] | None = None) -> int:
    """Runs a command from its first moment to its exit status.

    Args:
        verb: one of `VERBS`.
        program: the name that it was called by, if that is not its own.
        arguments: strings; those of the process without.
    """
    begin(program or VERBS[verb][0])
    import importlib
    status = importlib.import_module(f'ms_crf.{verb}').main(arguments)
    _let_go()
    # All is done and stays so while Python ends. MindSpore, as it ends, turns Ctrl-C into SIGTERM once more.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    return status


def program(verb: str) -> str:
    """The name of a command in its messages: that by which it was called, or its own."""
    return _program or VERBS[verb][0]


def call(verb: str) -> str:
    """How the user calls a command, where a message says what to do next: 'python train.py', or 'ms-crf train'."""
    name, _ = VERBS[verb]
    if _program is not None and ' ' in _program:
        return f'{_program.split()[0]} {verb}'
    return f'python {name}' if name.endswith('.py') else f'python -m {name}'


def _open_streams() -> None:
    """Gives a closed standard stream a descriptor, so that no file that is opened later takes its place.

    What is read from a closed standard input or written to a closed standard output fails, as it should; a closed
    standard error swallows it.
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


def say(text: str) -> None:
    """A line on standard error; where there is none, nothing."""
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def leave(*_: object) -> NoReturn:
    """Ends the process now, whatever it does; a signal's handler. Drafts are removed, one line says so."""
    for signal_number in SIGNALS:
        signal.signal(signal_number, lambda *_: os._exit(INTERRUPTED))     # who asks twice does not wait for this
    files = sys.modules.get('ms_crf.files')      # without it nothing has been written yet
    if files is not None:
        files.remove_temporaries()
    with suppress(Exception):         # a stream that is being written to, or is full
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, ('\n' * os.isatty(2) + f'{_program or "ms_crf"}: stopped\n').encode())
    os._exit(INTERRUPTED)


@contextmanager
def handling(handler: Callable[..., Any]) -> Iterator[None]:
    """Within the block, Ctrl-C, SIGTERM and SIGHUP call `handler`; what was ignored before stays so."""
    before = {signal_number: signal.getsignal(signal_number) for signal_number in SIGNALS}
    try:
        for signal_number, former in before.items():
            if former != signal.SIG_IGN:
                signal.signal(signal_number, handler)
        yield
    finally:
        for signal_number, former in before.items():
            signal.signal(signal_number, former)


def interrupt(*_: object) -> NoReturn:
    """A signal's handler where Python's own way is safe: waiting for a line, or for another process."""
    raise KeyboardInterrupt


def run(program: str, action: Callable[[], int]) -> int:
    """Calls `action` and turns what goes wrong by a user's doing into one line.

    Args:
        program: the name that the line begins with.
        action: a function without arguments; returns the exit status.

    Returns:
        The exit status.
    """
    from ms_crf.errors import CorpusError, OptionError
    try:
        try:
            status = action()
        except SystemExit as asked:              # --help and --version have printed and end so
            status = asked.code if isinstance(asked.code, int) else 0
        sys.stdout.flush()
        return status
    except (OptionError, CorpusError) as error:
        say(f'{program}: {error}')
    except KeyboardInterrupt:
        say(f'{program}: stopped')
        return INTERRUPTED
    except BrokenPipeError:                      # whoever read has had enough
        silence(sys.stdout)
        return 0
    except MemoryError:
        say(f'{program}: not enough memory; close other programs, or use a smaller model or batches')
    except OSError as error:
        say(f'{program}: {_place(error)}: {error.strerror or error}')
        if error.filename is None:
            silence(sys.stdout)
    return FAULT


def _place(error: OSError) -> str:
    return 'standard output can not be written' if error.filename is None else error.filename


def silence(stream: TextIO) -> None:
    """Sends what a stream still holds to nowhere; Python would complain when it closes the stream at its end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _let_go() -> None:
    """The last flush, whose failure Python would report in lines of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            silence(stream)
